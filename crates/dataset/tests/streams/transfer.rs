//! Histories of files that travel, sealed or in the clear, whole or by what is new, straight on or over another
//! pool: what arrives is what was sent, and lives.

#[path = "../../../pool/tests/common/forgery.rs"]
mod forged;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::driver::Driver;
use crate::common::look::look;
use crate::common::model::{Picture, assert_same};
use crate::common::*;
use block::fault::FaultClock;
use cipher::Suite;
use dataset::{Compression, Dataset, RecordOpener, RecordSealer, Resealer, Settings};
use forged::fitting;
use pool::{
    Begin, NewClone, Pool, ReceiveInto, ReceivePolicy, SealInput, SendOf, StreamPosition,
    StreamSealer,
};

/// A destination of a stream, and the dataset there.
struct Copy<'a> {
    pool: &'a Pool,
    name: &'static str,
    suite: Option<Suite>,
    settings: Settings,
}

impl Copy<'_> {
    fn keys(&self) -> Option<Vec<keys::DataKeys>> {
        self.suite.map(data_keys)
    }

    fn holds(&self, snapshot: &str) -> Picture {
        let entry = self
            .pool
            .find(&format!("{}@{snapshot}", self.name))
            .unwrap();
        let settings = Settings {
            read_only: true,
            ..self.settings
        };
        let (engine, keys) = (engine(8, 0), self.keys());
        let files = Dataset::open(&engine, self.pool, entry.id, keys, settings, &ROOT_USER);
        look(files.unwrap().as_ref()).unwrap()
    }

    fn stream(&self, how: How, to: &str, from: Option<&str>, start: StreamPosition) -> Vec<u8> {
        let id = |snapshot: &str| {
            let name = match snapshot.contains('@') {
                true => snapshot.to_owned(),
                false => format!("{}@{snapshot}", self.name),
            };
            self.pool.find(&name).unwrap().id
        };
        let (to, from) = (id(to), from.map(id));
        let is_sealed = how == How::Sealed && self.suite.is_some();
        let open = (how == How::Plain).then(|| {
            let base = from.map(|from| (from, self.keys()));
            let opener = RecordOpener::new(self.pool, to, base, self.keys()).unwrap();
            Box::new(opener) as Box<dyn pool::OpenRecords>
        });
        let what = SendOf {
            to,
            from,
            start,
            keyring: if is_sealed { vec![7; 100] } else { Vec::new() },
            keys_txg: self.pool.entry(to).unwrap().keys_txg(),
            props: BTreeMap::new(),
            open,
            readers: 2,
        };
        let mut bytes = Vec::new();
        self.pool.send(what).unwrap().write(&mut bytes).unwrap();
        bytes
    }

    fn receive(&self, mut bytes: &[u8], resumable: bool) -> pool::Result<()> {
        let into = ReceiveInto {
            target: self.name,
            force: false,
            resumable,
            is_open: false,
        };
        self.pool.receive(&mut bytes, &into, self, &origin())
    }
}

impl ReceivePolicy for Copy<'_> {
    fn keyring(&self, begin: &Begin, now: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        Ok(now.is_none().then(|| begin.keyring.clone()))
    }

    fn sealing(
        &self,
        _: &Begin,
        family: u64,
        _: u64,
        _: Option<&[u8]>,
    ) -> Result<StreamSealer, String> {
        let engine = engine(9, 0);
        let records = RecordSealer::new(&engine, family, self.keys(), &self.settings);
        Ok(StreamSealer {
            records: Arc::new(records.map_err(|error| error.to_string())?),
            suite: self.suite.map_or(0, |suite| suite.id()),
            keyring: self.suite.map(|_| vec![7; 100]),
            is_key_root: true,
        })
    }

    fn props(&self, _: &Begin) -> Result<BTreeMap<String, String>, String> {
        Ok(BTreeMap::new())
    }

    fn received(&self, _: &str) {}
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Sealed,
    Plain,
}

/// Brings a snapshot, broken off on its way now and then.
fn carry(how: How, from: &Copy<'_>, to: &Copy<'_>, step: (&str, Option<&str>), dice: &mut Dice) {
    let (snapshot, base) = step;
    let mut bytes = from.stream(how, snapshot, base, StreamPosition::START);
    if dice.below(2) == 0 {
        let cut = dice.below(bytes.len() as u64) as usize;
        to.receive(&bytes[..cut], true).unwrap_err();
        if let Some(token) = to.pool.resume_token(to.name).unwrap() {
            assert_eq!(token.plain, how == How::Plain);
            bytes = from.stream(how, snapshot, base, token.next);
        }
    }
    to.receive(&bytes, false).unwrap();
}

fn run(seed: u64) {
    let clock = FaultClock::new();
    let settings = Settings {
        dedup: seed.is_multiple_of(2),
        record_size: [4096, 131_072, 16_384][seed as usize % 3],
        ..Settings::default()
    };
    let devices = [(); 2].map(|()| fault_device(192 << 20, &clock));
    let suite = [Some(Suite::Xaes256Gcm), None][seed as usize / 2 % 2];
    let source = create_pool(&devices[0], suite);
    let other = create_pool(&devices[1], None);
    let files = open_files(&source, suite, settings, 0);
    let of = |pool, name, suite, compression| Copy {
        pool,
        name,
        suite,
        settings: Settings {
            compression,
            ..settings
        },
    };
    let from = of(&source, "tank", suite, Compression::Lz4);
    let chacha = Some(Suite::XChaCha20Poly1305);
    let copies = [
        (
            How::Sealed,
            of(&other, "tank/sealed", suite, Compression::Off),
        ),
        (
            How::Plain,
            of(&other, "tank/plain", chacha, Compression::Zstd(1)),
        ),
        (How::Plain, of(&other, "tank/clear", None, Compression::Off)),
    ];
    // From the second, over the other pool.
    let on = of(&other, "tank/on", Some(Suite::Aes128Ccm), Compression::Lz4);
    let mut driver = Driver::new(seed);
    let mut last: Vec<Option<String>> = vec![None; 4];
    let mut pictures = Vec::new();
    for round in 0..5 {
        for _ in 0..60 {
            driver.step(files.as_ref()).unwrap();
        }
        let name = format!("s{round}");
        snapshot(&source, &format!("tank@{name}"));
        pictures.push((name.clone(), driver.model.picture()));
        devices.iter().for_each(|device| {
            device.take_journal();
        });
        for (at, (how, copy)) in copies.iter().enumerate() {
            // One behind the other, or leaving some out. The second brings all to the one behind it.
            if at != 1 && driver.dice.below(3) == 0 {
                continue;
            }
            let step = (name.as_str(), last[at].as_deref());
            carry(*how, &from, copy, step, &mut driver.dice);
            last[at] = Some(name.clone());
        }
        if driver.dice.below(2) == 0 {
            let step = (name.as_str(), last[3].as_deref());
            carry(How::Plain, &copies[1].1, &on, step, &mut driver.dice);
            last[3] = Some(name.clone());
        }
    }
    let all = copies.iter().map(|(_, copy)| copy).chain([&on]);
    for (copy, last) in all.zip(last) {
        let Some(last) = last else { continue };
        for (snapshot, picture) in &pictures {
            if other.find(&format!("{}@{snapshot}", copy.name)).is_ok() {
                let context = format!("seed {seed}, {}@{snapshot}", copy.name);
                assert_same(&copy.holds(snapshot), picture, &context);
            }
        }
        // It goes on from there.
        let model = pictures.iter().find(|(snapshot, _)| *snapshot == last);
        let id = other.find(copy.name).unwrap().id;
        let engine = engine(10, 0);
        let files = Dataset::open(&engine, &other, id, copy.keys(), copy.settings, &ROOT_USER);
        let files: Arc<Dataset> = files.unwrap();
        assert_same(&look(files.as_ref()).unwrap(), &model.unwrap().1, copy.name);
        let mut driver = Driver::on(driver.model.clone(), Dice(seed));
        if last == "s4" {
            for _ in 0..40 {
                driver.step(files.as_ref()).unwrap();
            }
            assert_same(
                &look(files.as_ref()).unwrap(),
                &driver.model.picture(),
                copy.name,
            );
        }
        files.close().unwrap();
    }
    for pool in [&source, &other] {
        pool.commit().unwrap();
        assert_clean(pool);
    }
}

#[test]
fn whatever_way_it_takes() {
    for seed in seeds(0, 6) {
        run(seed);
    }
}

/// A clone is sent whole, or as what is new since its origin.
#[test]
fn clones() {
    for (seed, suite) in [(1, Some(Suite::Xaes256Gcm)), (2, None)] {
        let clock = FaultClock::new();
        let devices = [(); 2].map(|()| fault_device(192 << 20, &clock));
        let (source, other) = (
            create_pool(&devices[0], suite),
            create_pool(&devices[1], None),
        );
        let files = open_files(&source, suite, Settings::default(), 0);
        let mut driver = Driver::new(seed);
        let mut go_on = |files: &Dataset, name: &str| {
            for _ in 0..80 {
                driver.step(files).unwrap();
            }
            snapshot(&source, name);
            driver.model.picture()
        };
        let first = go_on(&files, "tank@first");
        let guid = source.find("tank").unwrap().guid;
        let reseal = suite.map(|suite| -> pool::Reseal {
            let resealer = Resealer::new(guid, data_keys(suite)).unwrap();
            Box::new(move |snapshot, new| {
                let old = SealInput::of(snapshot, guid);
                let seal = resealer.reseal(&old, &snapshot.seal, new);
                seal.ok_or_else(|| "it is another one's".into())
            })
        });
        let new = NewClone {
            guid: 99,
            keyring: suite.map(|_| -> pool::MakeKeyring { Box::new(|_| Ok(vec![7; 100])) }),
            is_key_root: suite.is_some(),
            reseal,
            props: BTreeMap::new(),
            is_rekeyed: false,
            rotation: None,
        };
        let clone = source.clone_snapshot("tank@first", "tank/clone", new, &origin());
        let (clone, engine) = (clone.unwrap().id, engine(11, 0));
        let keys = suite.map(data_keys);
        let settings = Settings::default();
        let clone = Dataset::open(&engine, &source, clone, keys, settings, &ROOT_USER).unwrap();
        let second = go_on(&clone, "tank/clone@second");
        let of = |pool, name, suite| Copy {
            pool,
            name,
            suite,
            settings,
        };
        let (tank, clone) = (of(&source, "tank", suite), of(&source, "tank/clone", suite));
        let start = StreamPosition::START;
        for (how, whole, from_first) in [
            (How::Sealed, "tank/a", "tank/b"),
            (How::Plain, "tank/c", "tank/d"),
        ] {
            let whole = of(&other, whole, suite);
            whole
                .receive(&clone.stream(how, "second", None, start), false)
                .unwrap();
            assert_same(&whole.holds("second"), &second, "whole");
            let copy = of(&other, from_first, suite);
            copy.receive(&tank.stream(how, "first", None, start), false)
                .unwrap();
            let next = clone.stream(how, "second", Some("tank@first"), start);
            copy.receive(&next, false).unwrap();
            assert_same(&copy.holds("first"), &first, "first");
            assert_same(&copy.holds("second"), &second, "second");
        }
        assert_clean(&other);
    }
}

#[test]
fn what_is_not_the_key_holders_is_not_sent() {
    let device = fault_device(64 << 20, &FaultClock::new());
    let suite = Some(Suite::Xaes256Gcm);
    let pool = create_pool(&device, suite);
    let files = open_files(&pool, suite, Settings::default(), 0);
    files.sync_all().unwrap();
    snapshot(&pool, "tank@a");
    let id = pool.find("tank@a").unwrap().id;
    RecordOpener::new(&pool, id, None, suite.map(data_keys)).unwrap();
    let other = RecordOpener::new(&pool, id, None, Some(data_keys(Suite::Aes256Gcm)));
    // The keys are the same, for another cipher: the seal is right, and nothing opens.
    let opener = other.unwrap();
    let what = SendOf {
        to: id,
        from: None,
        start: StreamPosition::START,
        keyring: Vec::new(),
        keys_txg: 0,
        props: BTreeMap::new(),
        open: Some(Box::new(opener)),
        readers: 2,
    };
    let mut bytes = Vec::new();
    pool.send(what).unwrap().write(&mut bytes).unwrap_err();
}

/// A sender without the key can forge a seal. Where the key is not loaded, it is received: it cannot be checked
/// there. With the key it neither opens nor is sent on in the clear.
#[test]
fn a_seal_that_was_made_up_is_noticed() {
    let devices = [(); 2].map(|()| fault_device(64 << 20, &FaultClock::new()));
    let suite = Some(Suite::Xaes256Gcm);
    let (source, other) = (
        create_pool(&devices[0], suite),
        create_pool(&devices[1], None),
    );
    let files = open_files(&source, suite, Settings::default(), 0);
    files.sync_all().unwrap();
    for name in ["tank@a", "tank@b"] {
        snapshot(&source, name);
    }
    let of = |pool, name| Copy {
        pool,
        name,
        suite,
        settings: Settings::default(),
    };
    let (from, to) = (of(&source, "tank"), of(&other, "tank/b"));
    let whole = from.stream(How::Sealed, "a", None, StreamPosition::START);
    let seal = source.find("tank@a").unwrap().seal;
    let at = whole.windows(32).position(|bytes| *bytes == seal).unwrap();
    let mut forged = whole;
    forged[at] ^= 1;
    to.receive(&fitting(&forged), false).unwrap();
    let id = other.find("tank/b@a").unwrap().id;
    let damaged = |result: dataset::Result<()>| {
        assert!(
            matches!(result, Err(dataset::Error::Damaged { .. })),
            "{result:?}"
        );
    };
    let opener = RecordOpener::new(&other, id, None, to.keys());
    damaged(opener.map(drop));
    let settings = Settings::default();
    let opened = Dataset::open(&engine(8, 0), &other, id, to.keys(), settings, &ROOT_USER);
    damaged(opened.map(drop));
    // Nor is it what something goes on from.
    let next = from.stream(How::Sealed, "b", Some("a"), StreamPosition::START);
    to.receive(&next, false).unwrap();
    let next = other.find("tank/b@b").unwrap().id;
    RecordOpener::new(&other, next, None, to.keys()).unwrap();
    let base = Some((id, to.keys()));
    damaged(RecordOpener::new(&other, next, base, to.keys()).map(drop));
}
