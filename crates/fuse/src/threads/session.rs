//! The connection to the kernel while a file system is mounted: its workers, and their end.
//!
//! Each worker reads a request, carries it out and answers it. So a request never changes threads, and waits in no
//! queue but that of the kernel (`workers` decides how many workers listen to it). All workers read one descriptor.
//! It is closed when the last of them ends; the kernel then gives up the open requests of this file system.

use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno as Os;
use vfs::{FileSystem, Ino, Kind};
use zerocopy::FromBytes;

use crate::dispatch::delayed_reply::{Later, LaterThread};
use crate::dispatch::direct::DirectFiles;
use crate::dispatch::handshake::KernelFeatures;
use crate::dispatch::inode_limit::Crowd;
use crate::dispatch::serve::{Dispatcher, ReplyContent};
use crate::error::Error;
use crate::options::{KernelCache, OpenReports, Options};
use crate::threads::affinity::{self, Affinity};
use crate::threads::workers::WorkerPool;
use crate::wire::abi::{self, op};
use crate::wire::buffer::RequestBuffer;
use crate::wire::errno::Errno;
use crate::wire::reply::{Replier, notify_attributes, notify_inval_inode};
use crate::wire::request::{FuseOperation, MalformedRequest, Request};

/// The end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The file system was unmounted, by us or by another process, and nothing uses it any more.
    Unmounted,
    /// The connection was cut: by a forced unmount, or through `/sys/fs/fuse/connections`.
    Aborted,
    /// The device failed with this error number.
    Failed(i32),
}

/// Operations are numbered below this.
const OPS: usize = 64;

/// To answer with more than this is work.
const LARGE: usize = 32 << 10;

/// The threads of an idle session: a worker that waits, and the watcher.
const PERMANENT: usize = 2;

type OnEnd = Box<dyn FnOnce(SessionEnd) + Send>;

/// The state that outlives the workers.
pub(crate) struct FuseSession {
    fs: Arc<dyn FileSystem>,
    agreed: KernelFeatures,
    hears: OpenReports,
    kernel_cache: KernelCache,
    /// Open files, if the kernel is to keep no contents.
    direct: Option<DirectFiles>,
    workers: WorkerPool,
    later: LaterThread,
    /// The inodes that the kernel knows, if their number is limited.
    crowd: Option<Crowd>,
    /// Held by the threads: it is to be closed when the last one ends.
    device: Weak<OwnedFd>,
    /// Threads that have not ended.
    live: AtomicUsize,
    counts: [AtomicU64; OPS],
    state: Mutex<State>,
    ended: Condvar,
    /// Says in the log which mount a line is about.
    span: tracing::Span,
}

#[derive(Default)]
struct State {
    /// Set by the first worker that notices.
    noticed: Option<SessionEnd>,
    /// Set when all threads are done.
    end: Option<SessionEnd>,
    on_end: Vec<OnEnd>,
    threads: Vec<JoinHandle<()>>,
}

impl FuseSession {
    /// Starts serving what the handshake agreed.
    pub(crate) fn start(
        device: OwnedFd,
        fs: Arc<dyn FileSystem>,
        options: &Options,
        agreed: KernelFeatures,
        buffer: RequestBuffer,
    ) -> Result<Arc<FuseSession>, Error> {
        let count = options.worker_count();
        let device = Arc::new(device);
        let session = Arc::new(FuseSession {
            fs,
            agreed,
            hears: options.heard(),
            kernel_cache: options.kernel_cache,
            direct: (options.kernel_cache != KernelCache::All).then(DirectFiles::default),
            workers: WorkerPool::new(count),
            later: LaterThread::default(),
            crowd: options.known_max.map(|max| Crowd::new(max.get())),
            device: Arc::downgrade(&device),
            live: AtomicUsize::new(PERMANENT),
            counts: [const { AtomicU64::new(0) }; OPS],
            state: Mutex::default(),
            ended: Condvar::new(),
            span: tracing::error_span!("mount", of = options.fs_name),
        });
        let seat = |number| WorkerSlot {
            session: Arc::clone(&session),
            device: Arc::clone(&device),
            number,
        };
        let (worker, watcher) = (seat(0), seat(count));
        // The watcher is first: once there is a worker, the session may end at any time.
        let watching = session.spawn("fuse-watch", move || watcher.watch());
        let result = match watching {
            Ok(()) => session.spawn("fuse-0", move || worker.work(buffer)),
            Err(error) => {
                session.live.fetch_sub(1, Ordering::AcqRel);
                Err(error)
            }
        };
        if let Err(error) = result {
            session.live.fetch_sub(1, Ordering::AcqRel);
            session.stop();
            return Err(Error::Thread(error));
        }
        Ok(session)
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let span = self.span.clone();
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || span.in_scope(run))?;
        self.state.lock().threads.push(handle);
        Ok(())
    }

    /// Lets go of threads that have ended, which keep their stacks until then. How many are left.
    fn reap(&self) -> usize {
        let threads = &mut self.state.lock().threads;
        threads.retain(|handle| !handle.is_finished());
        threads.len()
    }

    /// Returns whether the kernel can still send requests.
    pub(crate) fn is_live(&self) -> bool {
        self.state.lock().end.is_none()
    }

    /// Returns whether the kernel may send more requests. It sends none once it has let go of the file system, a
    /// moment before the session ends.
    pub(crate) fn is_connected(&self) -> bool {
        let Some(device) = self.device() else {
            return false;
        };
        let mut polled = [PollFd::new(&*device, PollFlags::empty())];
        let found = rustix::event::poll(&mut polled, Some(&Timespec::default()));
        found.is_ok() && !polled[0].revents().contains(PollFlags::ERR)
    }

    /// The device, as long as it is served. The kernel holds the connection until this is dropped.
    pub(crate) fn device(&self) -> Option<Arc<OwnedFd>> {
        self.device.upgrade()
    }

    /// Makes workers end when they have served the request that they have, or wait for.
    pub(crate) fn stop(&self) {
        self.workers.stop();
        self.later.stop();
    }

    /// Refuses requests that have the kernel write back, and waits for the one under way. After [`FuseSession::stop`]
    /// no worker would serve the writes.
    pub(crate) fn close_later(&self, patience: Duration) {
        self.later.close(patience);
    }

    /// Waits until every write and release that the kernel has begun to send is answered. `ask` makes a request;
    /// when it fails, there is nothing more to wait for.
    ///
    /// `syncfs` returns when the writes are sent (seen on 6.18), and the kernel does not say how many those are.
    /// Beyond a number of them they lie in a queue of their own. Each answer brings one of them to the queue that
    /// workers take from, in order. All workers answer what they had, and then a later request is answered too. By
    /// then everything that lay in the queue before has been taken; one such round later it is counted. The quiet
    /// rounds are one for moving up, one for being taken and one for being counted.
    pub(crate) fn drain(&self, ask: impl Fn() -> bool) {
        const QUIET: u32 = 3;
        let count = |op: u32| self.counts[op as usize].load(Ordering::SeqCst);
        let sent = || count(op::WRITE) + count(op::RELEASE);
        let mut quiet = 0;
        while quiet < QUIET {
            let (before, call) = (sent(), self.workers.call());
            loop {
                if !ask() || !self.is_live() {
                    return;
                }
                if self.workers.have_heard(call) {
                    break;
                }
            }
            quiet = if sent() == before { quiet + 1 } else { 0 };
        }
    }

    /// Has the kernel write back what it has of files, and forget it.
    pub(crate) fn forget_contents(&self, files: &[Ino]) {
        let Some(device) = self.device() else {
            return;
        };
        for file in files {
            notify_inval_inode(device.as_fd(), *file, 0, 0);
        }
    }

    /// Has the kernel forget what it has of all files that it knows.
    pub(crate) fn forget_all_contents(&self) {
        self.forget_contents(&self.fs.known());
    }

    /// Waits until the session has ended.
    pub(crate) fn wait(&self) -> SessionEnd {
        let mut state = self.state.lock();
        loop {
            match state.end {
                Some(end) => return end,
                None => self.ended.wait(&mut state),
            }
        }
    }

    /// Waits until the session has ended, but not for ever.
    pub(crate) fn wait_for(&self, patience: Duration) -> Option<SessionEnd> {
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        while state.end.is_none() {
            if self.ended.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.end
    }

    /// Waits for the threads of an ended session.
    pub(crate) fn join(&self) {
        let threads = std::mem::take(&mut self.state.lock().threads);
        for handle in threads {
            // A callback at the end runs on one of them, and may be what drops the mount.
            if handle.thread().id() != thread::current().id() {
                // They catch panics, so there is nothing to pass on.
                let _ = handle.join();
            }
        }
    }

    /// Calls `f` when the session has ended, at once if it has.
    pub(crate) fn on_end(&self, f: OnEnd) {
        let mut state = self.state.lock();
        match state.end {
            None => state.on_end.push(f),
            Some(end) => {
                drop(state);
                f(end);
            }
        }
    }

    /// Returns the number of requests for each operation.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        (0u32..)
            .zip(&self.counts)
            .map(|(opcode, count)| (op::name(opcode), count.load(Ordering::Relaxed)))
            .filter(|&(_, count)| count > 0)
            .collect()
    }

    fn finish(&self) {
        if catch_unwind(AssertUnwindSafe(|| self.fs.forget_all())).is_err() {
            tracing::error!("panicked at the end of a session; this is a defect of the program");
        }
        let mut state = self.state.lock();
        let end = state.noticed.unwrap_or(SessionEnd::Aborted);
        state.end = Some(end);
        let callbacks = std::mem::take(&mut state.on_end);
        drop(state);
        self.ended.notify_all();
        tracing::debug!(?end, "session ended");
        callbacks.into_iter().for_each(|f| f(end));
    }
}

/// A thread's place in a session.
struct WorkerSlot {
    session: Arc<FuseSession>,
    device: Arc<OwnedFd>,
    number: usize,
}

impl WorkerSlot {
    fn work(self, mut buffer: RequestBuffer) {
        let workers = &self.session.workers;
        let mut out = Vec::new();
        let mut affinity = Affinity::new();
        while workers.turn(self.number) {
            affinity.look(self.device.as_fd(), &workers.yielding);
            match buffer.read(self.device.as_fd()) {
                Ok(bytes) => {
                    if self.handle(bytes, &mut out, &mut affinity) {
                        buffer.give_back();
                        out = Vec::new();
                    }
                    workers.keeps_much(self.number, buffer.longest().max(out.capacity()) > LARGE);
                    affinity.answered();
                }
                Err(error) => {
                    let end = match error {
                        Os::NODEV => SessionEnd::Unmounted,
                        Os::CONNABORTED => SessionEnd::Aborted,
                        error => {
                            tracing::error!(%error, "/dev/fuse failed; unmount the file system and mount it again");
                            SessionEnd::Failed(error.raw_os_error())
                        }
                    };
                    self.session.state.lock().noticed.get_or_insert(end);
                    self.session.stop();
                }
            }
        }
        affinity.let_go(&workers.yielding);
        self.finish();
    }

    fn watch(self) {
        let start = |number| {
            let seat = self.next_to(number);
            let work = |buffer| seat.spawn(&format!("fuse-{number}"), |seat| seat.work(buffer));
            RequestBuffer::new().and_then(work).is_ok()
        };
        let reap = || self.session.reap() <= PERMANENT;
        self.session.workers.watch(&*self.device, start, reap);
        self.finish();
    }

    /// Has a thread answer.
    fn later(&self, request: Later) {
        let later = &self.session.later;
        if !later.answer(request) {
            return;
        }
        let run = |seat: WorkerSlot| {
            let session = &seat.session;
            session.later.run(&*seat.device, &*session.fs);
            seat.finish();
        };
        if self.next_to(self.number).spawn("fuse-later", run).is_err() {
            later.give_up(&*self.device);
        }
    }

    /// Has a thread make the kernel forget, if it knows too much.
    fn thin(&self, crowd: &Crowd) {
        if !crowd.is_too_large() {
            return;
        }
        let run = |seat: WorkerSlot| {
            if let Some(crowd) = &seat.session.crowd {
                crowd.thin(&*seat.device);
            }
            seat.finish();
        };
        if self.next_to(self.number).spawn("fuse-forget", run).is_err() {
            crowd.give_up();
        }
    }

    /// The place of another thread.
    fn next_to(&self, number: usize) -> WorkerSlot {
        WorkerSlot {
            session: Arc::clone(&self.session),
            device: Arc::clone(&self.device),
            number,
        }
    }

    /// Starts a thread for this place, from a thread of the session.
    fn spawn(
        self,
        name: &str,
        run: impl FnOnce(WorkerSlot) + Send + 'static,
    ) -> std::io::Result<()> {
        let session = Arc::clone(&self.session);
        session.live.fetch_add(1, Ordering::AcqRel);
        // The thread would inherit that, and the processor.
        session.workers.yielding.end_mine();
        let run = move || {
            affinity::be_free();
            run(self);
        };
        session.spawn(name, run).inspect_err(|error| {
            // The calling thread is still counted, so this does not end the session.
            session.live.fetch_sub(1, Ordering::AcqRel);
            tracing::debug!(%error, name, "no thread");
        })
    }

    fn finish(self) {
        let WorkerSlot {
            session, device, ..
        } = self;
        // Before the session counts as ended, so that by then no caller waits for an answer.
        drop(device);
        if session.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            session.finish();
        }
    }

    /// Serves a request. Whether it was a ping: then what is not needed is to be given back.
    fn handle(&self, bytes: &[u8], out: &mut Vec<u8>, affinity: &mut Affinity) -> bool {
        let session = &*self.session;
        let request = match Request::parse(bytes, session.agreed.setxattr_ext()) {
            Ok(request) => request,
            Err(MalformedRequest { header: None }) => {
                tracing::warn!(len = bytes.len(), "a request without a header");
                return false;
            }
            Err(MalformedRequest { header: Some(head) }) => {
                tracing::warn!(op = op::name(head.opcode), "a request that cannot be read");
                if !matches!(head.opcode, op::FORGET | op::BATCH_FORGET) {
                    Replier::new(self.device.as_fd(), head.unique).error(Errno::INVALID.0);
                }
                return false;
            }
        };
        let opcode = request.header.opcode;
        if let Some(count) = session.counts.get(opcode as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if matches!(request.op, FuseOperation::NotifyReply) {
            return true;
        }
        let excused = opcode != op::WRITE;
        let workers = &session.workers;
        workers.begin(self.number, excused);
        affinity.see(&request, workers.is_alone(), &workers.yielding);
        out.clear();
        let server = Dispatcher {
            fs: &*session.fs,
            later: &|request| self.later(request),
            hears: session.hears,
            kernel_cache: session.kernel_cache,
            direct: session.direct.as_ref(),
            crowd: session.crowd.as_ref(),
        };
        // A file system that panicked may be in any state, but it is still mounted. The caller still waits: it gets
        // an error for this call.
        let answer = catch_unwind(AssertUnwindSafe(|| server.serve(&request, out)));
        if let Some(file) = known_file(&request, out) {
            session.workers.sees(file);
        }
        let large = matches!(&answer, Ok(Ok(ReplyContent::Pieces(_, len))) if *len > LARGE);
        // One that yields may not get on before it has answered.
        let ends_later = large || affinity.yields();
        if !ends_later {
            // Before the answer: with it, the next request may come.
            session.workers.end(self.number);
        }
        let replier = Replier::new(self.device.as_fd(), request.header.unique);
        match answer {
            Ok(Ok(ReplyContent::Output)) => replier.bytes(out),
            Ok(Ok(ReplyContent::Unkept)) => {
                // Before the answer, so that the caller never sees the old entry again.
                // Directories have nothing to write back, so this sends no request to us.
                let device = self.device.as_fd();
                notify_inval_inode(device, request.header.nodeid, 0, 0);
                replier.bytes(out);
            }
            Ok(Ok(ReplyContent::Changed(ino))) => {
                notify_attributes(self.device.as_fd(), ino);
                replier.bytes(out);
            }
            Ok(Ok(ReplyContent::Pieces(pieces, max))) => replier.pieces(&pieces, max),
            Ok(Ok(ReplyContent::Silence)) => {}
            Ok(Err(errno)) => {
                if errno == Errno::IO {
                    tracing::debug!(op = op::name(opcode), ino = request.header.nodeid, "EIO");
                }
                replier.error(errno.0);
            }
            Err(_) => {
                tracing::error!(
                    op = op::name(opcode),
                    ino = request.header.nodeid,
                    "panicked, and answered with an error; this is a defect of the program"
                );
                if !matches!(
                    request.op,
                    FuseOperation::Forget { .. } | FuseOperation::BatchForget(_)
                ) {
                    replier.error(Errno::IO.0);
                }
            }
        }
        if ends_later {
            session.workers.end(self.number);
        }
        if let Some(crowd) = &session.crowd {
            self.thin(crowd);
        }
        false
    }
}

/// The file that a request is about, or that its answer tells the kernel of.
fn known_file(request: &Request<'_>, out: &[u8]) -> Option<u64> {
    match request.op {
        FuseOperation::Read { .. } | FuseOperation::Write { .. } => Some(request.header.nodeid),
        FuseOperation::Lookup { .. }
        | FuseOperation::Create { .. }
        | FuseOperation::Mknod { .. } => {
            let (entry, _) = abi::EntryOut::read_from_prefix(out).ok()?;
            let is_file = Kind::from_bits((entry.attr.mode >> 12 & 0xf) as u8) == Some(Kind::File);
            is_file.then_some(entry.nodeid)
        }
        _ => None,
    }
}
