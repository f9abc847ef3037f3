//! A token that is too long.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use protocol::api::{Command, FailureKind};
use protocol::client::{BAD_TOKEN, DaemonConnection};
use secret::Secret;

use super::site::{Site, Typist, ZONES};

#[test]
fn a_token_that_is_too_long_is_a_refused_token() {
    let site = Site::new(&ZONES[..1]);
    let token = Secret::from_slice(&[b'x'; 15_000]).unwrap();
    for is_admin in [true, false] {
        let mut peer = site.delegate(|_| true);
        peer.is_admin = is_admin;
        let (client, server) = UnixStream::pair().unwrap();
        let refused = thread::scope(|scope| {
            scope.spawn(|| site.daemon.serve_peer(peer, server));
            let client = DaemonConnection::over(client)
                .with_token(Some(Arc::new(token.try_clone().unwrap())));
            client.call(Command::Mounts, &mut Typist).unwrap_err()
        });
        assert_eq!(refused.kind, FailureKind::Permission);
        assert_eq!(refused.message, BAD_TOKEN);
    }
}
