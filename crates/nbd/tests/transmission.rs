//! The effect of requests, and the promises of their replies.

mod common;

use std::io::IoSlice;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use block::{BlockDevice, MemoryDevice, Result, SectorSizes};
use common::*;

const FUA: u16 = 1;

fn data(answer: Answer) -> Vec<u8> {
    match answer {
        Answer::Chunk { kind: 1, data, .. } => data[8..].to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_promised_to_be_durable_is() {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::new(4 << 20, &clock));
    let place = Place::with(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut client = place.client();
    // What the medium surely holds, of what was done since this was last asked.
    let durable = || device.take_journal().image(clock.now(), Survival::None);
    for (flags, expected) in [(0, 0), (FUA, 7)] {
        for (offset, len) in [(0, 4096), (1 << 20, 1 << 20), (1 << 20, 2 << 20)] {
            let range = offset as usize..offset as usize + len as usize;
            client.request(WRITE, flags, offset, len);
            client.say(&vec![7; len as usize]);
            assert_eq!(client.outcome(), 0);
            assert!(durable()[range.clone()].iter().all(|b| *b == expected));
            client.request(WRITE_ZEROES, flags, offset, len);
            assert_eq!(client.outcome(), 0);
            let after = durable();
            assert!(after[range].iter().all(|b| *b == 7 - expected));
        }
    }
    client.request(WRITE, 0, 65536, 4096);
    client.say(&[9; 4096]);
    assert_eq!(client.outcome(), 0);
    // On another connection: what was answered on any is meant.
    let mut other = place.client();
    other.request(FLUSH, 0, 0, 0);
    assert_eq!(other.outcome(), 0);
    assert!(durable()[65536..][..4096].iter().all(|b| *b == 9));
}

#[test]
fn failures_of_the_device_are_told_and_what_follows_works() {
    let clock = FaultClock::new();
    let device = Arc::new(FaultDevice::new(4 << 20, &clock));
    let place = Place::with(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let bad = 1 << 20;
    device.inject(Fault::BadBytes {
        offset: bad,
        len: 1,
    });
    let mut client = place.client();
    for len in [4096, 1 << 20] {
        client.request(READ, 0, bad, len);
        assert_eq!(client.outcome(), 5);
    }
    // The data before the bad place comes, and then the error.
    client.request(READ, 0, bad - (512 << 10), 1 << 20);
    assert_eq!(data(client.answer()).len(), 256 << 10);
    assert_eq!(client.outcome(), 5);
    device.inject(Fault::FullAfter(0));
    client.request(WRITE, 0, 0, 1 << 20);
    client.say(&vec![1; 1 << 20]);
    assert_eq!(client.outcome(), 28);
    device.heal();
    assert!(client.works());
    // A simple answer cannot be taken back once it has begun.
    device.inject(Fault::BadBytes {
        offset: bad,
        len: 1,
    });
    let mut simple = place.connect();
    simple.hello();
    simple.go();
    simple.request(READ, 0, bad - (512 << 10), 1 << 20);
    simple.hear(16 + (512 << 10));
    assert!(simple.is_closed());
}

/// A device whose first sectors take long, and whose others wait for four who read at the same time.
struct Slow(Barrier);

impl BlockDevice for Slow {
    block::plain_device!();

    fn size(&self) -> u64 {
        1 << 20
    }

    fn sector_sizes(&self) -> SectorSizes {
        SectorSizes::COMMON
    }

    fn name(&self) -> String {
        "slow".into()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if offset == 0 {
            std::thread::sleep(Duration::from_millis(5));
        } else {
            self.0.wait();
        }
        buf.fill(offset as u8);
        Ok(())
    }

    fn write_at(&self, _offset: u64, _pieces: &[IoSlice<'_>]) -> Result<()> {
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_device_gets_requests_side_by_side() {
    let place = Place::with(Arc::new(Slow(Barrier::new(4))));
    let mut client = place.client();
    assert!(client.works());
    let mut bytes = Vec::new();
    for i in 1..=4u64 {
        bytes.extend(0x2560_9513u32.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(i.to_be_bytes());
        bytes.extend((i * 512).to_be_bytes());
        bytes.extend(512u32.to_be_bytes());
    }
    // A flush is not in their way either. One after the other they would wait for ever.
    client.say(&bytes);
    client.request(FLUSH, 0, 0, 0);
    for _ in 0..5 {
        assert_eq!(client.outcome(), 0);
    }
}

/// A device whose first sector is held until the second one is read.
struct Held {
    memory: MemoryDevice,
    begun: Barrier,
    released: Barrier,
}

impl BlockDevice for Held {
    block::delegate!(self => self.memory; size refresh_size sector_sizes name write_at flush drop_cached begin_anew);
    block::delegate!(self => self.memory; discard waits_on_write io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn would_wait(&self, offset: u64, _len: u64, _is_write: bool) -> bool {
        offset == 0
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if offset == 0 {
            self.begun.wait();
        }
        self.released.wait();
        self.memory.read_at(offset, buf)
    }
}

#[test]
fn a_request_that_would_wait_holds_up_no_other() {
    let [begun, released] = [(); 2].map(|()| Barrier::new(2));
    let device = Arc::new(Held {
        memory: MemoryDevice::new(1 << 20),
        begun,
        released,
    });
    let place = Place::with(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut client = place.client();
    client.request(READ, 0, 0, 512);
    device.begun.wait();
    // Only this one ends the wait of the other one.
    client.request(READ, 0, 512, 512);
    assert_eq!([client.outcome(), client.outcome()], [0, 0]);
}

/// A device that writes two at a time.
struct Pairs {
    memory: MemoryDevice,
    both: Barrier,
}

impl BlockDevice for Pairs {
    block::delegate!(self => self.memory; size refresh_size sector_sizes name read_at flush drop_cached begin_anew);
    block::delegate!(self => self.memory; discard waits_on_write would_wait io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> Result<()> {
        self.both.wait();
        self.memory.write_at(offset, pieces)
    }
}

#[test]
fn what_is_large_is_written_while_the_next_is_received() {
    let place = Place::with(Arc::new(Pairs {
        memory: MemoryDevice::new(4 << 20),
        both: Barrier::new(2),
    }));
    let mut client = place.client();
    // One after the other they would wait for ever.
    for n in 0..2 {
        client.request(WRITE, 0, n << 20, 1 << 20);
        client.say(&vec![n as u8 + 1; 1 << 20]);
    }
    for _ in 0..2 {
        assert_eq!(client.outcome(), 0);
    }
    for n in 0..2 {
        client.request(READ, 0, (n << 20) + 4096, 4096);
        assert_eq!(data(client.answer()), [n as u8 + 1; 4096]);
    }
}

#[test]
fn small_and_large_requests_mix() {
    let device = Arc::new(MemoryDevice::new(8 << 20));
    let place = Place::with(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut client = place.client();
    let mut expected = vec![0u8; 8 << 20];
    let sizes = [512, 4096, 65536, 66048, 262_144, 300_032, 1 << 20, 3 << 20];
    for round in 0..4u8 {
        for (i, size) in sizes.into_iter().enumerate() {
            let offset = (i * 4096) << (round * 3);
            if offset + size > expected.len() {
                continue;
            }
            let content = vec![round * 16 + i as u8 + 1; size];
            client.request(WRITE, 0, offset as u64, size as u32);
            client.say(&content);
            expected[offset..offset + size].copy_from_slice(&content);
        }
    }
    client.request(READ, 4, 0, 1 << 20);
    let first = loop {
        match client.answer() {
            Answer::Simple { error, .. } => assert_eq!(error, 0),
            chunk => break data(chunk),
        }
    };
    assert!(first == expected[..1 << 20]);
    let mut rest = Vec::new();
    client.request(READ, 0, 0, 8 << 20);
    while rest.len() < 8 << 20 {
        rest.extend(data(client.answer()));
    }
    assert!(rest == expected && device.to_bytes() == expected);
}

#[test]
fn the_map_of_holes_is_told_where_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let device = block::FileDevice::create(&dir.path().join("f"), 1 << 20).unwrap();
    let block = [1; 65536];
    device.write_at(131_072, &[IoSlice::new(&block)]).unwrap();
    let place = Place::with(Arc::new(device));
    let mut client = place.connect();
    client.hello();
    client.option(STRUCTURED, &[]);
    let asked = b"\0\0\0\x01x\0\0\0\x01\0\0\0\x0fbase:allocation";
    assert_eq!(client.option(SET_CONTEXT, asked).len(), 2);
    client.go();
    let mut map = |flags, offset| {
        client.request(BLOCK_STATUS, flags, offset, (1 << 20) - offset as u32);
        let Answer::Chunk { kind: 5, data, .. } = client.answer() else {
            panic!("no map");
        };
        let numbers = data[4..].chunks(4);
        let numbers = numbers.map(|n| u32::from_be_bytes(n.try_into().unwrap()));
        numbers.collect::<Vec<u32>>()
    };
    assert_eq!(map(0, 0), [131_072, 3, 65536, 0, 851_968, 3]);
    assert_eq!(map(8, 135_168), [61440, 0]);
}
