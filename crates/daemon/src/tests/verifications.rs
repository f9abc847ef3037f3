//! Verifications that end, because their pool or the daemon is to end.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use pool::Reach;
use protocol::api::{Ask, FailureKind, Reply, command};
use secret::Secret;

use super::command as run;
use super::{create, create_pool, daemon};
use crate::failure::Result;
use crate::shutdown::StoreRule;
use crate::state::callers::channel::{Channel, DataChannel};
use crate::state::callers::context::CallerContext;
use crate::state::daemon::Daemon;
use crate::state::pools::active_pool::ActivePool;

/// A caller whose verification goes on until it has to end.
struct PatientCaller<'a> {
    active: &'a ActivePool,
    data: Arc<UnixStream>,
    begun: Sender<()>,
    /// True after the command that was to end the verification.
    is_over: &'a AtomicBool,
}

impl Channel for PatientCaller<'_> {
    fn ask(&mut self, _: Ask) -> Result<Option<Secret>> {
        Ok(None)
    }

    fn notice(&mut self, _: String) {}

    fn rows(&mut self, _: Reply) -> Result<()> {
        Ok(())
    }

    fn pause(&mut self, _: Duration) -> bool {
        let _ = self.begun.send(());
        let must_end = || self.active.verifications.is_held() || self.data.is_gone();
        while !must_end() && !self.is_over.load(Ordering::Acquire) {
            thread::yield_now();
        }
        !self.data.is_gone()
    }

    fn data(&self) -> Result<Arc<dyn DataChannel>> {
        Ok(Arc::clone(&self.data) as Arc<dyn DataChannel>)
    }
}

/// The failure of a verification while which something else happens.
fn verify_while(daemon: &Arc<Daemon>, active: &ActivePool, act: impl FnOnce()) -> FailureKind {
    let (here, _there) = UnixStream::pair().unwrap();
    let (begun, has_begun) = channel();
    let is_over = AtomicBool::new(false);
    let mut caller = PatientCaller {
        active,
        data: Arc::new(here),
        begun,
        is_over: &is_over,
    };
    thread::scope(|scope| {
        let verifying = scope.spawn(|| {
            let verify = command::Verify {
                names: vec!["tank/a".into()],
                challenge: None,
            };
            let context = &mut CallerContext::internal("test", &mut caller);
            daemon.verify(&verify, context).map(|_| ())
        });
        has_begun.recv().unwrap();
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        is_over.store(true, Ordering::Release);
        let verified = verifying.join().unwrap();
        acted.unwrap();
        verified.unwrap_err().kind
    })
}

fn with_snapshot(daemon: &Arc<Daemon>, dir: &std::path::Path) -> Arc<ActivePool> {
    let active = create_pool(daemon, dir, "tank");
    create(daemon, "tank/a", &Vec::new());
    let names = ["tank/a@1".to_owned()];
    run(|context| daemon.snapshot(&names, false, context)).unwrap();
    active
}

#[test]
fn a_forced_export_ends_a_verification() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    let active = with_snapshot(&daemon, dir.path());
    let export = |force| run(|context| daemon.export_pool("tank", force, context));
    let kind = verify_while(&daemon, &active, || {
        assert_eq!(export(false).unwrap_err().kind, FailureKind::Busy);
        export(true).unwrap();
    });
    assert_eq!(kind, FailureKind::Busy);
    assert!(daemon.pools().is_empty());
}

#[test]
fn a_forced_end_of_the_daemon_ends_a_verification() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    let active = with_snapshot(&daemon, dir.path());
    let kind = verify_while(&daemon, &active, || {
        daemon.shut_down_by_force(StoreRule::GiveUp);
    });
    assert_eq!(kind, FailureKind::Other);
    assert!(daemon.pools().is_empty());
}

/// A caller who destroys a snapshot while an earlier one is read.
struct Pruning<'a> {
    daemon: &'a Arc<Daemon>,
    names: Vec<String>,
    notices: Vec<String>,
}

impl Channel for Pruning<'_> {
    fn ask(&mut self, _: Ask) -> Result<Option<Secret>> {
        Ok(None)
    }

    fn notice(&mut self, text: String) {
        self.notices.push(text);
    }

    fn rows(&mut self, rows: Reply) -> Result<()> {
        if let Reply::Verified(rows) = rows {
            self.names.extend(rows.into_iter().map(|row| row.name));
        }
        Ok(())
    }

    fn pause(&mut self, _: Duration) -> bool {
        let name = "tank/a@2";
        if self.daemon.find(name).is_ok() {
            run(|context| {
                self.daemon
                    .destroy(name, Reach::Named, false, false, context)
                    .map(drop)
            })
            .unwrap();
        }
        true
    }

    fn data(&self) -> Result<Arc<dyn DataChannel>> {
        Ok(Arc::new(UnixStream::pair().unwrap().0))
    }
}

#[test]
fn a_snapshot_that_is_destroyed_meanwhile_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = daemon(dir.path());
    let _active = with_snapshot(&daemon, dir.path());
    for name in ["tank/a@2", "tank/a@3"] {
        run(|context| daemon.snapshot(&[name.to_owned()], false, context)).unwrap();
    }
    let mut caller = Pruning {
        daemon: &daemon,
        names: Vec::new(),
        notices: Vec::new(),
    };
    let verify = command::Verify {
        names: vec!["tank/a".into()],
        challenge: None,
    };
    let context = &mut CallerContext::internal("test", &mut caller);
    daemon.verify(&verify, context).unwrap();
    assert_eq!(caller.names, ["tank/a@1", "tank/a@3"]);
    assert!(caller.notices[0].contains("'tank/a@2' was destroyed meanwhile"));
}
