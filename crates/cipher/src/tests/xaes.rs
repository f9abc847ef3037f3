//! The test vectors of C2SP XAES-256-GCM, <https://c2sp.org/XAES-256-GCM>.

use shake::Shake128;
use shake::digest::{ExtendableOutput, Update, XofReader};

use super::{ciphers, hex};
use crate::Suite;

fn seal(key: &[u8], nonce: &[u8; 24], plain: &[u8], aad: &[u8]) -> Vec<u8> {
    let sealed = ciphers(Suite::Xaes256Gcm, key).into_iter().map(|cipher| {
        let mut sealed = vec![0; plain.len()];
        let tag = cipher.seal(nonce, aad, plain, &mut sealed).expect("seal");
        let mut opened = vec![0; plain.len()];
        cipher
            .open(nonce, aad, &sealed, &tag, &mut opened)
            .expect("open");
        assert_eq!(opened, plain);
        sealed.extend(tag);
        sealed
    });
    let sealed: Vec<_> = sealed.collect();
    assert!(sealed.len() == 2 && sealed[0] == sealed[1]);
    sealed.concat().split_off(sealed[0].len())
}

#[test]
fn both_vectors_of_the_specification() {
    let nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX";
    assert_eq!(
        seal(&[1; 32], nonce, b"XAES-256-GCM", b""),
        hex("ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271")
    );
    assert_eq!(
        seal(&[3; 32], nonce, b"XAES-256-GCM", b"c2sp.org/XAES-256-GCM"),
        hex("986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d")
    );
}

/// Key, nonce, plaintext and associated data from one SHAKE128 stream; the hash of all that comes
/// out. The specification gives it for 10,000 and for a million turns.
fn accumulated(turns: usize) -> Vec<u8> {
    let mut source = Shake128::default().finalize_xof();
    let mut sink = Shake128::default();
    for _ in 0..turns {
        let mut take = |len: usize| {
            let mut bytes = vec![0; len];
            source.read(&mut bytes);
            bytes
        };
        let key = take(32);
        let nonce = take(24).try_into().expect("24 bytes");
        let plain_len = take(1)[0];
        let plain = take(plain_len.into());
        let aad_len = take(1)[0];
        let aad = take(aad_len.into());
        sink.update(&seal(&key, &nonce, &plain, &aad));
    }
    let mut hash = vec![0; 32];
    sink.finalize_xof().read(&mut hash);
    hash
}

#[test]
fn accumulated_over_ten_thousand() {
    assert_eq!(
        accumulated(10_000),
        hex("e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939")
    );
}

#[test]
fn accumulated_over_a_million() {
    assert_eq!(
        accumulated(1_000_000),
        hex("2163ae1445985a30b60585ee67daa55674df06901b890593e824b8a7c885ab15")
    );
}
