use super::*;

fn device() -> ConfigDevice {
    ConfigDevice {
        guid: 1,
        group: 2,
        size: 3,
        path: "/dev/disk".into(),
        ..ConfigDevice::default()
    }
}

fn round_trip(config: Config) {
    let bytes = config.encode();
    assert_eq!(Config::decode(&bytes), Some(config));
    for len in 0..bytes.len() {
        assert_eq!(Config::decode(&bytes[..len]), None);
    }
    let mut huge = bytes;
    huge[8..12].fill(0xff);
    assert_eq!(Config::decode(&huge), None);
}

#[test]
fn round_trip_and_total() {
    round_trip(Config {
        devices: vec![device()],
        wipe: vec![4, 5],
        ..Config::default()
    });
    round_trip(Config {
        devices: vec![
            ConfigDevice {
                state: DeviceState::Resilvering,
                from_txg: 6,
                replaces: 7,
                was_spare: true,
                errors: ErrorCounts {
                    read: 8,
                    write: 9,
                    checksum: 10,
                },
                ..device()
            },
            ConfigDevice {
                state: DeviceState::Offline,
                is_temporary: true,
                ..device()
            },
        ],
        wipe: vec![4, 5],
        is_redundant: true,
        epochs: vec![Epoch { guid: 1, start: 2 }],
        ..Config::default()
    });
    round_trip(with_parity());
}

#[test]
fn the_follower_is_at_the_end() {
    let mut config = Config {
        devices: vec![device()],
        ..Config::default()
    };
    let before = config.encode();
    config.follower = Some(ConfigFollower {
        interval: 30,
        since: 7,
        path: "s3://bucket/tank".into(),
    });
    let bytes = config.encode();
    assert_eq!(Config::decode(&bytes), Some(config));
    assert!(
        bytes.starts_with(&before),
        "other programs read what was there"
    );
    assert_eq!(Config::decode(&bytes[..bytes.len() - 1]), None);
}

#[test]
fn pools_that_were_split_off_are_at_the_end() {
    let mut config = Config {
        devices: vec![device()],
        ..Config::default()
    };
    let before = config.encode();
    (1..=SPLITS_MAX as u64 + 2).for_each(|guid| config.add_split(guid));
    assert_eq!(config.splits.len(), SPLITS_MAX);
    assert_eq!(config.splits[0], 3, "the oldest are forgotten");
    let bytes = config.encode();
    assert_eq!(Config::decode(&bytes), Some(config));
    assert!(
        bytes.starts_with(&before),
        "other programs read what was there"
    );
    let mut many = bytes.clone();
    many[before.len() + 20..][..2].fill(0xff);
    assert_eq!(Config::decode(&many), None);
    assert_eq!(Config::decode(&bytes[..bytes.len() - 1]), None);
}

fn with_parity() -> Config {
    Config {
        devices: vec![ConfigDevice {
            column: 4,
            ..device()
        }],
        is_redundant: true,
        shapes: vec![Shape::WHOLE, Shape::WHOLE, Shape::new(5, 2).unwrap()],
        ..Config::default()
    }
}

fn with_logs() -> Config {
    let role = |purpose, segments| Role { purpose, segments };
    Config {
        devices: vec![device()],
        is_redundant: true,
        roles: vec![
            Role::default(),
            role(Purpose::Gone, 9),
            role(Purpose::Logs, 8),
        ],
        ..Config::default()
    }
}

#[test]
fn groups_that_hold_no_data_round_trip_and_cannot_be_huge() {
    round_trip(with_logs());
    round_trip(Config {
        shapes: vec![Shape::new(3, 1).unwrap()],
        ..with_logs()
    });
    let mut config = with_logs();
    assert_eq!(config.purpose(1), Purpose::Gone);
    assert_eq!(config.purpose(3), Purpose::Data);
    assert_eq!(config.dispensable().collect::<Vec<_>>(), [(1, 9), (2, 8)]);
    config.set_role(
        5,
        Role {
            purpose: Purpose::Logs,
            segments: ROLE_SEGMENTS_MAX - 17,
        },
    );
    round_trip(config.clone());
    config.roles[5].segments += 1;
    assert_eq!(Config::decode(&config.encode()), None);
    let mut parity = with_logs();
    parity.shapes = vec![Shape::new(3, 1).unwrap(); 3];
    assert_eq!(Config::decode(&parity.encode()), None, "logs with parity");
}

#[test]
fn the_group_that_leaves_is_the_one_that_is_removed() {
    let mut config = with_logs();
    config.removal = Some(RemovalStatus {
        group: 3,
        started: 4,
        total: 5,
        moved_till: 6,
        name: "mirror-3".into(),
        ..RemovalStatus::default()
    });
    let leave = |config: &mut Config, group| {
        let role = Role {
            purpose: Purpose::Leaving,
            segments: 0,
        };
        config.set_role(group, role);
    };
    assert_eq!(Config::decode(&config.encode()), None, "none leaves");
    leave(&mut config, 3);
    round_trip(config.clone());
    leave(&mut config, 0);
    assert_eq!(Config::decode(&config.encode()), None, "two leave");
    config.set_role(0, Role::default());
    config.removal.as_mut().unwrap().group = 0;
    assert_eq!(Config::decode(&config.encode()), None, "another leaves");
    config.removal.as_mut().unwrap().phase = crate::RemovalPhase::Finished;
    config.roles[3].purpose = Purpose::Moved;
    assert_eq!(Config::decode(&config.encode()), None, "without segments");
    config.roles[3].segments = 7;
    round_trip(config);
}

#[test]
fn cache_devices_are_behind_what_older_programs_read() {
    let without = Config {
        wipe: vec![4, 5],
        ..with_logs()
    };
    let cache = ConfigCache {
        guid: 9,
        size: 10,
        path: "/dev/fast".into(),
    };
    let with = Config {
        caches: vec![cache.clone(), cache.clone()],
        ..without.clone()
    };
    let (short, long) = (without.encode(), with.encode());
    assert!(long.starts_with(&short));
    assert_eq!(Config::decode(&long), Some(with));
    assert_eq!(
        Config::decode(&crate::format::codec::pad(short.clone())),
        Some(without)
    );
    for len in short.len() + 2..long.len() {
        assert_eq!(Config::decode(&long[..len]), None);
    }
    let many = Config {
        caches: vec![cache; CACHES_MAX + 1],
        ..with_logs()
    };
    assert_eq!(Config::decode(&many.encode()), None);
}

#[test]
fn columns_that_a_group_does_not_have_are_refused() {
    let mut config = with_parity();
    config.devices[0].column = 5;
    assert_eq!(Config::decode(&config.encode()), None);
    config.devices[0].group = 1;
    assert_eq!(Config::decode(&config.encode()), None);
    config.devices[0].column = 0;
    assert_eq!(Config::decode(&config.encode()), Some(config));
}

#[test]
fn a_group_is_complete_with_enough_columns() {
    let mut config = with_parity();
    let column = |column| ConfigDevice { column, ..device() };
    config.devices = [0, 1, 1, 3].map(column).to_vec();
    assert!(config.is_complete(2, |_| true));
    assert!(!config.is_complete(2, |device| device.column != 3));
    assert!(!config.is_complete(0, |_| true));
}

/// Checks the bytes that programs before mirrors wrote and read.
#[test]
fn a_plain_pool_keeps_the_first_version() {
    let config = Config {
        devices: vec![device()],
        ..Config::default()
    };
    let bytes = config.encode();
    assert_eq!(bytes[4..8], [1, 0, 1, 0]);
    assert_eq!(bytes.len(), 84 + 8 + 2 + 8 + 2 + 9);
    let mut redundant = config;
    redundant.is_redundant = true;
    assert_eq!(redundant.encode()[4..6], [2, 0]);
}
