//! The program `strongroom`. The crate `commands` carries out the command line.

use std::process::ExitCode;

/// Records of many sizes come and go on many threads; the system's allocator would keep several times
/// what they need.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::main()
}
