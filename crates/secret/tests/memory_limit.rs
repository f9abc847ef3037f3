//! Without leave to lock memory there are no secrets. One test, because it changes its process.

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use secret::{Error, Key, Secret};

#[test]
fn the_limit_is_named() {
    let before = Key::from_bytes(&[1; 32]).expect("memory");

    let limit = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Memlock, limit).expect("a lower limit");
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).expect("fewer capabilities");

    let error = Secret::zeroed(10_000).expect_err("cannot be locked");
    assert!(
        matches!(error, Error::LockLimit { limit: 0, .. }),
        "{error:?}"
    );
    let message = error.to_string();
    assert!(
        message.contains("`ulimit -l`") && message.contains("may lock 0 bytes"),
        "{message}"
    );

    // What is locked stays, and its page has space for more of its size.
    let after = Key::from_bytes(&[2; 32]).expect("a slot in a page that is locked");
    assert_ne!(before, after);
}
