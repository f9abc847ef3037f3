//! Power cuts, full pools and changed bytes below a volume.

use super::*;

#[test]
fn a_power_cut_at_every_write() {
    let (standard, always) = (SyncMode::Standard, SyncMode::Always);
    let (on, off) = (WriteCache::On, WriteCache::Off);
    for (seed, sync, write_cache, logs) in [
        (20, standard, on, false),
        (21, always, on, false),
        (22, standard, on, true),
        (23, standard, on, true),
        (24, standard, off, true),
    ] {
        let clock = FaultClock::new();
        let device = fault_device(12 << 20, &clock);
        let size = 12 * 4096;
        let pool = create(&device, SUITE, size, 4096);
        let settings = Settings {
            sync,
            write_cache,
            ..Settings::default()
        };
        let volume = open(&pool, "tank/vol", SUITE, settings);
        let mut dice = Dice(seed);
        let mut model = vec![0; size as usize];
        // By when which state was reached, and by when which was certain.
        let mut states = vec![(0, model.clone())];
        let mut certain = vec![(0, 0)];
        // By when which state was answered: the end of the process does not lose it.
        let mut answered = vec![(0, 0)];
        volume.flush().unwrap();
        pool.commit().unwrap();
        let begin = clock.now();
        for step in 0..40 {
            let mut after = model.clone();
            let before = clock.now();
            request(&volume, &mut after, &mut dice).unwrap();
            states.push((before, after.clone()));
            model = after;
            if logs {
                volume.settle().unwrap();
                answered.push((clock.now(), states.len() - 1));
            }
            let is_certain = match dice.below(8) {
                0 => pool.commit().is_ok(),
                1 | 2 => volume.flush().is_ok(),
                _ => sync == SyncMode::Always || write_cache == off,
            };
            if is_certain {
                certain.push((clock.now(), states.len() - 1));
            }
            if step == 25 {
                snapshot(&pool, "tank/vol@s");
                certain.push((clock.now(), states.len() - 1));
            }
        }
        let end = clock.now();
        drop((volume, pool));
        let journal = device.take_journal();
        for cut in begin..=end {
            let seeded = [Survival::Seeded(cut), Survival::Seeded(cut + 1)];
            let other = [seeded[1], Survival::None][cut as usize % 2];
            for survival in [seeded[0], other, Survival::All] {
                let pool = open_cut(&journal, cut, survival).unwrap();
                let volume = open(&pool, "tank/vol", SUITE, settings);
                let found = read_all(&volume);
                let last =
                    |all: &[(u64, usize)]| all.iter().rev().find(|(at, _)| *at <= cut).unwrap().1;
                let from = match survival {
                    // All that was written is there: the process was killed, and not the device.
                    Survival::All => last(&certain).max(last(&answered)),
                    _ => last(&certain),
                };
                let to = states.iter().filter(|(at, _)| *at <= cut).count();
                let possible = &states[from..to];
                let is_known = |(n, found): (usize, &[u8])| {
                    let at = n * 4096..(n + 1) * 4096;
                    possible
                        .iter()
                        .any(|(_, state)| state[at.clone()] == *found)
                };
                let unknown = found.chunks(4096).enumerate().position(|b| !is_known(b));
                assert_eq!(
                    unknown, None,
                    "seed {seed}, cut at {cut} of {begin} to {end}"
                );
                drop(volume);
                assert_clean(&pool);
            }
        }
    }
}

/// A power cut anywhere in a change of size leaves the one size or the other, and nothing of what was cut
/// off comes back.
#[test]
fn a_power_cut_while_it_becomes_smaller() {
    let clock = FaultClock::new();
    let device = fault_device(24 << 20, &clock);
    let pool = create(&device, SUITE, 1 << 20, 4096);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    let model = contents(&mut Dice(4), 1 << 20);
    write(&volume, 0, &model).unwrap();
    pool.commit().unwrap();
    let begin = clock.now();
    volume.resize(256 << 10, &origin()).unwrap();
    pool.commit().unwrap();
    let end = clock.now();
    drop((volume, pool));
    let journal = device.take_journal();
    let mut sizes = std::collections::BTreeSet::new();
    for cut in begin..=end {
        let pool = open_cut(&journal, cut, Survival::Seeded(cut)).unwrap();
        let volume = open(&pool, "tank/vol", SUITE, Settings::default());
        let size = volume.size();
        sizes.insert(size);
        assert!(read_all(&volume) == model[..size as usize], "cut at {cut}");
        if size == 256 << 10 {
            volume.resize(1 << 20, &origin()).unwrap();
            let all = read_all(&volume);
            assert!(all[256 << 10..].iter().all(|byte| *byte == 0));
        }
    }
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [256 << 10, 1 << 20]);
}

#[test]
fn a_full_pool_says_so_and_loses_nothing() {
    let device = fault_device(32 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 64 << 20, BLOCK);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    let mut dice = Dice(5);
    let mut written = Vec::new();
    let refused = loop {
        let data = contents(&mut dice, BLOCK as usize);
        match write(&volume, written.len() as u64 * BLOCK, &data) {
            Ok(()) => written.push(data),
            Err(error) => break error,
        }
    };
    assert!(refused.is_no_space(), "{refused}");
    assert!(written.len() > 1000, "{}", written.len());
    volume.flush().unwrap();
    let found = read_all(&volume);
    let held = found.chunks(BLOCK as usize).take(written.len());
    assert!(held.eq(written.iter().map(Vec::as_slice)));
    // Space comes back.
    volume.discard(0, 8 << 20).unwrap();
    for _ in 0..3 {
        pool.commit().unwrap();
    }
    write(&volume, 0, &contents(&mut dice, 1 << 20)).unwrap();
    close(volume);
    assert_clean(&pool);
}

/// With what a volume reserves it can be written, and overwritten, whatever else fills the pool.
#[test]
fn a_reservation_holds() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 16 << 20, BLOCK);
    let shape = pool.find("tank/vol").unwrap().volume().unwrap();
    let reserved = shape.reservation().to_string();
    let changes = [("refreservation".to_owned(), Some(reserved))];
    pool.set_props(&["tank/vol".into()], &changes, &origin())
        .unwrap();
    let greedy = NewDataset {
        guid: 9,
        ..new_volume(None, 1 << 30, BLOCK)
    };
    pool.create_dataset("tank/greedy", greedy, &origin())
        .unwrap();
    let limited = Settings {
        limited: true,
        ..Settings::default()
    };
    let greedy = open(&pool, "tank/greedy", None, limited);
    let mut dice = Dice(6);
    let mut fill =
        || (0..).find_map(|n| write(&greedy, n * BLOCK, &contents(&mut dice, 16384)).err());
    assert!(fill().is_some_and(|error| error.is_no_space()));
    let volume = open(&pool, "tank/vol", SUITE, limited);
    let mut dice = Dice(7);
    for round in 0..4 {
        for at in 0..1024 {
            let data = contents(&mut dice, BLOCK as usize);
            let at = at * 389 % 1024 * BLOCK;
            write(&volume, at, &data).unwrap_or_else(|error| panic!("{round}: {error}"));
        }
    }
    volume.close().unwrap();
    greedy.close().unwrap();
}

/// The seal is over the size too, and over every block.
#[test]
fn changed_bytes_are_noticed() {
    let device = fault_device(24 << 20, &FaultClock::new());
    let pool = create(&device, SUITE, 1 << 20, BLOCK);
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    write(&volume, 0, &contents(&mut Dice(8), 1 << 20)).unwrap();
    close(volume);
    for mark in ["2097152 16384", "1048576 4096"] {
        let changes = [("@volume".to_owned(), Some(mark.to_owned()))];
        pool.set_props(&["tank/vol".into()], &changes, &origin())
            .unwrap();
        let opened = try_open(&pool, "tank/vol", SUITE, Settings::default());
        let error = opened.err().expect("it is not what was sealed").to_string();
        assert!(error.contains("seal"), "{error}");
    }
    let changes = [("@volume".to_owned(), Some("1048576 16384".to_owned()))];
    pool.set_props(&["tank/vol".into()], &changes, &origin())
        .unwrap();
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    read_all(&volume);
    drop(volume);
    let checksum = {
        let id = pool.find("tank/vol").unwrap().id;
        let dataset = pool.open_dataset(id).unwrap();
        let ptr = dataset.get(ArrayKind::Data, 3).unwrap();
        ptr.place.checksum
    };
    pool.export().unwrap();
    drop(pool);
    let mut image = device.to_bytes();
    let is_it = |at: &usize| {
        let hash = image.get(*at..*at + BLOCK as usize).map(blake3::hash);
        hash.is_some_and(|hash| hash.as_bytes()[..16] == checksum)
    };
    let at = (0..image.len()).step_by(4096).find(is_it).unwrap();
    image[at + 5000] ^= 1;
    let pool = open_image(image).unwrap();
    let volume = open(&pool, "tank/vol", SUITE, Settings::default());
    let mut buf = vec![0; BLOCK as usize];
    assert!(volume.read_at(3 * BLOCK, &mut buf).is_err());
    volume.read_at(4 * BLOCK, &mut buf).unwrap();
    // One that is written as a whole is not read for it.
    assert!(write(&volume, 3 * BLOCK + 1, b"x").is_err());
    write(&volume, 3 * BLOCK, &buf).unwrap();
    volume.read_at(3 * BLOCK, &mut buf).unwrap();
}
