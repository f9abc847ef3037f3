//! The second phase of a connection: requests and answers.
//!
//! One thread at a time has the input: it takes a request from it and, as long as the device is quick,
//! carries it out at once and keeps the answer until several can be sent together or no request waits.
//! No other thread is woken. Where the device is slow, or there is much to write, it copies the request, leaves the
//! input to another thread, and carries the request out beside it. So requests overtake each other, as the protocol allows; a flush is
//! about those that were answered before.
//!
//! A large request is carried out in pieces, so that a connection needs little memory whatever is asked of
//! it, and what is copied stays in the processor's cache. A client that does not read its answers delays
//! only its own threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

use block::HelperBudget;
use meter::LogCount;
use parking_lot::{Mutex, MutexGuard};
use tracing::Span;

use crate::error::CloseCause;
use crate::serve::buffers::{LARGE, PIECE, ReplyBuffers, SMALL_MAX, THREAD_MEMORY};
use crate::serve::negotiate::NegotiatedSession;
use crate::wire::input::ReceiveBuffer;
use crate::wire::link::PeerLink;
use crate::wire::proto::{Kind, PAYLOAD_MAX, Request};

/// At most so many threads serve a connection.
const THREADS_MAX: usize = 16;
/// A device that takes longer for a request, beyond a nanosecond for each byte, is slow.
const SLOW: Duration = Duration::from_micros(100);
/// The time of one request counts up to this, in nanoseconds. A request that had to wait long says little of others.
const EXCESS_MAX: u64 = 16 * SLOW.as_nanos() as u64;

pub(crate) type Result<T> = std::result::Result<T, CloseCause>;

pub(crate) struct ExportConnection<'a> {
    pub(crate) link: Arc<dyn PeerLink>,
    pub(crate) session: NegotiatedSession,
    input: Mutex<RequestSource>,
    /// Held while an answer is sent that has to stay in one piece.
    output: Mutex<()>,
    /// Threads that wait for the input.
    idle: AtomicUsize,
    threads: AtomicUsize,
    /// Requests that are carried out by threads that have left the input to others.
    aside: AtomicUsize,
    /// The time that a request lately took beyond what its size explains, in nanoseconds.
    excess: AtomicU64,
    helpers: &'a HelperBudget,
    pub(crate) failures: LogCount,
}

struct RequestSource {
    input: ReceiveBuffer,
    /// True if nothing more arrives.
    is_over: bool,
}

/// The next step of a thread after a request.
enum NextStep<'a> {
    /// Go on with the input.
    Go(MutexGuard<'a, RequestSource>),
    /// Wait for the input.
    Again,
}

impl<'a> ExportConnection<'a> {
    pub(crate) fn new(
        link: Arc<dyn PeerLink>,
        session: NegotiatedSession,
        input: ReceiveBuffer,
        helpers: &'a HelperBudget,
    ) -> ExportConnection<'a> {
        let is_over = false;
        ExportConnection {
            link,
            session,
            input: Mutex::new(RequestSource { input, is_over }),
            output: Mutex::default(),
            idle: AtomicUsize::new(0),
            threads: AtomicUsize::new(1),
            aside: AtomicUsize::new(0),
            excess: AtomicU64::new(0),
            helpers,
            failures: LogCount::default(),
        }
    }

    /// Serves it until the client ends it.
    pub(crate) fn serve(&self) -> Result<()> {
        std::thread::scope(|scope| self.work(scope))
    }

    /// The loop of each thread of the connection. Each failure ends the connection.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> Result<()> {
        let result = catch_unwind(AssertUnwindSafe(|| self.work_on(scope)));
        let result = result.unwrap_or(Err(CloseCause::Protocol(
            "a request made this program fail",
        )));
        if result.is_err() {
            self.link.cut();
            self.input.lock().is_over = true;
        }
        result
    }

    fn work_on<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> Result<()> {
        let mut buffers = ReplyBuffers::new(self.session.memory.clone());
        loop {
            self.idle.fetch_add(1, Relaxed);
            let mut source = self.input.lock();
            self.idle.fetch_sub(1, Relaxed);
            loop {
                if source.is_over {
                    return Ok(());
                }
                match self.next(source, &mut buffers, scope)? {
                    NextStep::Go(same) => source = same,
                    NextStep::Again => break,
                }
            }
        }
    }

    /// Takes one request, and has it answered.
    fn next<'scope>(
        &'scope self,
        mut source: MutexGuard<'scope, RequestSource>,
        buffers: &mut ReplyBuffers,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<NextStep<'scope>> {
        if source.input.len() < Request::LEN {
            // The client may wait for what is kept.
            self.send_kept(buffers)?;
        }
        let input = &mut source.input;
        let request = match input.fill(&*self.link, Request::LEN)? {
            true => input
                .take(Request::LEN)
                .first_chunk()
                .and_then(Request::decode),
            false => return Ok(self.end(source)),
        };
        let request = request.ok_or(CloseCause::Protocol("what it says is no request"))?;
        if request.kind == Kind::Disconnect {
            self.send_kept(buffers)?;
            return Ok(self.end(source));
        }
        let payload = match request.kind {
            Kind::Write => request.len,
            _ => 0,
        };
        if payload > PAYLOAD_MAX {
            return Err(CloseCause::Protocol(
                "it asked to write more than one request may",
            ));
        }
        if let Err(error) = self.check(&request) {
            input.skip(&*self.link, payload.into())?;
            self.refuse(buffers, &request, error)?;
            return Ok(NextStep::Go(source));
        }
        if self.is_for_another(&request, input) && self.has_space(&request, buffers)? {
            return self.step_aside(request, source, buffers, scope);
        }
        self.answer_at_once(&request, input, buffers)?;
        buffers.release();
        Ok(NextStep::Go(source))
    }

    fn end<'scope>(
        &'scope self,
        mut source: MutexGuard<'scope, RequestSource>,
    ) -> NextStep<'scope> {
        source.is_over = true;
        NextStep::Go(source)
    }

    /// Returns whether a request is to be carried out beside others.
    fn is_for_another(&self, request: &Request, input: &ReceiveBuffer) -> bool {
        let len = request.len as usize;
        let is_slow = Duration::from_nanos(self.excess.load(Relaxed)) > SLOW;
        let (takes_long, payload) = match request.kind {
            Kind::Read => (is_slow, 0),
            Kind::Write => (is_slow || self.is_large_write(len), len),
            _ => (true, 0),
        };
        let others_wait = input.len() > payload || self.aside.load(Relaxed) > 0;
        match request.kind {
            Kind::Read | Kind::Write if len <= LARGE && self.would_wait(request) => true,
            Kind::Read | Kind::Write if len > SMALL_MAX => takes_long && len <= LARGE,
            _ => takes_long && others_wait,
        }
    }

    /// Returns whether to receive the next request while this one is written. Two at a time use the processors. A
    /// device of the kernel gets no more memory than it has while the kernel itself is short of it. Reads are not
    /// concerned: a reader in order must not overtake itself, because the volume that it reads may read ahead.
    fn is_large_write(&self, len: usize) -> bool {
        len > PIECE && !self.session.reads_whole && self.aside.load(Relaxed) < 2
    }

    /// Returns whether a read or a write would wait, and all later ones with it.
    fn would_wait(&self, request: &Request) -> bool {
        let is_write = request.kind == Kind::Write;
        let device = self.session.attached.export().device();
        device.would_wait(request.offset, request.len.into(), is_write)
    }

    /// Sends what is kept, and gets the space to receive all of a write. False if there is no memory: then it is received in
    /// pieces.
    fn has_space(&self, request: &Request, buffers: &mut ReplyBuffers) -> Result<bool> {
        self.send_kept(buffers)?;
        let payload = match request.kind {
            Kind::Write => request.len as usize,
            _ => 0,
        };
        Ok(buffers.reserve(payload) == payload)
    }

    /// Leaves the input to another thread, and carries a request out.
    fn step_aside<'scope>(
        &'scope self,
        request: Request,
        mut source: MutexGuard<'scope, RequestSource>,
        buffers: &mut ReplyBuffers,
        scope: &'scope Scope<'scope, '_>,
    ) -> Result<NextStep<'scope>> {
        if request.kind == Kind::Write {
            let payload = buffers.payload(request.len as usize);
            source.input.read_into(&*self.link, payload)?;
        }
        self.aside.fetch_add(1, Relaxed);
        if self.idle.load(Relaxed) == 0 {
            self.start_helper(scope);
        }
        drop(source);
        let answered = self.answer_aside(&request, buffers);
        self.aside.fetch_sub(1, Relaxed);
        buffers.release();
        answered.map(|()| NextStep::Again)
    }

    /// Starts another thread, if the limit allows it. If not, requests wait.
    fn start_helper<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if self.threads.load(Relaxed) >= THREADS_MAX {
            return;
        }
        let Some(reserved) = self.session.memory.claim(THREAD_MEMORY) else {
            return;
        };
        if !self.helpers.take() {
            return;
        }
        self.threads.fetch_add(1, Relaxed);
        // The source of its lines in the log.
        let span = Span::current();
        let help = move || {
            let _span = span.enter();
            // If it failed, it has cut the connection; the thread that cut it reports the reason.
            let _ = self.work(scope);
            self.helpers.put_back();
            drop(reserved);
        };
        let thread = Builder::new().name("nbd-helper".into());
        if let Err(error) = thread.spawn_scoped(scope, help) {
            self.threads.fetch_sub(1, Relaxed);
            self.helpers.put_back();
            tracing::warn!(%error, "a connection has one thread less than it could use");
        }
    }

    /// Sends answers, one after the other.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<()> {
        let _whole = self.output.lock();
        Ok(self.link.send(bytes)?)
    }

    /// The right to send an answer in several parts.
    pub(crate) fn sending(&self) -> MutexGuard<'_, ()> {
        self.output.lock()
    }

    pub(crate) fn send_kept(&self, buffers: &mut ReplyBuffers) -> Result<()> {
        if buffers.kept().is_empty() {
            return Ok(());
        }
        self.settle(buffers);
        self.send(buffers.kept())?;
        buffers.forget();
        Ok(())
    }

    /// Does something with the device, and notes whether that is slow.
    pub(crate) fn timed<T>(&self, len: usize, act: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = act();
        let took = begin.elapsed().as_nanos() as u64;
        let excess = took.saturating_sub(len as u64).min(EXCESS_MAX);
        let before = self.excess.load(Relaxed);
        self.excess.store(before - before / 8 + excess / 8, Relaxed);
        done
    }
}
