//! A file system that stores nothing: how fast can FUSE be?
//!
//! ```text
//! null_fs MOUNTPOINT [threads=N] [writeback=yes] [read_ahead=BYTES]
//!         [work=MICROSECONDS] [wait=MICROSECONDS] [allow_other]
//! ```
//!
//! Names and sizes are kept in memory, reads are answered from one ready buffer, writes are
//! dropped; with `work` each read and write keeps a processor busy for so long, with `wait` it only
//! takes so long. Runs until it is unmounted, and then prints how often each operation was asked
//! for.

#[allow(dead_code, unreachable_pub)]
#[path = "../tests/common/contents.rs"]
mod contents;
#[allow(dead_code, unreachable_pub)]
#[path = "../tests/common/memfs.rs"]
mod memfs;
#[allow(dead_code, unreachable_pub)]
#[path = "../tests/common/nodes.rs"]
mod nodes;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let mut options = fuse::Options {
        fs_name: "null".to_owned(),
        ..fuse::Options::default()
    };
    let mut mountpoint = None;
    let (mut work, mut wait) = (Duration::ZERO, Duration::ZERO);
    for argument in env::args().skip(1) {
        match argument.split_once('=') {
            Some(("threads", count)) => options.threads = count.parse().ok(),
            Some(("writeback", value)) => options.writeback_cache = value == "yes",
            Some(("read_ahead", value)) => options.read_ahead = value.parse().unwrap_or(0),
            Some(("work", value)) => work = Duration::from_micros(value.parse().unwrap_or(0)),
            Some(("wait", value)) => wait = Duration::from_micros(value.parse().unwrap_or(0)),
            _ if argument == "allow_other" => options.allow_other = true,
            _ => mountpoint = Some(PathBuf::from(argument)),
        }
    }
    let Some(mountpoint) = mountpoint else {
        eprintln!("usage: null_fs MOUNTPOINT [OPTION=VALUE]...");
        return ExitCode::from(2);
    };
    let fs = Arc::new(memfs::MemFs::null());
    if !(work + wait).is_zero() {
        fs.set_hook(move |what, _| {
            if what == "read" || what == "write" {
                std::thread::sleep(wait);
                let begin = Instant::now();
                while begin.elapsed() < work {
                    std::hint::spin_loop();
                }
            }
        });
    }
    let mount = match fuse::FuseMount::new(fs, &mountpoint, &options) {
        Ok(mount) => mount,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    mount.wait();
    for (name, count) in mount.requests() {
        println!("{name} {count}");
    }
    ExitCode::SUCCESS
}
