//! `ha.toml` and `stmf-ha.conf`, from a pool of anywhere. What is understood can be spelled in both ways, and means the same.

#![no_main]

use protocol::ha_file::{HaFile, Spelling};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (spelling, text) = match support::choice(data, 2) {
        Some((0, rest)) => (Spelling::Toml, rest),
        Some((_, rest)) => (Spelling::Stmf, rest),
        None => return,
    };
    let Ok(items) = spelling.read(text) else {
        return;
    };
    let Ok(file) = HaFile::of(&items) else {
        return;
    };
    for target in &file.targets {
        assert!(file.portal_groups.contains_key(&target.portal_group));
        let _ = target.iscsi_name("tank");
    }
    for other in [Spelling::Toml, Spelling::Stmf] {
        if let Ok(written) = other.write(&items) {
            let again = other.parse(written.as_bytes()).expect("it can be read");
            assert_eq!(again.targets.len(), file.targets.len());
            assert_eq!(again.portal_groups, file.portal_groups);
        }
    }
});
