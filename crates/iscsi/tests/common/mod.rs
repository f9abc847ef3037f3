//! A portal with one target, for tests.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod initiator;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::{BlockDevice, TransferPool};
use initiator::Initiator;
use iscsi::{
    IscsiTarget, LogicalUnit, LunView, PortalServer, ReservationStore, TargetAccess, Targets,
};

pub const TARGET: &str = "iqn.2026-01.org.example:disk";

/// A target at a portal.
pub struct Portal {
    pub address: SocketAddr,
    pub targets: Arc<Targets>,
    _server: PortalServer,
}

impl Portal {
    pub fn new(device: Arc<dyn BlockDevice>, keeper: Option<Arc<dyn ReservationStore>>) -> Portal {
        let unit = LogicalUnit::with_keeper("disk", 1, device, false, keeper).unwrap();
        Portal::with_views(vec![unit.view(0, None, false).unwrap()])
    }

    pub fn with_views(views: Vec<LunView>) -> Portal {
        Portal::with_memory(views, TransferPool::new(256 << 20))
    }

    /// A portal whose sessions share this memory.
    pub fn with_memory(views: Vec<LunView>, memory: Arc<TransferPool>) -> Portal {
        Portal::with_limits(views, memory, Duration::from_secs(15))
    }

    /// A portal whose initiators are asked for a sign of life after this time.
    pub fn with_limits(
        views: Vec<LunView>,
        memory: Arc<TransferPool>,
        silence: Duration,
    ) -> Portal {
        let targets = Arc::new(Targets::default());
        let target = IscsiTarget::with_views(TARGET, TargetAccess::default(), views).unwrap();
        targets.insert(Arc::new(target)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server =
            PortalServer::start_with(listener, Arc::clone(&targets), memory, silence).unwrap();
        Portal {
            address,
            targets,
            _server: server,
        }
    }

    /// A session of an initiator that has been told everything.
    pub fn log_in(&self, name: &str) -> Initiator {
        let name = format!("iqn.x:{name}");
        let mut initiator = Initiator::log_in(self.address, &name, 1, TARGET);
        assert_eq!(initiator.attentions(), [[6, 0x29, 0]]);
        initiator
    }
}

/// Keeps reservations in memory, or fails.
#[derive(Debug, Default)]
pub struct Kept {
    pub text: Mutex<Option<String>>,
    pub fails: Mutex<bool>,
    /// For how many bytes there is space besides 3 MiB.
    pub more: Mutex<u64>,
}

impl ReservationStore for Kept {
    fn load(&self) -> io::Result<Option<String>> {
        Ok(self.text.lock().unwrap().clone())
    }

    fn save(&self, text: Option<&str>) -> io::Result<()> {
        if *self.fails.lock().unwrap() {
            return Err(io::Error::other("no space"));
        }
        *self.text.lock().unwrap() = text.map(Into::into);
        Ok(())
    }

    fn room(&self) -> Option<u64> {
        Some((3 << 20) + *self.more.lock().unwrap())
    }

    fn has_write_cache(&self) -> bool {
        true
    }

    fn tell_of_loss(&self, _: &str) -> bool {
        false
    }
}
