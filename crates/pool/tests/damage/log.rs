//! Logs: entries that were durable once are found again when the pool is opened, until a commit
//! has taken them over. No key is needed for any of it.

use std::io::IoSlice;
use std::sync::{Arc, Mutex};

use crate::common::logs::*;
use crate::common::*;
use block::BlockDevice;
use block::fault::{Fault, FaultClock, FaultDevice, Survival};
use pool::{ArrayKind, DeviceState, LOG_HEADER, LOG_PLACE, LogEnd, LogHead, Pool, RecordPtr};

/// An append that returned.
struct Appended {
    time: u64,
    chain: u64,
    sequence: u64,
    payload: Vec<u8>,
    /// A record that it points to, and its number.
    record: Option<(RecordPtr, u64)>,
}

fn payload_of(dice: &mut Dice) -> Vec<u8> {
    let units = 1 + dice.below(5) as usize * dice.below(3) as usize;
    let fill = dice.below(256) as u8;
    vec![fill; units * 4096 - LOG_HEADER]
}

#[test]
fn what_was_appended_is_found_after_a_power_cut_at_any_event() {
    for seed in seeds(0, 5) {
        let clock = FaultClock::new();
        let groups: [&[(usize, usize)]; 5] = [
            &[(1, 0)],
            &[(1, 0), (1, 0)],
            &[(3, 1)],
            &[(4, 2)],
            &[(5, 1)],
        ];
        let groups = groups[seed as usize % groups.len()];
        let devices = fault_devices(groups.iter().map(|(members, _)| members).sum(), &clock);
        let pool = create_groups(&devices, groups);
        let dataset = open_top(&pool);
        devices
            .iter()
            .for_each(|device| drop(device.take_journal()));
        let first = clock.now();
        let mut dice = Dice(seed);
        let mut appended: Vec<Appended> = Vec::new();
        for step in 0..120 {
            match dice.below(10) {
                0 => dataset.want_log([0, 256 << 10, 512 << 10][dice.below(3) as usize], step + 1),
                1..=2 => pool.commit().unwrap(),
                3 => change(&pool, &dataset, dice.below(40)),
                n => {
                    let mut payload = payload_of(&mut dice);
                    let record = (n < 6).then(|| {
                        let number = 1000 + step;
                        let placed =
                            dataset.place(ArrayKind::Data, identity(number), &contents(number));
                        let hold = pool.enter().unwrap();
                        let slot = dice.below(40);
                        (
                            dataset.put(&hold, ArrayKind::Data, slot, placed.unwrap()),
                            number,
                        )
                    });
                    let ptr = record.map(|(ptr, _)| ptr);
                    if ptr.is_some() {
                        payload.truncate(payload.len() - LOG_PLACE);
                    }
                    let named = append_pointing(&dataset, ptr, payload.clone());
                    if let Some((chain, sequence)) = named {
                        let time = clock.now();
                        appended.push(Appended {
                            time,
                            chain,
                            sequence,
                            payload,
                            record,
                        });
                    } else {
                        change(&pool, &dataset, dice.below(40));
                        pool.commit().unwrap();
                    }
                }
            }
        }
        assert!(appended.len() > 10, "seed {seed}: the log was hardly used");
        let journals: Vec<_> = devices.iter().map(|device| device.take_journal()).collect();
        // What one entry is on one device is many writes on several.
        let step = 3 * devices.len();
        for cut in (first + seed % 3..=clock.now()).step_by(step) {
            let survival = Survival::in_turn(cut / step as u64, seed ^ cut);
            let devices = after_cut(&journals, cut, survival);
            let pool = open_on(&devices).unwrap();
            assert_clean(&pool);
            let dataset = open_top(&pool);
            let Some(head) = dataset.waiting_log() else {
                continue;
            };
            let (found, end) = entries(&dataset, &head);
            let context = format!("seed {seed}, cut {cut}");
            // Whatever is written before the log is replayed leaves alone what it points to.
            if (cut / step as u64).is_multiple_of(5) {
                for slot in 0..60 {
                    put(&pool, &dataset, ArrayKind::Data, slot, 5000 + slot).unwrap();
                }
                pool.commit().unwrap();
            }
            assert_clean(&pool);
            assert_eq!(entries(&dataset, &head), (found.clone(), end), "{context}");
            assert!(matches!(end, LogEnd::Whole { .. }), "{context}");
            let sequences = found.iter().map(|(sequence, _)| *sequence);
            assert!(
                sequences.eq(head.sequence..head.sequence + found.len() as u64),
                "{context}"
            );
            for was in &appended {
                let is_in_it = was.chain == head.chain && was.sequence >= head.sequence;
                if is_in_it && was.time <= cut {
                    let at = (was.sequence - head.sequence) as usize;
                    assert_eq!(
                        found.get(at).map(|(_, p)| p),
                        Some(&was.payload),
                        "{context}"
                    );
                    let record = was.record.filter(|(ptr, _)| ptr.place.birth() > head.base);
                    if let Some((ptr, number)) = record {
                        let is_it = &mut |bytes: &[u8]| bytes == contents(number);
                        dataset.read_logged(&ptr, is_it).expect(&context);
                    }
                }
            }
        }
    }
}

/// A pool whose top dataset has a log with some entries, and was not closed.
fn pool_with_log(clock: &FaultClock) -> (Vec<Arc<FaultDevice>>, LogHead) {
    let devices = fault_devices(1, clock);
    let pool = create_on(&devices);
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 7);
    change(&pool, &dataset, 1);
    pool.commit().unwrap();
    for n in 0..5 {
        append(&dataset, vec![100 + n; 8192 - LOG_HEADER]).unwrap();
    }
    let head = pool.entry(pool.top().unwrap().id).unwrap().log.clone();
    (devices, head)
}

/// A log finds an entry only if its record is there, which may have become durable later.
#[test]
fn an_entry_is_as_durable_as_what_it_points_to() {
    let (devices, _) = pool_with_log(&FaultClock::new());
    let pool = open_on(&devices).unwrap();
    let dataset = open_top(&pool);
    dataset.log_replayed();
    dataset.want_log(256 << 10, 8);
    change(&pool, &dataset, 1);
    pool.commit().unwrap();
    let placed = dataset.place(ArrayKind::Data, identity(5), &contents(5));
    let ptr = dataset.put(&pool.enter().unwrap(), ArrayKind::Data, 3, placed.unwrap());
    assert!(dataset.can_point_to(&ptr, pool.committed_txg()));
    append(&dataset, vec![1; 4096 - LOG_HEADER]).unwrap();
    let payload = vec![2; 4096 - LOG_HEADER - LOG_PLACE];
    append_pointing(&dataset, Some(ptr), payload).unwrap();
    let image = devices[0].to_bytes();
    let count = |image: Vec<u8>| {
        let pool = open_images(vec![image]).unwrap();
        let dataset = open_top(&pool);
        entries(&dataset, &dataset.waiting_log().unwrap())
    };
    assert_eq!(count(image.clone()).0.len(), 2);
    let at = image.windows(4096).step_by(4096);
    let at = { at }
        .position(|unit| unit == contents(5))
        .expect("it is on the device");
    let mut torn = image;
    torn[at * 4096 + 9] ^= 1;
    let (found, end) = count(torn.clone());
    assert_eq!((found.len(), end), (1, LogEnd::Whole { entries: 1 }));
    // Of one behind which there is another it is known that it was durable.
    append(&dataset, vec![3; 4096 - LOG_HEADER]).unwrap();
    let mut torn = devices[0].to_bytes();
    torn[at * 4096 + 9] ^= 1;
    let (found, end) = count(torn);
    assert_eq!((found.len(), end), (1, LogEnd::Damaged { entries: 1 }));
}

/// A device that does something before each write, except in what it does then.
struct Watched {
    device: Arc<FaultDevice>,
    hook: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl Watched {
    fn at_write(&self, hook: impl FnMut() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    fn forget(&self) {
        *self.hook.lock().unwrap() = None;
    }
}

impl BlockDevice for Watched {
    block::delegate!(self => self.device; size refresh_size sector_sizes name read_at flush drop_cached begin_anew discard waits_on_write would_wait io_mode settle);
    block::plain_methods!(claim check_unreserved zero_fast is_blank status_at overwrite);

    fn write_at(&self, offset: u64, pieces: &[IoSlice<'_>]) -> block::Result<()> {
        let hook = self.hook.lock().unwrap().take();
        if let Some(mut hook) = hook {
            hook();
            *self.hook.lock().unwrap() = Some(hook);
        }
        self.device.write_at(offset, pieces)
    }
}

/// The number that was synced last, and the contents of the devices.
type Cut = (Option<u64>, Vec<Vec<u8>>);

/// Entries that are synced while devices join the pool are found if the power fails before the devices have joined.
#[test]
fn no_entry_points_to_devices_that_are_not_listed_yet() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    create_on(&devices[..1]).export().unwrap();
    let hook = Mutex::default();
    let watched = Arc::new(Watched {
        device: Arc::clone(&devices[0]),
        hook,
    });
    let pool = open_devices(vec![Arc::clone(&watched) as Arc<dyn BlockDevice>]).unwrap();
    let dataset = open_top(&pool);
    dataset.want_log(256 << 10, 7);
    change(&pool, &dataset, 1);
    pool.commit().unwrap();

    // At each write something is synced, and the power fails.
    let images: Arc<Mutex<Vec<Cut>>> = Arc::default();
    let (cuts, disks, other) = (Arc::clone(&images), devices.clone(), pool.clone());
    let synced = Arc::clone(&dataset);
    let mut newest = None;
    watched.at_write(move || {
        let mut cuts = cuts.lock().unwrap();
        let record = sized(cuts.len() as u64, 4);
        let placed = synced.place(ArrayKind::Data, identity(record), &contents(record));
        let hold = other.enter().unwrap();
        let ptr = synced.put(&hold, ArrayKind::Data, 100 + record, placed.unwrap());
        drop(hold);
        let payload = vec![2; 4096 - LOG_HEADER - LOG_PLACE];
        // Without space for it in the log a commit would have to do it.
        let appended = append_pointing(&synced, Some(ptr), payload);
        newest = appended.map(|(_, sequence)| sequence).or(newest);
        let image = |disk: &Arc<FaultDevice>| disk.to_bytes();
        cuts.push((newest, disks.iter().map(image).collect()));
    });
    pool.add_group(&[new_member(&devices[1], 70)], 0, &origin())
        .unwrap();
    watched.forget();

    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.len() > 4, "something was synced meanwhile");
    for (newest, cut) in images {
        let after = open_images(cut).unwrap();
        let dataset = open_top(&after);
        let (found, end) = entries(&dataset, &dataset.waiting_log().unwrap());
        assert_eq!(found.last().map(|(sequence, _)| *sequence), newest);
        assert!(matches!(end, LogEnd::Whole { .. }), "{end:?}");
        assert_clean(&after);
    }
    drop(dataset);
    assert_clean(&pool);
}

#[test]
fn a_log_waits_through_any_number_of_imports() {
    let (devices, head) = pool_with_log(&FaultClock::new());
    for n in 0..4 {
        let pool = open_on(&devices).unwrap();
        let dataset = open_top(&pool);
        assert_eq!(dataset.waiting_log(), Some(head.clone()));
        assert_eq!(entries(&dataset, &head).0.len(), 5);
        // Even what changes the dataset leaves it alone, as long as it is not replayed.
        change(&pool, &dataset, 10 + n);
        pool.commit().unwrap();
        assert_clean(&pool);
        drop(dataset);
        pool.export().unwrap();
    }
    let pool = open_on(&devices).unwrap();
    let dataset = open_top(&pool);
    dataset.log_replayed();
    dataset.mark_changed(&pool.enter().unwrap());
    pool.commit().unwrap();
    assert!(!pool.entry(pool.top().unwrap().id).unwrap().log.exists());
    assert_clean(&pool);
}

#[test]
fn a_damaged_entry_ends_the_log_and_is_told_from_its_end() {
    let (devices, head) = pool_with_log(&FaultClock::new());
    let image = devices[0].to_bytes();
    let at = |n: u8| {
        let pattern = vec![100 + n; 4096];
        image
            .windows(4096)
            .step_by(512)
            .position(|w| w == pattern)
            .unwrap()
            * 512
    };
    // The last entry may never have been durable, as far as anyone can tell.
    for (hurt, whole) in [(0, false), (2, false), (4, true)] {
        let mut image = image.clone();
        image[at(hurt) + 17] ^= 1;
        let pool = open_images(vec![image]).unwrap();
        let dataset = open_top(&pool);
        let (found, end) = entries(&dataset, &head);
        assert_eq!(found.len(), usize::from(hurt));
        assert_eq!(matches!(end, LogEnd::Whole { .. }), whole, "{hurt}");
        assert_clean(&pool);
    }
}

#[test]
fn rollback_and_destruction_give_its_space_back() {
    let devices = fault_devices(1, &FaultClock::new());
    let pool = create_on(&devices);
    pool.create_dataset("tank/a", new_dataset(5), &origin())
        .unwrap();
    let id = pool.find("tank/a").unwrap().id;
    let free = pool.space().free;
    for destroy in [false, true] {
        let dataset = pool.open_dataset(id).unwrap();
        dataset.want_log(1 << 20, 7);
        change(&pool, &dataset, 1);
        pool.snapshot(&["tank/a@s".into()], false, &origin())
            .unwrap_or_default();
        pool.commit().unwrap();
        append(&dataset, vec![1; 4096 - LOG_HEADER]).unwrap();
        drop(dataset);
        assert!(pool.entry(id).unwrap().log.exists());
        assert!(!pool.find("tank/a@s").unwrap().log.exists());
        if destroy {
            pool.destroy_dataset("tank/a", true, &origin()).unwrap();
        } else {
            pool.rollback("tank/a@s", false, &origin()).unwrap();
            assert!(!pool.entry(id).unwrap().log.exists());
        }
        assert_clean(&pool);
    }
    while pool.space().freeing > 0 {
        pool.commit().unwrap();
    }
    pool.commit().unwrap();
    assert!(
        pool.space().free + (256 << 10) > free,
        "the log was not freed"
    );
}

fn logged(pool: &Pool) -> Vec<u8> {
    let dataset = pool.open_dataset(1).unwrap();
    let head = dataset.waiting_log().expect("a log waits");
    dataset
        .read_log(&head)
        .map(|entry| entry.payload[0])
        .collect()
}

#[test]
fn a_log_is_read_from_members_that_have_it_and_brought_to_those_that_have_not() {
    let clock = FaultClock::new();
    let devices = fault_devices(2, &clock);
    let pool = create_mirrors(&devices, &[2]);
    let dataset = pool.open_dataset(1).unwrap();
    dataset.want_log(64 << 10, 77);
    put(&pool, &dataset, ArrayKind::Data, 1, 1).unwrap();
    pool.commit().unwrap();
    assert!(append(&dataset, entry(1)).is_some());
    let stale = copy_of(&devices[1]);
    devices[1].inject(Fault::DeadFrom(clock.now()));
    assert!(
        append(&dataset, entry(2)).is_none(),
        "only a commit says that a device lacks the entry"
    );
    let whole = copy_of(&devices[0]);
    pool.commit().unwrap();
    assert!(append(&dataset, entry(3)).is_some());
    let later = copy_of(&devices[0]);
    drop((dataset, pool));

    // Cut off before that commit: nothing says that one of them lacks an entry.
    for order in [[&stale, &whole], [&whole, &stale]] {
        let devices = order.map(|device| copy_of(device));
        assert_eq!(logged(&open_on(&devices).unwrap()), [1, 2]);
    }
    // And after it: it is known, and the log that waits is brought to it.
    let devices = [copy_of(&later), copy_of(&stale)];
    let pool = open_on(&devices).unwrap();
    assert_eq!(states(&pool), [DeviceState::Online, DeviceState::Faulted]);
    let guid = pool.devices()[1].guid;
    pool.release_device(guid).unwrap();
    pool.online_device(guid, dynamic(&devices).remove(1), &origin())
        .unwrap();
    resilver(&pool);
    assert_eq!(logged(&pool), [1, 2, 3]);
    drop(pool);
    assert_eq!(logged(&open_on(&devices[1..]).unwrap()), [1, 2, 3]);
}
