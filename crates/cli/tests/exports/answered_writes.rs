//! Writes that the daemon has answered to clients of a volume, before any flush, outlive the daemon. If they may not
//! have outlived the machine, or need not, the first flush of each client fails.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::common::*;
use crate::initiator::{CHECK, GOOD, Initiator};

const BLOCK: usize = 4096;
const BLOCKS: usize = 256;
const TARGET: &str = "iqn.2026-01.io.github.strongroom:vol";

/// An encrypted volume of 64 MiB, whose key the daemon loads by itself.
fn volume(place: &Place) {
    fs::write(place.path("raw"), "0123456789abcdef0123456789abcdef").unwrap();
    let (file, key) = (place.arg("tank.pool"), place.arg("raw"));
    place.ok(&format!("pool create -s 400M -m none tank {file}"));
    place.ok(&format!(
        "create -V 64M -o encryption=on -o keysource=raw,file://{key} tank/vol"
    ));
}

/// The offset of the n-th block: no two are neighbours, and some are in one record.
fn offset(n: usize) -> u64 {
    (n * 7 % BLOCKS * 2 * BLOCK) as u64
}

fn bytes(n: usize) -> Vec<u8> {
    contents(n, BLOCK)
}

fn log_in(portal: &str) -> Initiator {
    let mut initiator = Initiator::log_in(portal.parse().unwrap(), "iqn.test:own", 1, TARGET);
    initiator.attentions();
    initiator
}

/// READ(10) or WRITE(10) of blocks of 512 bytes.
fn cdb(operation: u8, offset: u64, len: usize) -> [u8; 10] {
    let mut cdb = [0; 10];
    cdb[0] = operation;
    cdb[2..6].copy_from_slice(&((offset / 512) as u32).to_be_bytes());
    cdb[7..9].copy_from_slice(&((len / 512) as u16).to_be_bytes());
    cdb
}

fn read(initiator: &mut Initiator, offset: u64, len: usize) -> Vec<u8> {
    let outcome = initiator.run(&cdb(0x28, offset, len), &[], len);
    assert_eq!(outcome.status, GOOD);
    outcome.data
}

fn write(initiator: &mut Initiator, offset: u64, data: &[u8]) {
    let outcome = initiator.run(&cdb(0x2a, offset, data.len()), data, 0);
    assert_eq!(outcome.status, GOOD, "{outcome:?}");
}

fn flush(initiator: &mut Initiator) {
    assert_eq!(initiator.run(&cdb(0x35, 0, 0), &[], 0).status, GOOD);
}

/// A flush that fails because the unit cannot vouch for what was written before.
fn flush_fails(initiator: &mut Initiator) {
    let outcome = initiator.run(&cdb(0x35, 0, 0), &[], 0);
    // MEDIUM ERROR, WRITE ERROR.
    assert_eq!((outcome.status, outcome.sense), (CHECK, [3, 0x0c, 0]));
}

/// The bit for the write cache in the page about caching.
fn has_write_cache(initiator: &mut Initiator) -> bool {
    let page = initiator.run(&[0x1a, 8, 0x08, 0, 64, 0], &[], 64);
    assert_eq!(page.status, GOOD);
    page.data[4 + 2] & 4 != 0
}

/// Exports the volume at a new portal, which this returns.
fn export(place: &Place) -> String {
    let portal = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let portal = portal.unwrap().to_string();
    place.ok(&format!(
        "iscsi export --no-authentication --portal {portal} --name {TARGET} tank/vol"
    ));
    portal
}

/// Makes the state directory that of another boot of the machine.
fn another_boot(file: &Path) {
    let own = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(own.trim()));
    fs::write(file, text.replace(own.trim(), "another boot")).unwrap();
}

/// Starts the daemon again, as if the machine had been started anew if `reboots`.
fn start_again(place: &mut Place, reboots: bool) {
    place.kill();
    let file = place.path("state/running.json");
    assert!(file.exists());
    if reboots {
        another_boot(&file);
    }
    place.start();
    place.says("iscsi list -H", "\t64M\t");
}

#[test]
fn iscsi_blocks_that_were_not_flushed_outlive_the_daemon() {
    let mut place = Place::new();
    volume(&place);
    let portal = export(&place);
    let far = 32 << 20;
    {
        let mut initiator = log_in(&portal);
        write(&mut initiator, far, &vec![7; 16 * BLOCK]);
        flush(&mut initiator);
        (0..BLOCKS).for_each(|n| write(&mut initiator, offset(n), &bytes(n)));
        // WRITE SAME(10) with zeros, and UNMAP.
        let zeros = initiator.run(&cdb(0x41, far, 8 * BLOCK), &[0; 512], 0);
        assert_eq!(zeros.status, GOOD);
        let mut list = vec![0; 24];
        (list[1], list[3]) = (22, 16);
        list[8..16].copy_from_slice(&((far + 8 * BLOCK as u64) / 512).to_be_bytes());
        list[16..20].copy_from_slice(&((8 * BLOCK / 512) as u32).to_be_bytes());
        let unmapped = initiator.run(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list, 0);
        assert_eq!(unmapped.status, GOOD);
        place.kill();
    }
    place.start();
    place.says("iscsi list -H", "\t64M\t");
    let mut initiator = log_in(&portal);
    flush(&mut initiator);
    let is_there = |n: &usize| read(&mut initiator, offset(*n), BLOCK) == bytes(*n);
    assert_eq!((0..BLOCKS).filter(is_there).count(), BLOCKS);
    assert_eq!(read(&mut initiator, far, 16 * BLOCK), vec![0; 16 * BLOCK]);
}

/// The machine that serves a pool by its `ha.toml` is gone, and another one takes the pool over.
#[test]
fn blocks_that_were_not_flushed_are_there_after_a_failover() {
    needs!(can_mount());
    let mut place = Place::new();
    place.ok("pool create -s 64M -m {DIR}/mnt tank {DIR}/tank.pool");
    place.ok("create -V 8M tank/vol");
    let portal = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let portal = portal.unwrap().to_string();
    let says = format!("target_portal_groups = [\"here\"]\nhere_portals = [\"{portal}\"]\n");
    fs::write(place.path("mnt/ha.toml"), says).unwrap();
    place.ok("ha start tank");
    let target = "iqn.2026-01.io.github.strongroom:tank";
    let log_in = |session| {
        let portal = portal.parse().unwrap();
        let mut initiator = Initiator::log_in(portal, "iqn.test:own", session, target);
        initiator.attentions();
        initiator
    };
    {
        let mut initiator = log_in(1);
        (0..BLOCKS).for_each(|n| write(&mut initiator, offset(n), &bytes(n)));
        place.crash();
    }
    place.start();
    place.ok("pool import -f -d {DIR} tank");
    place.ok("ha start tank");
    let mut initiator = log_in(2);
    // It is not known that the disks kept their power.
    flush_fails(&mut initiator);
    flush(&mut initiator);
    let is_there = |n: &usize| read(&mut initiator, offset(*n), BLOCK) == bytes(*n);
    assert_eq!((0..BLOCKS).filter(is_there).count(), BLOCKS);
}

#[test]
fn the_first_flush_after_a_loss_fails_for_each_initiator() {
    let mut place = Place::new();
    volume(&place);
    let portal = export(&place);
    let log_in = |name: &str, session| {
        let mut initiator = Initiator::log_in(portal.parse().unwrap(), name, session, TARGET);
        // POWER ON, RESET, OR BUS DEVICE RESET OCCURRED.
        assert_eq!(initiator.attentions(), [[6, 0x29, 0]]);
        initiator
    };
    let sector = |session| log_in("iqn.test:own", session);
    write(&mut sector(1), 0, &bytes(1));
    // Nobody was told by the daemon in between.
    start_again(&mut place, true);
    start_again(&mut place, false);
    for name in ["iqn.test:own", "iqn.test:other"] {
        let mut initiator = log_in(name, 1);
        assert_eq!(read(&mut initiator, 0, BLOCK), bytes(1));
        flush_fails(&mut initiator);
        flush(&mut initiator);
        // Not again, when it connects again.
        flush(&mut log_in(name, 2));
    }
    // An orderly end loses nothing.
    write(&mut sector(1), 0, &bytes(2));
    place.ok("daemon stop -f");
    place.wait_for_end();
    assert!(!place.path("state/running.json").exists());
    place.start();
    place.says("iscsi list -H", "\t64M\t");
    flush(&mut sector(1));
    // What is durable before it is answered cannot be lost.
    place.ok("set writecache=off tank/vol");
    let mut initiator = sector(1);
    assert!(!has_write_cache(&mut initiator));
    write(&mut initiator, 0, &bytes(3));
    start_again(&mut place, true);
    let mut initiator = sector(1);
    flush(&mut initiator);
    assert_eq!(read(&mut initiator, 0, BLOCK), bytes(3));
    // A volatile cache is lost with the daemon.
    place.ok("set writecache=volatile tank/vol");
    write(&mut initiator, 0, &bytes(4));
    start_again(&mut place, false);
    let mut initiator = sector(1);
    assert!(has_write_cache(&mut initiator));
    assert_eq!(read(&mut initiator, 0, BLOCK), bytes(3));
    flush_fails(&mut initiator);
    flush(&mut initiator);
}

/// The cache of the system has what clients of a file were told, and loses it with the machine.
#[test]
fn the_first_flush_after_a_loss_fails_for_clients_of_a_file() {
    let mut place = Place::new();
    fs::write(place.path("file"), vec![0; 1 << 20]).unwrap();
    place.ok("nbd export --name tank/vol {DIR}/file");
    let write = |place: &Place| {
        let mut client = Client::connect(place);
        client.request(1, 0, BLOCK as u32, &bytes(1), &mut []);
    };
    let start_again = |place: &mut Place, reboots: bool| {
        if reboots {
            another_boot(&place.path("state/running.json"));
        }
        place.start();
        place.says("nbd list -H", "\t1M\t");
        Client::connect(place).outcome(3, 0, 0, &[])
    };
    write(&place);
    place.kill();
    assert_eq!(start_again(&mut place, false), 0);
    write(&place);
    place.kill();
    assert_eq!(start_again(&mut place, true), 5);
    write(&place);
    assert!(place.terminate());
    assert!(!place.path("state/running.json").exists());
    assert_eq!(start_again(&mut place, false), 0);
}

#[test]
fn the_first_flush_after_a_loss_fails_for_nbd_clients() {
    let mut place = Place::new();
    volume(&place);
    place.ok("set writecache=volatile tank/vol");
    place.ok("nbd export --name tank/vol tank/vol");
    Client::connect(&place).request(1, 0, BLOCK as u32, &bytes(1), &mut []);
    place.kill();
    place.start();
    place.says("nbd list -H", "\t64M\t");
    let mut client = Client::connect(&place);
    assert_eq!(client.outcome(3, 0, 0, &[]), 5);
    assert_eq!(client.outcome(3, 0, 0, &[]), 0);
    assert_eq!(Client::connect(&place).outcome(3, 0, 0, &[]), 0);
}

/// A client of NBD.
struct Client(UnixStream);

impl Client {
    fn connect(place: &Place) -> Client {
        let mut stream = UnixStream::connect(place.path("nbd.sock")).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        // Fixed newstyle, without zeros; NBD_OPT_EXPORT_NAME.
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        stream
            .write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x08tank/vol")
            .unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        Client(stream)
    }

    fn request(&mut self, kind: u8, offset: u64, len: u32, data: &[u8], answer: &mut [u8]) {
        assert_eq!(self.outcome(kind, offset, len, data), 0);
        self.0.read_exact(answer).unwrap();
    }

    /// The error number of the answer to a request.
    fn outcome(&mut self, kind: u8, offset: u64, len: u32, data: &[u8]) -> u32 {
        let mut request = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, kind];
        request.extend(7u64.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).unwrap();
        let mut head = [0; 16];
        self.0.read_exact(&mut head).unwrap();
        u32::from_be_bytes(head[4..8].try_into().unwrap())
    }
}

#[test]
fn nbd_blocks_that_were_not_flushed_outlive_the_daemon() {
    let mut place = Place::new();
    volume(&place);
    place.ok("nbd export --name tank/vol tank/vol");
    {
        let mut client = Client::connect(&place);
        for n in 0..BLOCKS {
            client.request(1, offset(n), BLOCK as u32, &bytes(n), &mut []);
        }
        // What is large is not in the log itself.
        let large = contents(1, 4 << 20);
        client.request(1, 8 << 20, 4 << 20, &large, &mut []);
        // NBD_CMD_WRITE_ZEROES over a part of it.
        client.request(6, 9 << 20, 1 << 20, &[], &mut []);
        place.kill();
    }
    place.start();
    place.says("nbd list -H", "\t64M\t");
    let mut client = Client::connect(&place);
    client.request(3, 0, 0, &[], &mut []);
    let mut found = vec![0; BLOCK];
    let mut is_there = |n: &usize| {
        client.request(0, offset(*n), BLOCK as u32, &[], &mut found);
        found == bytes(*n)
    };
    assert_eq!((0..BLOCKS).filter(|n| is_there(n)).count(), BLOCKS);
    let mut found = vec![0; 4 << 20];
    client.request(0, 8 << 20, 4 << 20, &[], &mut found);
    let mut large = contents(1, 4 << 20);
    large[1 << 20..2 << 20].fill(0);
    assert!(found == large);
}
