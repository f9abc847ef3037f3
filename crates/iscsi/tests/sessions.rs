//! Commands of one session beside each other, their order, and their end.

mod common;

use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use block::{BlockDevice, MemoryDevice};
use common::initiator::Initiator;
use common::initiator::{CHECK, GOOD};
use common::{Kept, Portal, TARGET};
use iscsi::LogicalUnit;

/// The offset of the block for which each request waits.
const HELD: u64 = 8 * 512;

const FLUSH: [u8; 10] = [0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const WRITE: [u8; 10] = [0x2a, 0, 0, 0, 0, 1, 0, 0, 1, 0];
const TASK_SET_FULL: u8 = 0x28;

/// A device whose flush waits, and each request for one of its blocks.
struct Slow {
    memory: MemoryDevice,
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Default)]
struct Now {
    /// Flushes end, and requests for that block.
    is_open: bool,
    flushing: usize,
    /// Writes, and how many flushes ran meanwhile.
    writes: Vec<usize>,
}

impl Slow {
    fn new() -> Arc<Slow> {
        Arc::new(Slow {
            memory: MemoryDevice::new(1 << 20),
            now: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn open(&self) {
        self.now.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }

    /// Waits until so many flushes have begun.
    fn await_flushes(&self, count: usize) {
        let now = self.now.lock().unwrap();
        let done = self.changed.wait_while(now, |now| now.flushing < count);
        drop(done.unwrap());
    }
}

impl BlockDevice for Slow {
    block::delegate!(self => self.memory; size refresh_size sector_sizes drop_cached begin_anew discard waits_on_write io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn name(&self) -> String {
        "slow".into()
    }

    fn would_wait(&self, offset: u64, _len: u64, _is_write: bool) -> bool {
        offset == HELD && !self.now.lock().unwrap().is_open
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        let now = self.now.lock().unwrap();
        let held = |now: &mut Now| offset == HELD && !now.is_open;
        drop(self.changed.wait_while(now, held).unwrap());
        self.memory.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let now = self.now.lock().unwrap();
        let held = |now: &mut Now| offset == HELD && !now.is_open;
        let mut now = self.changed.wait_while(now, held).unwrap();
        let flushing = now.flushing;
        now.writes.push(flushing);
        self.changed.notify_all();
        self.memory.write_at(offset, pieces)
    }

    fn flush(&self) -> block::Result<()> {
        let mut now = self.now.lock().unwrap();
        now.flushing += 1;
        self.changed.notify_all();
        let mut now = self.changed.wait_while(now, |now| !now.is_open).unwrap();
        now.flushing -= 1;
        Ok(())
    }
}

#[test]
fn a_command_that_takes_long_holds_up_no_other() {
    let device = Slow::new();
    let portal = Portal::new(device.clone(), None);
    let mut a = portal.log_in("a");
    // More than there are threads for a session.
    let flushes: Vec<u32> = (0..20).map(|_| a.send(1, &FLUSH, &[], 0)).collect();
    device.await_flushes(15);
    // The others have to arrive.
    while portal.targets.all()[0].counts().waiting < 20 {
        std::thread::yield_now();
    }
    assert_eq!(a.write(1, 5), GOOD);
    assert_eq!(a.read(1).data, [5; 512]);
    // Others are not held up either.
    let mut b = portal.log_in("b");
    assert_eq!(b.write(1, 6), GOOD);
    device.open();
    let mut answered: Vec<u32> = flushes.iter().map(|_| a.hear().tag()).collect();
    answered.sort_unstable();
    assert_eq!(answered, flushes);
    assert_eq!(portal.targets.all()[0].counts().waiting, 0);
}

#[test]
fn a_command_that_waits_for_its_blocks_holds_up_no_other() {
    let device = Slow::new();
    let portal = Portal::new(device.clone(), None);
    let mut a = portal.log_in("a");
    let read = a.send(0x41, &[0x28, 0, 0, 0, 0, 8, 0, 0, 1, 0], &[], 512);
    let write = a.send(0x21, &[0x2a, 0, 0, 0, 0, 8, 0, 0, 1, 0], &[8; 512], 512);
    assert_eq!(a.write(1, 5), GOOD);
    assert_eq!(a.read(1).data, [5; 512]);
    device.open();
    let mut answered = [a.hear().tag(), a.hear().tag()];
    answered.sort_unstable();
    assert_eq!(answered, [read, write]);
}

/// WRITE AND VERIFY has the unit for itself while it flushes.
#[test]
fn a_device_that_does_not_answer_holds_up_no_question_about_it() {
    let device = Slow::new();
    let portal = Portal::new(device.clone(), None);
    let mut a = portal.log_in("a");
    a.send(0x21, &[0x2e, 0, 0, 0, 0, 1, 0, 0, 1, 0], &[7; 512], 512);
    device.await_flushes(1);
    let target = portal.targets.all().remove(0);
    assert_eq!(target.sessions().len(), 1);
    assert_eq!(target.reserved().registrations, 0);
    let mut b = portal.log_in("b");
    assert_eq!(b.reserve_in(0).status, GOOD);
    device.open();
    a.hear();
}

#[test]
fn an_ordered_command_waits_for_those_before_it() {
    let device = Slow::new();
    let portal = Portal::new(device.clone(), None);
    let mut a = portal.log_in("a");
    let flush = a.send(1, &FLUSH, &[], 0);
    device.await_flushes(1);
    let ordered = a.send(0x22, &WRITE, &[7; 512], 512);
    // If it did not wait, the write would come now.
    let now = device.now.lock().unwrap();
    let brief = Duration::from_millis(200);
    let waited = device
        .changed
        .wait_timeout_while(now, brief, |now| now.writes.is_empty());
    assert!(waited.unwrap().1.timed_out());
    device.open();
    assert_eq!([a.hear().tag(), a.hear().tag()], [flush, ordered]);
    assert_eq!(device.now.lock().unwrap().writes, [0]);
}

#[test]
fn a_later_command_waits_for_an_ordered_one() {
    let device = Slow::new();
    device.open();
    let portal = Portal::new(device, None);
    let mut a = portal.log_in("a");
    // The ordered one has to be asked for its data.
    let ordered = a.send(0x22, &WRITE, &[], 512);
    let ready = a.hear();
    let later = a.send(0x21, &WRITE, &[2; 512], 512);
    // One for the head of the queue waits for nothing.
    let first = a.send(0x43, &[0x28, 0, 0, 0, 0, 1, 0, 0, 1, 0], &[], 512);
    let read = a.hear();
    assert_eq!((read.tag(), read.data), (first, vec![0; 512]));
    a.send_data(&ready, &[1; 512]);
    assert_eq!([a.hear().tag(), a.hear().tag()], [ordered, later]);
    assert_eq!(a.read(1).data, [2; 512]);
}

#[test]
fn an_abort_waits_for_what_has_begun() {
    let device = Slow::new();
    let portal = Portal::new(device.clone(), None);
    let mut a = portal.log_in("a");
    for function in [1, 2] {
        let flush = a.send(1, &FLUSH, &[], 0);
        device.await_flushes(1);
        a.manage(function, flush);
        let brief = Some(Duration::from_millis(200));
        let before = a.stream.read_timeout().unwrap();
        a.stream.set_read_timeout(brief).unwrap();
        a.try_hear().expect_err("nothing is answered yet");
        a.stream.set_read_timeout(before).unwrap();
        device.open();
        assert_eq!(a.hear().tag(), flush);
        let done = a.hear();
        assert_eq!((done.opcode(), done.head[2]), (0x22, 0));
        device.now.lock().unwrap().is_open = false;
    }
    // What was answered cannot be aborted.
    a.manage(1, 101);
    assert_eq!(a.hear().head[2], 1);
    device.open();
}

/// A command that waits for a helper has begun for its initiator, and not for the unit.
#[test]
fn a_queued_write_is_refused_when_its_view_becomes_read_only() {
    let device = Slow::new();
    let unit = LogicalUnit::new("disk", 1, device.clone(), false).unwrap();
    let portal = Portal::with_views(vec![unit.view(0, None, false).unwrap()]);
    let mut a = portal.log_in("a");
    let flushes: Vec<u32> = (0..15).map(|_| a.send(1, &FLUSH, &[], 0)).collect();
    device.await_flushes(15);
    let held = [0x2a, 0, 0, 0, 0, 8, 0, 0, 1, 0];
    let queued = a.send(0x21, &held, &[8; 512], 512);
    // It has come when a later command is answered.
    assert_eq!(a.read(1).status, GOOD);
    let target = portal.targets.all().remove(0);
    target.set_views(vec![unit.view(0, None, true).unwrap()]);
    device.open();
    let mut answers: Vec<_> = (0..16).map(|_| a.hear()).collect();
    let at = answers.iter().position(|it| it.tag() == queued).unwrap();
    let refused = answers.swap_remove(at);
    assert_eq!((refused.head[3], refused.data[4]), (CHECK, 7));
    assert!(answers.iter().all(|it| flushes.contains(&it.tag())));
    assert!(device.now.lock().unwrap().writes.is_empty());
}

#[test]
fn initiators_are_asked_to_log_out() {
    let portal = Portal::new(Arc::new(MemoryDevice::new(1 << 20)), None);
    let mut a = portal.log_in("a");
    let targets = Arc::clone(&portal.targets);
    let ends = std::thread::spawn(move || targets.remove(TARGET, true).map(drop));
    let asked = a.hear();
    // An asynchronous message: log out, within one second.
    assert_eq!((asked.opcode(), asked.head[36]), (0x32, 1));
    assert_eq!(asked.head[42..44], [0, 1]);
    a.log_out();
    ends.join().unwrap().unwrap();
}

#[test]
fn the_further_commands_do_what_the_standards_say() {
    let kept = Arc::new(Kept::default());
    let portal = Portal::new(Arc::new(MemoryDevice::new(1 << 20)), Some(kept));
    let mut a = portal.log_in("a");
    assert_eq!(a.write(1, 0b0101), GOOD);
    let mut or = [0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0];
    assert_eq!(a.run(&or, &[0b0011; 512], 0).status, GOOD);
    assert_eq!(a.read(1).data, [0b0111; 512]);
    or[0] = 0x8e;
    or[1] = 2;
    assert_eq!(a.run(&or, &[9; 512], 0).status, GOOD);
    assert_eq!(a.read(1).data, [9; 512]);
    assert_eq!(
        a.run(&[0x34, 0, 0, 0, 0, 1, 0, 0, 0, 0], &[], 0).status,
        GOOD
    );
    let beyond = a.run(&[0x34, 0, 0, 0, 0x10, 0, 0, 0, 1, 0], &[], 0);
    assert_eq!((beyond.status, beyond.sense), (CHECK, [5, 0x21, 0]));
    assert_eq!(a.run(&[0x1b, 0, 0, 0, 1, 0], &[], 0).status, GOOD);
    assert_eq!(a.run(&[0x1b, 0, 0, 0, 0, 0], &[], 0).status, CHECK);
    // The pages, and the room for 3 MiB: three times 2048 blocks of 512 bytes.
    let log = |page: u8| [0x4d, 0, 0x40 | page, 0, 0, 0, 0, 1, 0, 0];
    assert_eq!(a.run(&log(0), &[], 256).data, [0, 0, 0, 2, 0, 0x0c]);
    let room = [0x0c, 0, 0, 12, 0, 1, 3, 8, 0, 0, 0, 3, 2, 0, 0, 0];
    assert_eq!(a.run(&log(0x0c), &[], 256).data, room);
    assert_eq!(a.run(&log(0x0d), &[], 256).status, CHECK);
    let functions = [0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0];
    assert_eq!(a.run(&functions, &[], 16).data, [0xda, 0, 0, 0]);
}

#[test]
fn copies_are_left_to_the_initiator() {
    let portal = Portal::new(Arc::new(MemoryDevice::new(1 << 20)), None);
    let mut a = portal.log_in("a");
    let inquiry = a.run(&[0x12, 0, 0, 0, 36, 0], &[], 36).data;
    assert_eq!(inquiry[5] & 0x08, 0, "third-party copies are not claimed");
    // EXTENDED COPY, POPULATE TOKEN, WRITE USING TOKEN; RECEIVE COPY STATUS, RECEIVE ROD TOKEN INFORMATION.
    for (opcode, action) in [(0x83, 0), (0x83, 0x10), (0x83, 0x11), (0x84, 0), (0x84, 7)] {
        let cdb = [opcode, action, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let refused = a.run(&cdb, &[], 0);
        assert_eq!((refused.status, refused.sense), (CHECK, [5, 0x20, 0]));
    }
    assert_eq!(a.write(1, 7), GOOD, "the session goes on");
}

#[test]
fn initiators_are_told_once_when_space_runs_short() {
    const SHORT: [u8; 3] = [6, 0x38, 7];
    let kept = Arc::new(Kept::default());
    let device = Arc::new(MemoryDevice::new(64 << 20));
    let portal = Portal::new(device, Some(Arc::clone(&kept) as _));
    let (mut a, mut b) = (portal.log_in("a"), portal.log_in("b"));
    // The threshold is a tenth of the unit: 6 times 2048 blocks of 512 bytes. It is soft, enabled, and of the space left.
    let sense = [0x5a, 0x08, 0x1c, 2, 0, 0, 0, 1, 0, 0];
    let pages = a.run(&sense, &[], 256).data;
    assert_eq!(pages[8..12], [0x5c, 2, 0, 20]);
    assert_eq!(pages[24..], [0x82, 1, 0, 0, 0, 0, 0, 6]);
    assert_eq!(
        a.run(&[0x5a, 0x08, 0x1c, 3, 0, 0, 0, 1, 0, 0], &[], 256)
            .status,
        CHECK
    );
    let all = a
        .run(&[0x5a, 0x08, 0x3f, 0xff, 0, 0, 0, 1, 0, 0], &[], 256)
        .data;
    assert!(all.ends_with(&pages[8..]));
    let select = [0x55, 0x10, 0, 0, 0, 0, 0, 0, 32, 0];
    let mut list = pages.clone();
    list[..4].fill(0);
    assert_eq!(a.run(&select, &list, 0).status, GOOD);
    list[31] = 7;
    assert_eq!(a.run(&select, &list, 0).status, CHECK);
    // 4 MiB
    let fill = [0x41, 0, 0, 0, 0, 0, 0, 0x20, 0, 0];
    let mut fill_with = |space: u64| {
        *kept.more.lock().unwrap() = space - (3 << 20);
        assert_eq!(a.run(&fill, &[7; 512], 0).status, GOOD);
        [a.attentions(), b.attentions()]
    };
    let none: [Vec<[u8; 3]>; 2] = Default::default();
    let told = [vec![SHORT], vec![SHORT]];
    assert_eq!(fill_with(6 << 20), none);
    assert_eq!(fill_with(5 << 20), told);
    assert_eq!(fill_with(3 << 20), none);
    // There is space again, and then there is not.
    assert_eq!(fill_with(60 << 20), none);
    assert_eq!(fill_with(4 << 20), told);
}

#[test]
fn an_initiator_turns_the_write_cache_off() {
    let device = Counting::new();
    let portal = Portal::new(device.clone(), None);
    let (mut a, mut b) = (portal.log_in("a"), portal.log_in("b"));
    let page = |initiator: &mut Initiator, which: u8| {
        let cdb = [0x1a, 8, which << 6 | 0x08, 0, 64, 0];
        initiator.run(&cdb, &[], 64).data
    };
    let now = page(&mut a, 0);
    assert_eq!((now.len(), now[4], now[6]), (24, 8, 4));
    // Only the cache can be changed.
    assert_eq!(page(&mut a, 1)[6..], [&[4][..], &[0; 17]].concat());
    let select = |initiator: &mut Initiator, at: usize, byte: u8| {
        let mut list = now.clone();
        list[..4].fill(0);
        list[at] = byte;
        initiator.run(&[0x15, 0x10, 0, 0, 24, 0], &list, 0).status
    };
    assert_eq!(select(&mut a, 6, 5), CHECK);
    assert_eq!(select(&mut a, 9, 1), CHECK);
    assert_eq!((page(&mut a, 0)[6], b.attentions()), (4, vec![]));
    assert_eq!(select(&mut a, 6, 0), GOOD);
    assert_eq!(page(&mut a, 0)[6], 0);
    // MODE PARAMETERS CHANGED, for the others.
    assert_eq!(
        (a.attentions(), b.attentions()),
        (vec![], vec![[6, 0x2a, 1]])
    );
    let before = device.flushes.load(SeqCst);
    assert_eq!(b.write(1, 7), GOOD);
    assert_eq!(device.flushes.load(SeqCst), before + 1);
    assert_eq!(select(&mut b, 6, 4), GOOD);
    assert_eq!(page(&mut b, 0)[6], 4);
    assert_eq!(b.write(1, 7), GOOD);
    assert_eq!(device.flushes.load(SeqCst), before + 1);
}

/// A device that counts changes that are not settled.
struct Counting {
    memory: MemoryDevice,
    unsettled: AtomicUsize,
    flushes: AtomicUsize,
    fails: AtomicBool,
}

impl Counting {
    fn new() -> Arc<Counting> {
        Arc::new(Counting {
            memory: MemoryDevice::new(1 << 20),
            unsettled: AtomicUsize::new(0),
            flushes: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
        })
    }
}

impl BlockDevice for Counting {
    block::delegate!(self => self.memory; size refresh_size sector_sizes name read_at drop_cached begin_anew);
    block::delegate!(self => self.memory; discard waits_on_write would_wait io_mode);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn flush(&self) -> block::Result<()> {
        self.flushes.fetch_add(1, SeqCst);
        self.memory.flush()
    }

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        self.unsettled.fetch_add(1, SeqCst);
        self.memory.write_at(offset, pieces)
    }

    fn settle(&self) -> block::Result<()> {
        if self.fails.load(SeqCst) {
            return Err(block::Error::Io {
                device: self.name(),
                operation: "log",
                offset: 0,
                len: 0,
                source: std::io::ErrorKind::Other.into(),
            });
        }
        self.unsettled.store(0, SeqCst);
        Ok(())
    }
}

/// Changes that cannot be settled have to be sent again. A command that compares is not, because its blocks are
/// changed.
#[test]
fn what_is_answered_is_settled() {
    let device = Counting::new();
    let portal = Portal::new(device.clone(), None);
    let mut a = portal.log_in("a");
    let compare_and_write = [0x89, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0];
    let swap = |from: u8, to: u8| [[from; 512], [to; 512]].concat();
    assert_eq!(a.write(1, 5), GOOD);
    assert_eq!(device.unsettled.load(SeqCst), 0);
    let swapped = a.run(&compare_and_write, &swap(5, 6), 0);
    assert_eq!(swapped.status, GOOD);
    assert_eq!(device.unsettled.load(SeqCst), 0);

    device.fails.store(true, SeqCst);
    assert_eq!(a.write(1, 7), TASK_SET_FULL);
    let swapped = a.run(&compare_and_write, &swap(7, 8), 0);
    assert_eq!((swapped.status, swapped.sense[0]), (CHECK, 3));
    let fua = [0x2a, 0x08, 0, 0, 0, 1, 0, 0, 1, 0];
    assert_eq!(a.run(&fua, &[9; 512], 0).status, GOOD);
    device.fails.store(false, SeqCst);
    assert_eq!(a.write(1, 10), GOOD);
}
