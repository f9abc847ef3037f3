//! pefs: names, targets of links, sectors, configurations, databases and records of chains of any bytes.

#![no_main]

use std::sync::{Arc, LazyLock};

use cipher::SeededRandom;
use stack::formats::DirectoryFormat;
use stack::formats::pefs::{
    Algorithm, Config, Database, PefsFormat, PefsKey, PefsMasterKey, PefsNode, chain,
};
use vfs::Kind;

fn master() -> PefsMasterKey {
    let passphrase = secret::Secret::from_slice(b"passphrase").unwrap();
    PefsMasterKey::from_parts(&[], Some((&passphrase, 1))).unwrap()
}

/// With one key.
static FORMAT: LazyLock<PefsFormat> = LazyLock::new(|| {
    let format = PefsFormat::new(Arc::new(SeededRandom::new(1)));
    let key = PefsKey::new(&master(), Algorithm::default()).unwrap();
    format.add_key(key).unwrap();
    format
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&what, data)) = data.split_first() else {
        return;
    };
    let root = PefsNode::default();
    let node = FORMAT.new_node(&root, Kind::Directory).unwrap().node;
    match what % 4 {
        0 => {
            let none = |_: &[u8]| Err(vfs::Error::NotFound);
            let shown = FORMAT.plain_name(&root, data, &none);
            assert!(shown.is_ok_and(|plain| plain.is_some()));
            let _ = FORMAT.plain_name(&node, data, &none);
            if let Ok(name) = FORMAT.new_name(&node, data, &node) {
                let _ = FORMAT.plain_name(&node, &name.name, &none);
            }
        }
        1 => {
            let _ = FORMAT.open_target(&node, data);
            let mut sectors = data.to_vec();
            FORMAT.open(&node, &[], 3, &mut sectors).unwrap();
            FORMAT.seal(&node, &[], 3, &mut sectors).unwrap();
            assert_eq!(sectors, data);
        }
        2 => {
            let _ = Config::decode(data);
        }
        _ => {
            let Ok(database) = Database::new(data) else {
                return;
            };
            let _ = database.get(&master().id().0);
            let _ = chain::open(Some(&database), master(), Algorithm::default());
        }
    }
});
