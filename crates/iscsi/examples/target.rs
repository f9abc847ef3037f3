//! Serves a file as a target until standard input ends: for `bench/iscsi`.
//!
//!     cargo run --release -p strongroom-iscsi --example target -- 127.0.0.1:3260 iqn.2026-01.org.example:disk FILE

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use block::{DeviceAccess, FileDevice};
use iscsi::{IscsiTarget, PortalServer, TargetAccess as InitiatorAccess, Targets};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, name, file] = args.as_slice() else {
        return Err("usage: target ADDRESS:PORT NAME FILE".into());
    };
    let device = FileDevice::open(Path::new(file), DeviceAccess::Exclusive)?;
    let target = IscsiTarget::new(name, 1, Arc::new(device), InitiatorAccess::default())?;
    let targets = Arc::new(Targets::default());
    targets.insert(Arc::new(target))?;
    let _server = PortalServer::start(TcpListener::bind(address)?, Arc::clone(&targets))?;
    println!("serving");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    targets.remove(name, true)?;
    Ok(())
}
