//! Decoders of the bytes of a lower directory, for `fuzz/`.

use std::collections::HashMap;
use std::sync::Arc;

use cipher::SeededRandom;
use vfs::Kind;

use super::format::FscryptNode;
use super::tool::{Config, ProtectedPolicy, Protector, ProtectorLink};
use super::{
    EncryptionPolicy, FscryptFormat, FscryptMasterKey, InodeContext, KeyName, XattrNamespace,
};
use crate::formats::DirectoryFormat;

/// Reads bytes as a context, a name, the contents of a file with a long name, a target and contents, with
/// and without the key.
pub fn decode(bytes: &[u8]) {
    if let Some(context) = InodeContext::decode(bytes) {
        assert_eq!(context.encode(), bytes);
    }
    let master = || {
        let key = secret::Secret::from_slice(&[5; 64]).expect("memory");
        FscryptMasterKey::new(key).expect("a length")
    };
    let name = master().identifier().expect("derived");
    let KeyName::Identifier(identifier) = name else {
        return;
    };
    let nonce = [3; 16];
    let policy = EncryptionPolicy::new(identifier);
    let context = InodeContext { policy, nonce };
    for keys in [HashMap::new(), HashMap::from([(name, master())])] {
        let random = Arc::new(SeededRandom::new(1));
        let format = FscryptFormat::new(XattrNamespace::User, keys, random);
        let dir = FscryptNode::new(Kind::Directory, Some(context));
        let long = |_: &[u8]| Ok(bytes.to_vec());
        if let Ok(Some(plain)) = format.plain_name(&dir, bytes, &long) {
            assert!(!plain.is_empty() && !plain.contains(&b'/'));
            assert!(format.lower_name(&dir, &plain).is_ok());
        }
        let _ = format.lower_name(&dir, bytes);
        let _ = format.new_name(&dir, bytes, &dir);
        let link = FscryptNode::new(Kind::Symlink, Some(context));
        let _ = format.open_target(&link, bytes);
        if let Ok(stored) = format.seal_target(&link, bytes) {
            let plain = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            match plain.is_empty() {
                true => assert!(format.open_target(&link, &stored).is_err()),
                false => assert_eq!(format.open_target(&link, &stored).as_deref(), Ok(plain)),
            }
        }
        let file = FscryptNode::new(Kind::File, Some(context));
        let _ = format.open(&file, &[], u64::MAX / 4096, &mut bytes.to_vec());
    }
}

/// Reads bytes, after one that says what they are, as a file of the tool. What is read is written as it
/// is read again.
pub fn decode_tool(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, policy)) => {
            if let Ok(policy) = ProtectedPolicy::decode(policy) {
                let again = ProtectedPolicy::decode(&policy.encode()).expect("written");
                assert_eq!(again, policy);
            }
        }
        Some((1, protector)) => {
            if let Ok(protector) = Protector::decode(protector) {
                let again = Protector::decode(&protector.encode()).expect("written");
                assert_eq!(again, protector);
            }
        }
        Some((2, link)) => {
            if let Ok(link) = ProtectorLink::decode(link) {
                assert_eq!(
                    ProtectorLink::decode(link.encode().as_bytes()).expect("written"),
                    link
                );
            }
        }
        Some((3, config)) => {
            if let Ok(config) = Config::decode(config) {
                let again = Config::decode(config.encode().as_bytes()).expect("written");
                assert_eq!(again.encode(), config.encode());
            }
        }
        _ => {}
    }
}
