//! The budget of each user: how much work the daemon does for one user at a time.
//!
//! A small request can ask for much work. So listings and streams are counted for each user. A tenant is counted by its
//! zone, and a token as its user. A token of root with a dataset is counted apart from the others. Root and the daemon's own user have no limit here, so a user cannot take their share.
//! Rows of answers leave the daemon in pieces ([`crate::state::callers::row_stream`]), so an answer needs little memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keys::HashPayer;
use parking_lot::{Condvar, Mutex};
use protocol::api::{Command, FailureKind};

use crate::failure::{Failure, Result};
use crate::host::callers::users::Peer;
use crate::state::callers::channel::Channel;

/// The largest number of listings of one user at a time.
const LISTINGS: usize = 4;
/// The largest number of dry runs of jobs of one user at a time. Each of them holds listings of both sides.
const DRY_RUNS: usize = 2;
/// The largest number of verifications of one user at a time. Each reads as fast as the devices allow.
const VERIFICATIONS: usize = 2;
/// The largest number of streams of one user at a time.
const STREAMS: usize = 16;
/// The longest wait for other listings of the same user.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time between two checks that a waiting caller is still there.
const CHECK: Duration = Duration::from_millis(200);

/// The largest answer of a user, in bytes.
const ANSWER: u64 = 64 << 20;
/// The largest answer of root and of the daemon's own user, in bytes.
const ANSWER_OF_ROOT: u64 = 1 << 30;
/// The most memory for a comparison of a user, in bytes.
const COMPARISON: u64 = 64 << 20;
/// The most memory for a comparison of root and of the daemon's own user, in bytes.
const COMPARISON_OF_ROOT: u64 = 2 << 30;

/// The user who is charged for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Payer {
    /// Root and the daemon's own user.
    Root,
    /// A user, by uid.
    User(u32),
    /// All users of a zone, by the guid of its root.
    Tenant(u64),
    /// A token of root with a dataset, by its id. One that was stolen takes nothing from the others.
    Token(u32),
    /// The logins of a user, by uid. Root asks for them, and each local user can have it ask.
    Login(u32),
}

impl Payer {
    /// The payer for the commands of a caller, in the zone whose root has this guid.
    pub(crate) fn of(peer: &Peer, zone: Option<u64>) -> Payer {
        match zone {
            // Also for root of a container.
            Some(root) => Payer::Tenant(root),
            _ if peer.is_admin => Payer::Root,
            None => match peer.token.as_ref().filter(|token| token.gives_all()) {
                Some(token) => Payer::Token(token.number()),
                None => Payer::User(peer.uid),
            },
        }
    }

    /// The payer for a command of this payer.
    pub(crate) fn of_command(self, command: &Command) -> Payer {
        match (self, command) {
            (Payer::Root, Command::Home(home)) => Payer::Login(home.uid),
            _ => self,
        }
    }

    /// The largest answer to one command, in bytes.
    pub(crate) fn answer_max(self) -> u64 {
        match self {
            Payer::Root => ANSWER_OF_ROOT,
            Payer::User(_) | Payer::Tenant(_) | Payer::Token(_) | Payer::Login(_) => ANSWER,
        }
    }

    /// The most memory for the comparison of two states of a dataset, in bytes.
    pub(crate) fn comparison_max(self) -> u64 {
        match self {
            Payer::Root => COMPARISON_OF_ROOT,
            Payer::User(_) | Payer::Tenant(_) | Payer::Token(_) | Payer::Login(_) => COMPARISON,
        }
    }
}

impl From<Payer> for HashPayer {
    fn from(payer: Payer) -> HashPayer {
        match payer {
            Payer::Root => HashPayer::Root,
            Payer::User(uid) => HashPayer::User(uid),
            Payer::Tenant(root) => HashPayer::Tenant(root),
            // Hashes of passphrases need much memory, so all these tokens share one part. Root itself does not use it.
            Payer::Token(_) => HashPayer::User(0),
            Payer::Login(uid) => HashPayer::Login(uid),
        }
    }
}

/// Work that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BudgetedWork {
    /// Reads and answers with many rows.
    Listing,
    /// Compares both sides of a job: a dry run, or a verification of its copies.
    DryRun,
    /// Sends or receives a stream.
    Stream,
    /// Reads all records of snapshots.
    Verification,
}

impl BudgetedWork {
    /// The kind of work of a command, if it is counted.
    pub(crate) fn of(command: &Command) -> Option<BudgetedWork> {
        match command {
            Command::Get(_)
            | Command::Holds(_)
            | Command::Audit(_)
            | Command::KeyStatus(_)
            | Command::Userspace(_)
            | Command::Diff(_)
            | Command::Permissions(_)
            | Command::ReplicateList(_)
            | Command::Mounts => Some(BudgetedWork::Listing),
            Command::ReplicateRun(run) if run.dry_run => Some(BudgetedWork::DryRun),
            // What it reads is counted as verifications of the owner of the job, too.
            Command::ReplicateVerify(_) => Some(BudgetedWork::DryRun),
            Command::Send(_) | Command::Receive(_) => Some(BudgetedWork::Stream),
            Command::Verify(_) => Some(BudgetedWork::Verification),
            _ => None,
        }
    }

    fn most(self) -> usize {
        match self {
            BudgetedWork::Listing => LISTINGS,
            BudgetedWork::DryRun => DRY_RUNS,
            BudgetedWork::Stream => STREAMS,
            BudgetedWork::Verification => VERIFICATIONS,
        }
    }
}

/// The work that runs, of all users except root.
#[derive(Default)]
pub(crate) struct Budgets {
    /// No number is 0.
    running: Mutex<BTreeMap<(Payer, BudgetedWork), usize>>,
    ended: Condvar,
}

/// Counts as work while it exists.
pub(crate) struct RunningWork {
    all: Arc<Budgets>,
    /// `None` for root, whose work is not counted.
    counted: Option<(Payer, BudgetedWork)>,
}

impl Budgets {
    /// Begins work. A listing waits for others of the same user, as long as the caller is there.
    pub(crate) fn begin(
        self: &Arc<Self>,
        payer: Payer,
        work: BudgetedWork,
        caller: &mut dyn Channel,
    ) -> Result<RunningWork> {
        let until = match work {
            BudgetedWork::Listing => Instant::now() + PATIENCE,
            BudgetedWork::DryRun | BudgetedWork::Stream | BudgetedWork::Verification => {
                Instant::now()
            }
        };
        loop {
            if let Some(begun) = self.try_begin(payer, work) {
                return Ok(begun);
            }
            if Instant::now() >= until {
                return Err(too_many(work));
            }
            if !caller.pause(Duration::ZERO) {
                return Err(Failure::other("the caller went away"));
            }
            let mut running = self.running.lock();
            let is_full = |all: &mut BTreeMap<_, _>| is_full(all, payer, work);
            self.ended.wait_while_for(&mut running, is_full, CHECK);
        }
    }

    fn try_begin(self: &Arc<Self>, payer: Payer, work: BudgetedWork) -> Option<RunningWork> {
        let counted = (payer != Payer::Root).then_some((payer, work));
        if let Some(key) = counted {
            let mut running = self.running.lock();
            if is_full(&running, payer, work) {
                return None;
            }
            *running.entry(key).or_default() += 1;
        }
        Some(RunningWork {
            all: Arc::clone(self),
            counted,
        })
    }
}

fn is_full(
    running: &BTreeMap<(Payer, BudgetedWork), usize>,
    payer: Payer,
    work: BudgetedWork,
) -> bool {
    let count = running.get(&(payer, work));
    count.is_some_and(|count| *count >= work.most())
}

fn too_many(work: BudgetedWork) -> Failure {
    let why = match work {
        BudgetedWork::Listing => {
            "too many of your listings run at the same time; wait until one has ended"
        }
        BudgetedWork::DryRun => {
            "too many dry runs and verifications of your jobs run at the same time; wait until one has ended"
        }
        BudgetedWork::Stream => {
            "too many of your streams run at the same time; wait until one has ended"
        }
        BudgetedWork::Verification => {
            "too many of your verifications run at the same time; wait until one has ended"
        }
    };
    Failure::new(FailureKind::Busy, why)
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        let Some(key) = self.counted else { return };
        let mut running = self.all.running.lock();
        if let Some(count) = running.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                running.remove(&key);
            }
        }
        drop(running);
        self.all.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use protocol::api::Ask;
    use secret::Secret;

    use super::*;
    use crate::state::callers::channel::without_connection;

    /// A caller that has gone.
    struct Gone;

    impl Channel for Gone {
        fn ask(&mut self, _: Ask) -> Result<Option<Secret>> {
            Ok(None)
        }

        fn notice(&mut self, _: String) {}

        fn pause(&mut self, _: Duration) -> bool {
            false
        }

        without_connection!(rows data);
    }

    #[test]
    fn each_user_has_its_own_share_and_root_has_no_limit() {
        let budgets = Arc::new(Budgets::default());
        let begin = |payer, work| budgets.begin(payer, work, &mut Gone);
        for (work, most) in [
            (BudgetedWork::Listing, LISTINGS),
            (BudgetedWork::DryRun, DRY_RUNS),
            (BudgetedWork::Stream, STREAMS),
            (BudgetedWork::Verification, VERIFICATIONS),
        ] {
            for payer in [
                Payer::User(1001),
                Payer::User(1002),
                Payer::Tenant(1001),
                Payer::Token(1),
                Payer::Token(2),
            ] {
                let mut all: Vec<_> = (0..most).map(|_| begin(payer, work).unwrap()).collect();
                let root: Vec<_> = (0..2 * most).map(|_| begin(Payer::Root, work)).collect();
                assert!(root.iter().all(Result::is_ok));
                begin(payer, work).err().unwrap();
                all.pop();
                begin(payer, work).unwrap();
            }
        }
        assert!(budgets.running.lock().is_empty());
    }

    #[test]
    fn a_token_of_root_with_a_dataset_pays_for_itself() {
        let payer =
            |id: &str, dataset: Option<&str>| Payer::of(&Peer::with_token(0, id, dataset), None);
        assert_eq!(payer("0000000a", Some("tank/a")), Payer::Token(10));
        assert_eq!(payer("0000000b", Some("tank/a")), Payer::Token(11));
        assert_eq!(payer("0000000a", None), Payer::Root);
        let user = Peer::with_token(65_533, "0000000a", Some("tank/a"));
        assert_eq!(Payer::of(&user, None), Payer::User(65_533));
    }

    #[test]
    fn a_stream_does_not_wait_for_another() {
        let budgets = Arc::new(Budgets::default());
        let begin = || budgets.begin(Payer::User(1), BudgetedWork::Stream, &mut Gone);
        let all: Vec<_> = (0..STREAMS).map(|_| begin().unwrap()).collect();
        assert_eq!(begin().err().unwrap().kind, FailureKind::Busy);
        drop(all);
    }
}
