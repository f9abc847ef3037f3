//! Connections at the servers of the program: silent ones of some users and addresses shut no other client out.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use crate::site::{Web, client, exchange, get, post};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Gid, Pid, Signal, Uid, kill_process};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::json;

/// Does something as a user.
fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    let work = || {
        // Of this thread only.
        rustix::thread::set_thread_gid(Gid::from_raw(uid)).unwrap();
        rustix::thread::set_thread_uid(Uid::from_raw(uid)).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Connections of a user that say nothing.
fn silent(uid: u32, socket: &Path, count: usize) -> Vec<UnixStream> {
    as_user(uid, || {
        (0..count)
            .map(|_| UnixStream::connect(socket).unwrap())
            .collect()
    })
}

#[test]
fn four_users_do_not_take_all_places_of_commands() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("create tank/a");
    let users = ANN..ANN + 5;
    for uid in users.clone() {
        place.ok(&format!("allow {uid} snapshot tank/a"));
    }
    let web = Web::start(&place, &place.socket(), &[]);
    let all: Vec<UnixStream> = (ANN..ANN + 4)
        .flat_map(|uid| silent(uid, &place.socket(), 64))
        .collect();
    let snapshot = |name: &str| post("/v1/commands/snapshot", "", json!({"names": [name]}));
    let (status, body) = web.raw_as(ANN + 4, &snapshot("tank/a@1"));
    assert_eq!(status, 200, "{body}");
    place.ok("list");
    drop(all);
}

#[test]
fn silent_users_shut_nobody_out_of_the_site() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("allow 12345 snapshot tank/a");
    let web = Web::start(&place, &place.socket(), &[]);
    let mut first = silent(BOB, &web.socket, 1).pop().unwrap();
    let others: Vec<UnixStream> = (1..10)
        .flat_map(|n| silent(BOB + n, &web.socket, 32))
        .chain(silent(BOB, &web.socket, 32))
        .collect();
    assert_eq!(web.raw_as(ANN, &get("/v1/datasets", "")).0, 200);
    assert_eq!(web.raw(&get("/v1/datasets", "")).0, 200);
    // The oldest one of its user gave way.
    assert_eq!(first.read(&mut [0]).unwrap(), 0);
    drop(others);
}

#[test]
fn no_process_is_started_for_clients_that_have_gone() {
    let place = needs!(shared_place());
    place.pool("tank");
    let web = Web::start(&place, &place.socket(), &[]);
    let process = format!("/proc/{}", web.process.id());
    let threads = || {
        std::fs::read_dir(format!("{process}/task"))
            .unwrap()
            .count()
    };
    let before = threads();
    let pid = Pid::from_child(&web.process);
    for _ in 0..6 {
        // While the site is stopped, it sees no client between its request and its end.
        kill_process(pid, Signal::STOP).unwrap();
        while !std::fs::read_to_string(format!("{process}/stat"))
            .unwrap()
            .contains(") T ")
        {
            std::thread::yield_now();
        }
        as_user(ANN, || {
            for n in 0..50 {
                let mut stream = UnixStream::connect(&web.socket).unwrap();
                if n % 2 == 0 {
                    stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
                }
            }
        });
        kill_process(pid, Signal::CONT).unwrap();
    }
    // It is accepted after them, and never served by a process.
    let last = silent(0, &web.socket, 1);
    while threads() != before + 1 {
        std::thread::yield_now();
    }
    drop(last);
    let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap();
    let after_name: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // Faults of processes that have ended: after the name this is the ninth field.
    assert_eq!(after_name[8], "0");
}

/// The processes of a site that serve connections.
fn processes(web: &Web) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", web.process.id())).unwrap();
    let children = threads.filter_map(|thread| {
        // It may have ended.
        std::fs::read_to_string(thread.unwrap().path().join("children")).ok()
    });
    let text = children.collect::<Vec<_>>().join(" ");
    let numbers = text.split_whitespace().map(|pid| pid.parse().unwrap());
    numbers.filter_map(Pid::from_raw).collect()
}

/// A user may stop a process from the moment on that it has the rights of the user.
#[test]
fn stopped_processes_hold_up_no_other_user_and_give_way() {
    let place = needs!(shared_place());
    place.pool("tank");
    place.ok("create tank/a");
    place.ok("allow 12345 snapshot tank/a");
    let web = Web::start(&place, &place.socket(), &[]);
    let is_over = AtomicBool::new(false);
    let stop = || {
        while !is_over.load(Ordering::Relaxed) {
            for process in processes(&web) {
                let _ = kill_process(process, Signal::STOP);
            }
        }
    };
    let begin = || {
        let mut stream = UnixStream::connect(&web.socket).unwrap();
        // It may have to give way already.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n");
        stream
    };
    let (ann, root) = std::thread::scope(|scope| {
        scope.spawn(|| as_user(BOB, stop));
        let all: Vec<UnixStream> = (0..4)
            .flat_map(|_| {
                let some = as_user(BOB, || (0..40).map(|_| begin()).collect::<Vec<_>>());
                // Processes begin in turn, so those of the first connections have begun.
                web.raw_as(ANN, &get("/", ""));
                some
            })
            .collect();
        let ann = web.raw_as(ANN, &get("/v1/datasets", "")).0;
        let root = web.raw(&get("/v1/datasets", "")).0;
        while processes(&web).len() > 32 {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        drop(all);
        (ann, root)
    });
    assert_eq!((ann, root), (200, 200));
}

/// A connection from an address of this machine.
fn from(source: &str, to: &str) -> TcpStream {
    let stream: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
    connect(&stream, &to.parse::<SocketAddr>().unwrap()).unwrap();
    stream.into()
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn tls(client: &Arc<ClientConfig>, stream: TcpStream) -> Tls {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    StreamOwned::new(connection, stream)
}

/// Asks who the caller is, and leaves the connection open.
fn ask(stream: &mut Tls, token: &str) {
    let request = get("/v1/session", &format!("Authorization: Bearer {token}\r\n"));
    let request = request.replace("Connection: close\r\n", "");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    while !answer.ends_with("}\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0].into());
    }
    has(&answer, "HTTP/1.1 200 ");
}

#[test]
fn silent_addresses_shut_nobody_out_of_the_network() {
    let place = Place::new();
    place.pool("tank");
    let token = place.ok("web token create root");
    let token = token.trim();
    let (web, authority) = Web::on_network(&place);
    let client = client(authority);
    let mut known = tls(&client, from("127.0.0.1", &web.address));
    ask(&mut known, token);
    let all: Vec<TcpStream> = (0..320)
        .map(|n| from(&format!("127.0.1.{}", 1 + n / 32), &web.address))
        .collect();
    // A new client of another address, and one of the same.
    for source in ["127.0.0.1", "127.0.1.3"] {
        let header = format!("Authorization: Bearer {token}\r\n");
        let stream = tls(&client, from(source, &web.address));
        assert_eq!(exchange(stream, &get("/v1/session", &header)).0, 200);
    }
    ask(&mut known, token);
    drop(all);
}
