//! Layers, the lowest first: `stop` (interrupts), `work` (places that are gone afterwards), `load` (requests, and how
//! many of them a second), `parts` (disk, cipher and FUSE alone; `null` is the file system for that), `report`; `disk`
//! (a pool, a directory, a device on a disk) and `memory` (a device in memory).

mod disk;
mod load;
mod memory;
mod null;
mod parts;
mod report;
mod stop;
mod work;

use console::outcome::Result;

use crate::storage::args::{Bench, BenchHow};

/// Carries out the command.
pub fn run(args: Bench, as_json: bool) -> Result {
    match args {
        Bench::Pool(args) => disk::pool(&args.dir, &args.how, as_json),
        Bench::File(args) => disk::file(&args.dir, &args.how, as_json),
        Bench::Block(args) => match &args.dir {
            None => memory::run(&args, as_json),
            Some(dir) => {
                let how = BenchHow {
                    seconds: args.seconds,
                    size: args.size,
                    report: args.report.clone(),
                };
                disk::block(dir, &how, &args, as_json)
            }
        },
    }
}
