//! A hardened process does not dump. One test, because it changes its process.

use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};

#[test]
fn no_core_dumps() {
    assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::Dumpable));
    secret::harden_process().expect("harden");
    assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
    let limit = getrlimit(Resource::Core);
    assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
    secret::harden_process().expect("once more");
    // Secrets can still be made.
    secret::Key::from_bytes(&[7; 32]).expect("memory");
}
