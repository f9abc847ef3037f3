//! A pool writes whole blocks of 4096 bytes only: a disk that is used past the cache of the system refuses others.

use std::io::IoSlice;
use std::sync::Arc;

use crate::common::logs::*;
use crate::common::model::*;
use crate::common::*;
use block::{BlockDevice, MemoryDevice};

const BLOCK: u64 = 4096;

/// A device that takes whole blocks only, and says that its writes wait.
struct Blocks(MemoryDevice);

impl Blocks {
    fn check(offset: u64, len: u64) {
        assert!((offset | len).is_multiple_of(BLOCK), "{offset}+{len}");
    }
}

impl BlockDevice for Blocks {
    block::delegate!(self => self.0; size refresh_size sector_sizes name read_at flush drop_cached begin_anew discard io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn waits_on_write(&self) -> bool {
        true
    }

    fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
        false
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        Blocks::check(offset, pieces.iter().map(|piece| piece.len() as u64).sum());
        self.0.write_at(offset, pieces)
    }
}

#[test]
fn all_that_a_pool_writes_is_made_of_them() {
    for groups in [&[(1, 0), (2, 0)][..], &[(3, 1)]] {
        let count: usize = groups.iter().map(|(width, _)| width).sum();
        // One does not end with a block.
        let size = |n: usize| (12 << 20) + n * 1000;
        let new = |n| Arc::new(Blocks(MemoryDevice::new(size(n)))) as Arc<dyn BlockDevice>;
        let devices: Vec<_> = (0..count).map(new).collect();
        let mut workload = Workload::new(create_groups_on(devices.clone(), groups), 7);
        workload.run(100);
        let (pool, model) = workload.close();
        scrub_all(&pool);
        let dataset = open_top(&pool);
        dataset.want_log(64 << 10, 1);
        pool.commit().unwrap();
        for n in 0..20 {
            append(&dataset, entry(n));
        }
        drop(dataset);
        settle(&pool);
        export(pool);
        let pool = open_devices(devices).unwrap();
        assert_eq!(read_pool(&pool), normal(model), "{groups:?}");
        assert_clean(&pool);
        pool.destroy().unwrap();
    }
}
