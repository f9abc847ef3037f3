//! Clients that do what they should not: they get an error or lose their connection, and no other client notices.

mod common;

use std::net::Shutdown;
use std::sync::Arc;

use block::MemoryDevice;
use common::*;

const SIZE: usize = 4 << 20;

fn place() -> Place {
    Place::with(Arc::new(MemoryDevice::new(SIZE)))
}

#[test]
fn what_is_no_protocol_is_not_listened_to() {
    let place = place();
    let hellos: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &0u32.to_be_bytes(),
        &2u32.to_be_bytes(),
        &0xffu32.to_be_bytes(),
    ];
    for hello in hellos {
        let mut client = place.connect();
        client.say(hello);
        assert!(client.is_closed(), "{hello:?}");
    }
    let mut client = place.connect();
    client.hello();
    client.say(&[0x55; 16]);
    assert!(client.is_closed());
    let mut client = place.client();
    client.say(&[0x55; 28]);
    assert!(client.is_closed());
    assert!(place.client().works());
}

#[test]
fn options_have_an_end() {
    let place = place();
    let mut client = place.connect();
    client.hello();
    // A long one is left out, and a longer one not waited for.
    let answers = client.option(LIST, &[0; 100_000]);
    assert_eq!(answers, [(ERROR + 9, vec![])]);
    assert_eq!(client.option(99, b"what?"), [(ERROR + 1, vec![])]);
    for nonsense in [
        &b""[..],
        b"\0\0\0\x09x",
        b"\0\0\0\x01x\xff\xff",
        b"\xff\xff\xff\xff",
    ] {
        assert_eq!(client.option(GO, nonsense), [(ERROR + 3, vec![])]);
        assert_eq!(client.option(SET_CONTEXT, nonsense), [(ERROR + 3, vec![])]);
    }
    assert_eq!(client.option(GO, b"\0\0\0\x01y\0\0"), [(ERROR + 6, vec![])]);
    assert_eq!(client.option(STARTTLS, b""), [(ERROR + 2, vec![])]);
    client.say_option(LIST, u32::MAX);
    assert!(client.is_closed());
}

#[test]
fn requests_that_cannot_be_are_refused_one_by_one() {
    let place = place();
    let mut client = place.client();
    const INVALID: u32 = 22;
    let end = SIZE as u64;
    for (kind, flags, offset, len, error) in [
        (READ, 0, end, 4096, INVALID),
        (READ, 0, end - 512, 4096, INVALID),
        (READ, 0, u64::MAX - 5, 4096, INVALID),
        (READ, 0, 0, u32::MAX, INVALID),
        (READ, 0, 0, 0, INVALID),
        (READ, 0, 1, 512, INVALID),
        (READ, 0, 0, 513, INVALID),
        (READ, 0xffff, 0, 512, INVALID),
        (READ, 4, 0, 2 << 20, 75),
        (WRITE_ZEROES, 0, end - 512, 4096, 28),
        (WRITE_ZEROES, 2 | 16, 0, 4096, 95),
        (TRIM, 0, 0, u32::MAX, INVALID),
        (BLOCK_STATUS, 0, 0, 4096, INVALID),
        (77, 0, 0, 4096, INVALID),
    ] {
        client.request(kind, flags, offset, len);
        assert_eq!(client.outcome(), error, "{kind} {flags} {offset}+{len}");
    }
    // What was to be written outside is not taken for requests.
    client.request(WRITE, 0, end, 1 << 20);
    client.say(&vec![0x25; 1 << 20]);
    assert_eq!(client.outcome(), 28);
    assert!(client.works());
    client.request(WRITE, 0, 0, 0x8000_0000);
    assert!(client.is_closed());
    assert!(place.client().works());
}

#[test]
fn who_does_not_read_waits_alone() {
    let place = place();
    let mut slow = place.client();
    // As many as the socket takes; the server waits until the answers are read.
    slow.0.set_nonblocking(true).unwrap();
    let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
    request.extend([0; 20]);
    request.extend((1u32 << 20).to_be_bytes());
    while std::io::Write::write(&mut slow.0, &request).is_ok_and(|n| n == request.len()) {}
    let mut others: Vec<Client> = (0..8).map(|_| place.client()).collect();
    assert!(others.iter_mut().all(Client::works));
    drop(others);
    // The export can be taken away from it.
    let export = place.exports.all().remove(0);
    assert!(place.exports.remove("x", false).is_err());
    place.exports.remove("x", true).unwrap();
    assert_eq!(export.clients(), 0);
}

#[test]
fn who_stops_talking_gets_the_answers() {
    let place = place();
    let mut client = place.client();
    for i in 0..100 {
        client.request(READ, 0, i * 4096, 4096);
    }
    client.request(FLUSH, 0, 0, 0);
    client.0.shutdown(Shutdown::Write).unwrap();
    for _ in 0..101 {
        assert_eq!(client.outcome(), 0);
    }
    assert!(client.is_closed());
    // In the middle of a request.
    let mut client = place.client();
    client.request(WRITE, 0, 0, 1 << 20);
    client.say(&[1; 1000]);
    client.0.shutdown(Shutdown::Write).unwrap();
    assert!(client.is_closed());
}

#[test]
fn hundreds_come_and_those_who_say_nothing_are_few() {
    let place = place();
    let mut clients: Vec<Client> = (0..300).map(|_| place.client()).collect();
    assert!(clients.iter_mut().all(Client::works));
    let silent: Vec<Client> = (0..64).map(|_| place.connect()).collect();
    // One more of these is not heard; but clients with an export go on.
    assert!(place.connect().is_closed());
    assert!(clients.iter_mut().all(Client::works));
    drop(silent);
    let mut late = loop {
        let mut late = place.connect();
        let mut hello = [0; 18];
        if std::io::Read::read_exact(&mut late.0, &mut hello).is_ok() {
            break late;
        }
    };
    late.say(&3u32.to_be_bytes());
    late.go();
    assert!(late.works());
}

/// A client that closed its socket without a word is gone, before its connection has noticed.
#[test]
fn an_export_goes_right_after_its_last_client() {
    let place = Place::with(Arc::new(MemoryDevice::new(1 << 20)));
    for _ in 0..50 {
        drop(place.client());
        let export = place.exports.remove("x", false).unwrap();
        let device = Arc::clone(export.device());
        let again = nbd::Export::new("x", "again", device, false).unwrap();
        place.exports.insert(Arc::new(again)).unwrap();
    }
    let _stays = place.client();
    assert!(place.exports.remove("x", false).is_err());
}
