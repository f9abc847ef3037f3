use std::cell::Cell;

use protocol::api::Props;

use super::*;
use crate::state::callers::channel::{Channel, without_connection};
use crate::state::callers::decision::{DatasetGuid, Decide};
use crate::state::devices::leases::LeasedObject;
use crate::tests::{create_pool, daemon, unmounted};

const HOME: &str = "/home/ann-of-this-test";

/// The passphrase of the home, before and after the change.
const PASSPHRASES: [&str; 2] = ["correct horse", "battery staple"];

/// Types passphrases. Something happens before the new one is typed.
struct HomeTypist<'a> {
    typed: Vec<&'static str>,
    meanwhile: &'a dyn Fn(),
}

impl Channel for HomeTypist<'_> {
    fn ask(&mut self, ask: Ask) -> Result<Option<Secret>> {
        if ask.twice {
            (self.meanwhile)();
        }
        let typed = self.typed.remove(0);
        Ok(Some(Secret::from_slice(typed.as_bytes())?))
    }

    fn notice(&mut self, _: String) {}

    without_connection!(rows pause data);
}

/// A decision that can be withdrawn.
#[derive(Default)]
struct RevocableDecision(Cell<bool>);

impl Decide for RevocableDecision {
    fn again(&self) -> Result<()> {
        match self.0.get() {
            true => Err(Failure::new(FailureKind::Permission, "withdrawn")),
            false => Ok(()),
        }
    }

    fn check_caller(&self) -> Result<()> {
        Ok(())
    }

    fn covers(&self, _: DatasetGuid, _: &str) -> Result<()> {
        Ok(())
    }
}

struct HomeSite {
    _dir: tempfile::TempDir,
    daemon: Arc<Daemon>,
    active: Arc<ActivePool>,
    home: Arc<Entry>,
}

impl HomeSite {
    /// With a home whose key is not loaded.
    fn new() -> HomeSite {
        let dir = tempfile::tempdir().unwrap();
        let daemon = daemon(dir.path());
        let active = create_pool(&daemon, dir.path(), "tank");
        let props = [
            ("encryption", "on"),
            ("keysource", "passphrase,prompt"),
            ("canmount", "noauto"),
            ("mountpoint", HOME),
        ];
        let props: Props = props
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        let mut typist = HomeTypist {
            typed: vec![PASSPHRASES[0]],
            meanwhile: &|| {},
        };
        let mut context = CallerContext::internal("test", &mut typist);
        let new = unmounted("tank/ann", &props);
        daemon.create(&new, &mut context).unwrap();
        let home = active.pool.find("tank/ann").unwrap();
        active.keys.remove(&[home.id]);
        HomeSite {
            _dir: dir,
            daemon,
            active,
            home,
        }
    }

    fn step(
        &self,
        step: HomeStep,
        typed: &[&'static str],
        decision: &RevocableDecision,
        meanwhile: &dyn Fn(),
    ) -> Result<HomeRow> {
        let mut typist = HomeTypist {
            typed: typed.into(),
            meanwhile,
        };
        let mut context = CallerContext::internal("test", &mut typist);
        context.decision = decision;
        let home = command::Home {
            step,
            dir: HOME.into(),
            uid: rustix::process::geteuid().as_raw(),
            dataset: None,
        };
        self.daemon.home(&home, &mut context)
    }

    fn change(&self, decision: &RevocableDecision, meanwhile: &dyn Fn()) -> Result<HomeRow> {
        self.step(HomeStep::Change, &PASSPHRASES, decision, meanwhile)
    }

    fn opens(&self, passphrase: &'static str) -> bool {
        let decision = RevocableDecision::default();
        let checked = self.step(HomeStep::Check, &[passphrase], &decision, &|| {});
        checked.is_ok()
    }
}

#[test]
fn a_home_that_another_session_opens_meanwhile_gets_the_new_passphrase() {
    let site = HomeSite::new();
    let lease = Cell::new(None);
    let opens = || {
        let key = LeasedObject::Key(site.home.id);
        lease.set(Some(site.active.leases.take(key, "another session")));
    };
    site.change(&RevocableDecision::default(), &opens).unwrap();
    // What is in use stays.
    assert!(site.active.has_key(site.home.id));
    assert_eq!(
        PASSPHRASES.map(|passphrase| site.opens(passphrase)),
        [false, true]
    );
}

#[test]
fn a_change_leaves_no_key_loaded() {
    let site = HomeSite::new();
    let decision = RevocableDecision::default();
    site.change(&decision, &|| decision.0.set(true))
        .unwrap_err();
    assert!(!site.active.has_key(site.home.id));
    assert!(site.opens(PASSPHRASES[0]));
    site.change(&RevocableDecision::default(), &|| {}).unwrap();
    assert!(!site.active.has_key(site.home.id));
    assert!(site.opens(PASSPHRASES[1]));
}
