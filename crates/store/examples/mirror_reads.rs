//! Reads of a mirror of two devices, by the caller and by a thread that the caller need not wait for.
//!
//!     cargo run --release -p strongroom-store --example mirror_reads -- [FILE FILE]
//!
//! Two files are read past the cache of the system; without files the devices are in memory, which shows what the other
//! thread costs. Both ways take turns; each line has the microseconds of a read in the median of the rounds.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use block::{BlockDevice, FileDevice, MemoryDevice};
use store::{CreateOptions, NewGroup, SegmentId, Store};

const SIZE: u64 = 64 << 20;
const ROUNDS: usize = 9;
const READS: u32 = 500;
const PLACE: SegmentId = SegmentId::new(0, 3);

/// A device in memory that says that it waits.
struct Waiting(MemoryDevice);

impl BlockDevice for Waiting {
    block::delegate!(self => self.0; size refresh_size sector_sizes name read_at write_at flush drop_cached begin_anew discard zero io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn waits_on_write(&self) -> bool {
        true
    }

    fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
        false
    }
}

fn device(file: Option<&String>) -> Arc<dyn BlockDevice> {
    match file {
        Some(file) => {
            let device = FileDevice::create(Path::new(file), SIZE).expect("a new file");
            Arc::new(device.past_cache())
        }
        None => Arc::new(Waiting(MemoryDevice::new(SIZE as usize))),
    }
}

fn micros(mut read: impl FnMut()) -> f64 {
    let begin = Instant::now();
    (0..READS).for_each(|_| read());
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(READS)
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let group = NewGroup {
        devices: (0..2).map(|nth| device(files.get(nth))).collect(),
        parity: 0,
    };
    let options = CreateOptions {
        pool_guid: 1,
        device_guids: vec![2, 3],
        created: 1,
        force: false,
    };
    let store = Store::create_groups(vec![group], vec![], &options).expect("two devices");
    for len in [4 << 10, 128 << 10, 1 << 20] {
        let mut buf = vec![0; len];
        store
            .write(PLACE, 0, &[std::io::IoSlice::new(&buf)])
            .expect("devices that work");
        let mut rounds: Vec<(f64, f64)> = Vec::new();
        for _ in 0..ROUNDS {
            let caller = micros(|| store.read_nth(0, PLACE, 0, &mut buf).expect("it is there"));
            let other = micros(|| store.read_soon(PLACE, 0, &mut buf).1.expect("it is there"));
            rounds.push((caller, other));
        }
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let caller = rounds[ROUNDS / 2].0;
        rounds.sort_by(|a, b| a.1.total_cmp(&b.1));
        let other = rounds[ROUNDS / 2].1;
        println!("{len:>8} bytes: by the caller {caller:.1}, by another thread {other:.1}");
    }
}
