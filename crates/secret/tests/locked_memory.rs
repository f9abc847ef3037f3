//! The amount of locked memory, by the account of the kernel. One test: the account is of the whole process.

use std::io::{self, Read};

use secret::{Error, Secret};

const MIB: usize = 1 << 20;

/// Returns the locked memory of this process, in bytes.
fn locked() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.parse::<usize>().unwrap() << 10
}

/// An endless key file, which looks at what is locked now and then.
struct Watching {
    reads: usize,
    most: usize,
}

impl Read for Watching {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.reads.is_multiple_of(64) {
            self.most = self.most.max(locked());
        }
        self.reads += 1;
        let len = out.len().min(1000);
        out[..len].fill(7);
        Ok(len)
    }
}

#[test]
fn locked_memory_is_bounded_and_comes_back() {
    let tried: Result<Vec<_>, _> = (0..3).map(|_| Secret::zeroed(80 * MIB)).collect();
    if let Err(Error::LockLimit { limit, .. }) = tried {
        eprintln!("skipped: this user may lock {limit} bytes only");
        return;
    }
    drop(tried);
    let small = Secret::from_slice(b"a key that stays").unwrap();
    let begin = locked();
    for _ in 0..3 {
        // A key file that is too long by a byte.
        let mut file = Watching { reads: 0, most: 0 };
        let read = Secret::from_reader(&mut file, 8 * MIB + 1).unwrap();
        assert_eq!(read.len(), 8 * MIB + 1);
        assert!(file.most <= begin + 17 * MIB, "{} bytes", file.most);
        drop(read);
        // Each size of a small secret may leave a page.
        assert!(locked() <= begin + 64 * 1024, "{} bytes stay", locked());
    }
    let mut pushed = Secret::new();
    for n in 0..100_000u32 {
        pushed.push(n as u8).unwrap();
    }
    assert!(locked() <= begin + 256 * 1024, "{} bytes", locked());
    drop(pushed);

    let mut held = Vec::new();
    let refused = loop {
        match Secret::zeroed(8 * MIB) {
            Ok(secret) => held.push(secret),
            Err(error) => break error,
        }
        assert!(locked() <= 256 * MIB, "{} bytes", locked());
    };
    assert!(matches!(refused, Error::SecretsFull { .. }), "{refused}");
    assert!(held.len() >= 30, "{}", held.len());
    drop(held);
    assert!(locked() <= begin + 64 * 1024, "{} bytes stay", locked());
    Secret::zeroed(8 * MIB).unwrap();
    assert_eq!(small.expose(), b"a key that stays");
}
