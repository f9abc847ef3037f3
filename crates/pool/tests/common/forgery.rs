//! Forged streams.

/// The same frames, with hashes that fit what is in them.
#[allow(unreachable_pub)]
pub fn fitting(stream: &[u8]) -> Vec<u8> {
    let (mut out, mut chain, mut rest) = (Vec::new(), [0; 32], stream);
    while !rest.is_empty() {
        let (head, more) = rest.split_at(160);
        let len = u32::from_le_bytes(head[24..28].try_into().unwrap());
        let (payload, more) = more.split_at(len as usize);
        let mut head = head.to_vec();
        head[96..128].copy_from_slice(blake3::hash(payload).as_bytes());
        let mut hasher = blake3::Hasher::new();
        hasher.update(&chain).update(&head[..128]);
        chain = *hasher.finalize().as_bytes();
        head[128..].copy_from_slice(&chain);
        out.extend([head.as_slice(), payload].concat());
        rest = more;
    }
    out
}
