//! Key slots take memory of what the process has for password hashes. One test: it is the whole process's.

use keys::{Argon2Params, Error, HashCaller, KeyMaterial, WrappingKeyAccess};
use secret::Secret;

#[test]
fn a_slot_that_takes_more_than_there_is_is_refused_with_its_cost() {
    let passphrase = Secret::from_slice(b"correct horse").unwrap();
    let material = KeyMaterial::Passphrase(passphrase);
    let params = Argon2Params::insecure_for_tests();
    let (wrapping, key) =
        WrappingKeyAccess::create(&material, &params, 0, &cipher::SystemRandom).unwrap();
    keys::set_hash_memory(7);
    let refused = wrapping.unlock(&material).err().unwrap();
    assert!(matches!(refused, Error::KdfBudget { .. }), "{refused}");
    // Root said that this once it may.
    let root = HashCaller {
        allowed_kib: 8,
        ..HashCaller::default()
    };
    let scope = keys::hash_for(root);
    assert_eq!(wrapping.unlock(&material).unwrap().id(), key.id());
    drop(scope);
    wrapping.unlock(&material).unwrap_err();
    keys::set_hash_memory(8);
    assert_eq!(wrapping.unlock(&material).unwrap().id(), key.id());
}
