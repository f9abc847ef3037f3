//! The second phase of a connection: commands and answers.
//!
//! One thread receives what the initiator sends. While the device is fast it carries a command out itself when all its
//! data are here, and keeps answers until nothing waits any more: many small commands cost one system call to receive
//! and one to send, and no other thread is woken. What takes long is for the helpers of the session (`jobs`), which
//! carry it out beside each other. Commands that wait for data are kept in a table; others overtake them.

mod answers;
mod discovery;
mod execution;
mod jobs;
mod silence;
mod task;
mod task_management;
mod tasks;
mod units;
mod views;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::{Builder, Scope};

use block::{HelperBudget, TransferShare};
use meter::LogCount;

use tracing::Span;

use crate::error::DisconnectCause;
use crate::login::negotiation::{NewSession, SessionPurpose};
use crate::targets::portal::Targets;
use crate::targets::target::{IscsiTarget, TargetSession};
use crate::wire::keys::SessionParameters;
use crate::wire::link::{InitiatorLink, PduBuffer};
use crate::wire::output::{KEPT_MAX, ResponseBuffer, ResponseSender};
use crate::wire::pdu::{
    FINAL, NO_TAG, PduHeader, ReceivedPdu, SEGMENT_MAX, common, logout, reject, request, response,
    sent,
};
use jobs::Jobs;
use silence::WatchedLink;
use task::ScsiTask;
use units::Units;

pub(crate) type Result<T> = std::result::Result<T, DisconnectCause>;

/// The memory of a helper, without its large answers: a few answers, and blocks that it compares or fills.
const HELPER_MEMORY: usize = 128 << 10;

/// The reasons for which a PDU is rejected.
mod reason {
    pub(super) const PROTOCOL: u8 = 0x04;
    pub(super) const NOT_SUPPORTED: u8 = 0x05;
    pub(super) const INVALID_FIELD: u8 = 0x09;
}

/// The state that all threads of a session share.
struct SessionContext {
    purpose: SessionPurpose,
    agreed: SessionParameters,
    output: Arc<ResponseSender>,
    jobs: Jobs,
    memory: TransferShare,
    failures: LogCount,
    resets: LogCount,
    /// The time that a command lately took beyond what its size explains, in nanoseconds.
    excess: AtomicU64,
}

/// A connection that has logged in, for the thread that receives.
struct SessionConnection<'scope, 'env> {
    link: &'env dyn InitiatorLink,
    targets: &'env Targets,
    shared: &'env SessionContext,
    scope: &'scope Scope<'scope, 'env>,
    helpers: &'env HelperBudget,
    initiator: &'env str,
    cid: [u8; 2],
    /// Answers that are not sent yet.
    out: ResponseBuffer,
    /// The number of commands that have arrived.
    count: u64,
    /// Commands that wait for data, or for others, by tag.
    tasks: BTreeMap<u32, ScsiTask>,
    /// The tasks that were not asked for their data yet.
    unasked: VecDeque<u32>,
    next_transfer: u32,
    /// The units that the initiator sees.
    units: Units,
    /// The rest of a long text.
    more_text: Vec<u8>,
}

/// The decision whether a connection goes on.
#[derive(PartialEq, Eq)]
enum Continuation {
    Go,
    End,
}

/// Serves a connection until the initiator ends it.
pub(crate) fn serve(
    link: &Arc<dyn InitiatorLink>,
    input: &mut PduBuffer,
    session: NewSession,
    targets: &Targets,
    helpers: &HelperBudget,
) -> Result<()> {
    let NewSession {
        purpose,
        initiator,
        agreed,
        cid,
        numbers,
        memory,
        reserved: _reserved,
    } = session;
    let output = ResponseSender::new(link, agreed.digests, numbers, memory.clone());
    let output = Arc::new(output);
    let units = match &purpose {
        SessionPurpose::Discovery(_) => Units::default(),
        SessionPurpose::Use(attached) => {
            attached.target.can_be_told(attached.number, &output);
            Units::of(&attached.target, &attached.nexus, &mut Units::default()).0
        }
    };
    let shared = SessionContext {
        purpose,
        agreed,
        output,
        jobs: Jobs::default(),
        memory,
        failures: LogCount::default(),
        resets: LogCount::default(),
        excess: AtomicU64::new(0),
    };
    let watched = WatchedLink::new(&**link, &shared.output);
    let watched: &dyn InitiatorLink = match &shared.purpose {
        SessionPurpose::Use(_) => &watched,
        // Its time is limited.
        SessionPurpose::Discovery(_) => &**link,
    };
    std::thread::scope(|scope| {
        let mut connection = SessionConnection {
            link: watched,
            targets,
            shared: &shared,
            scope,
            helpers,
            initiator: &initiator,
            cid,
            out: shared.output.answers(),
            count: 0,
            tasks: BTreeMap::new(),
            unasked: VecDeque::new(),
            next_transfer: 0,
            units,
            more_text: Vec::new(),
        };
        let served = catch_unwind(AssertUnwindSafe(|| connection.work(input)));
        // Helpers that wait for the initiator do not wait any longer.
        shared.jobs.end();
        if !matches!(served, Ok(Ok(()))) {
            link.cut();
        }
        served.unwrap_or(Err(DisconnectCause::Protocol(
            "a command made this program fail",
        )))
    })
}

impl SessionContext {
    fn attached(&self) -> Option<&TargetSession> {
        match &self.purpose {
            SessionPurpose::Discovery(_) => None,
            SessionPurpose::Use(attached) => Some(attached),
        }
    }

    fn target(&self) -> Option<&IscsiTarget> {
        self.attached().map(|attached| &*attached.target)
    }

    /// The loop of a helper, until the session is over.
    fn help(&self, link: &dyn InitiatorLink) {
        let mut out = self.output.answers();
        while let Some(mut task) = self.jobs.next() {
            let tag = task.head.tag();
            let answered = catch_unwind(AssertUnwindSafe(|| {
                let mut data = std::mem::take(&mut task.data);
                self.carry_out(&task, &mut data[..], &mut out)?;
                self.output.answered(1);
                self.output.send(&mut out)
            }));
            self.jobs.ended(tag);
            match answered {
                Ok(Ok(())) => {}
                Ok(Err(_)) => link.cut(),
                Err(_) => {
                    tracing::error!("a command made this program fail, and its session was ended");
                    link.cut();
                }
            }
        }
    }
}

impl<'scope, 'env> SessionConnection<'scope, 'env> {
    fn work(&mut self, input: &mut PduBuffer) -> Result<()> {
        let mut received = ReceivedPdu::new();
        let digests = self.shared.agreed.digests;
        loop {
            if input.is_empty() {
                self.send()?;
            }
            if !received.next_head(self.link, input, digests, SEGMENT_MAX)? {
                return Ok(());
            }
            let head = received.head.clone();
            self.follow_views();
            if head.opcode() == request::DATA {
                self.data(&head, &mut received, input)?;
                continue;
            }
            received.take_data(self.link, input, digests)?;
            if self.take(&head, &mut received)? == Continuation::End {
                return self.send();
            }
        }
    }

    fn send(&mut self) -> Result<()> {
        self.shared.output.send(&mut self.out)
    }

    /// Appends a PDU to the answers. `has_status` are those that count as one.
    fn answer(&mut self, head: &mut PduHeader, has_status: bool, data: &[u8]) -> Result<()> {
        self.shared.output.make_room(&mut self.out, data.len())?;
        self.out.put(head, has_status, data);
        match self.out.len() >= KEPT_MAX {
            true => self.send(),
            false => Ok(()),
        }
    }

    fn take(&mut self, head: &PduHeader, received: &mut ReceivedPdu) -> Result<Continuation> {
        let output = &self.shared.output;
        if !head.is_immediate() {
            // Another one was lost, or this one came before.
            if head.get(sent::COMMAND_NUMBER) != output.command() {
                return Ok(Continuation::Go);
            }
            output.next_command();
        }
        match (head.opcode(), self.shared.target().is_some()) {
            (request::COMMAND, true) => self.command(head, received.has_more, received.data())?,
            (request::TASK, true) => self.manage(head)?,
            (request::NOP, _) => self.nop(head, received.data())?,
            (request::TEXT, _) => self.text(head, received.data())?,
            (request::LOGOUT, _) => return self.log_out(head),
            _ => self.reject(head, reason::NOT_SUPPORTED)?,
        }
        Ok(Continuation::Go)
    }

    fn nop(&mut self, head: &PduHeader, data: &[u8]) -> Result<()> {
        if head.tag() == NO_TAG {
            return Ok(());
        }
        let mut reply = head.response(response::NOP, FINAL);
        reply.set(common::TRANSFER_TAG, NO_TAG);
        let len = data.len().min(self.shared.agreed.send_max);
        self.answer(&mut reply, true, &data[..len])
    }

    fn log_out(&mut self, head: &PduHeader) -> Result<Continuation> {
        let is_own = head.get(logout::CONNECTION) == self.cid;
        let done = match head.flags() & 0x7f {
            0 => 0,
            1 if is_own => 0,
            1 => 1,
            _ => 2,
        };
        if done == 0 {
            // What was begun is answered first.
            self.forget(|_, _| true);
            self.shared.jobs.wait_for(&|_, _| true);
        }
        let mut reply = head.response_by_tag(response::LOGOUT, FINAL);
        reply.set(logout::RESPONSE, done);
        self.answer(&mut reply, true, &[])?;
        Ok(if done == 0 {
            Continuation::End
        } else {
            Continuation::Go
        })
    }

    /// Says that a PDU has no effect.
    fn reject(&mut self, head: &PduHeader, reason: u8) -> Result<()> {
        let mut reply = PduHeader::new(response::REJECT, FINAL);
        reply.set(reject::REASON, reason);
        reply.set(common::TAG, NO_TAG);
        self.answer(&mut reply, true, &head.0)
    }

    /// Has a helper carry a command out.
    fn hand_over(&mut self, task: ScsiTask) -> Result<()> {
        let shared = self.shared;
        if !shared.jobs.push(task) {
            return Ok(());
        }
        if let Some(reserved) = shared.memory.claim(HELPER_MEMORY)
            && self.helpers.take()
        {
            let (link, helpers) = (self.link, self.helpers);
            // The source of its lines in the log.
            let span = Span::current();
            let help = move || {
                let _span = span.enter();
                shared.help(link);
                helpers.put_back();
                drop(reserved);
            };
            let thread = Builder::new().name("iscsi-helper".into());
            match thread.spawn_scoped(self.scope, help) {
                Ok(_) => return Ok(()),
                Err(error) => {
                    self.helpers.put_back();
                    tracing::warn!(%error, "a session has one thread less than it could use");
                }
            }
        }
        match shared.jobs.helper_failed() {
            Some(task) => self.carry_out_here(task),
            None => Ok(()),
        }
    }
}
