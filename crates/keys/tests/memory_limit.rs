//! Without leave to lock memory there are no secrets. One test, because it changes its process.

use cipher::SeededRandom;
use keys::{Error, Key, Secret};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

#[test]
fn the_limit_is_named() {
    let random = SeededRandom::new(1);
    let before = Key::random(&random).expect("memory");

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

    // What is locked stays, and its page has room for more of its size.
    let after = Key::random(&random).expect("a slot in a page that is locked");
    assert_ne!(before, after);
}
