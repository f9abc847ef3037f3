//! What `crypto enable` and `disable` have written, and what is typed to switch things on and off.

#![no_main]

use cipher::{Error, Mechanism, Policy, PolicyTarget, hwcap_setting};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = hwcap_setting(text);
    if let Ok(target) = PolicyTarget::parse(text) {
        let mut policy = Policy::default();
        // Either every mechanism keeps a provider, or nothing has changed.
        if policy.disable(target).is_err() {
            assert_eq!(policy, Policy::default());
        }
        check(&policy);
    }
    if let Ok(policy) = Policy::parse(text) {
        check(&policy);
    }
});

fn check(policy: &Policy) {
    assert_eq!(Policy::parse(&policy.to_string()).as_ref(), Ok(policy));
    for mechanism in Mechanism::all() {
        match policy.provider(mechanism) {
            Ok(provider) => assert!(!policy.is_disabled(provider, mechanism)),
            Err(Error::NotApproved {
                mechanism: named, ..
            }) => {
                assert_eq!(named, mechanism);
                assert!(policy.is_fips() && !mechanism.is_approved());
            }
            Err(error) => panic!("{error}"),
        }
    }
}
