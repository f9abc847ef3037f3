//! Key slots take memory of what the process has for password hashes. One test: it is the whole process's.

mod common;

use common::{container, opens, secret};
use luks::{ContainerVersion, Error};

#[test]
fn a_slot_that_takes_more_than_there_is_is_refused_with_its_cost() {
    let (made, _) = container(ContainerVersion::V2);
    keys::set_hash_memory(31);
    let refused = made.unlock(&secret("first"), None).unwrap_err();
    assert!(
        matches!(refused, Error::Keys(keys::Error::KdfBudget { .. })),
        "{refused}"
    );
    keys::set_hash_memory(32);
    assert_eq!(opens(&made, &["first"]), ["first"]);
}
