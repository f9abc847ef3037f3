//! The messages to the process for the network: its settings, and later each new certificate.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::tls::TlsIdentity;

/// Settings are hardly longer. What grows would leave a copy of the key behind.
const SIZE: usize = 256 << 10;

/// The first message. Those after it are an [`TlsIdentity`] each.
#[derive(Serialize, Deserialize)]
pub(super) struct NetworkSettings {
    pub(super) identity: TlsIdentity,
    pub(super) names: Vec<String>,
    /// The user and the group to become.
    pub(super) account: Option<(u32, u32)>,
}

/// Sends a message: its length, and JSON.
pub(super) fn send(channel: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut text = Zeroizing::new(Vec::with_capacity(SIZE));
    serde_json::to_writer(&mut *text, what)?;
    channel.write_all(&(text.len() as u64).to_le_bytes())?;
    channel.write_all(&text)
}

/// Receives a message.
pub(super) fn receive<T: DeserializeOwned>(channel: &mut UnixStream) -> io::Result<T> {
    let mut len = [0; 8];
    channel.read_exact(&mut len)?;
    let mut text = Zeroizing::new(Vec::with_capacity(SIZE));
    channel
        .take(u64::from_le_bytes(len))
        .read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
