//! Frames on the daemon's socket, and the requests in them.

#![no_main]

use protocol::api::{DaemonAnswer, Request};
use protocol::wire;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut stream = data;
    let _ = wire::receive::<Request>(&mut stream);
    let _ = wire::receive_secret(&mut stream, u32::MAX);
    let _ = wire::receive::<DaemonAnswer>(&mut &data[..]);
    let _ = wire::receive_secret(&mut &data[..], u32::MAX);
    // The JSON itself, without a frame around it.
    if let Ok(request) = serde_json::from_slice::<Request>(data) {
        let text = serde_json::to_vec(&request).unwrap();
        serde_json::from_slice::<Request>(&text).unwrap();
    }
    let _ = serde_json::from_slice::<DaemonAnswer>(data);
});
