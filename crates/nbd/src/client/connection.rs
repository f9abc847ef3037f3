//! Requests and their answers, several at the same time.
//!
//! No thread belongs to the connection. A thread sends its request, and then receives for all until it has the head of its
//! own answer. If the head is for another one, it hands the input to the thread that waits for this answer, which then
//! receives the data straight into its own buffer and goes on receiving.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::handshake::RemoteParameters;
use super::reply::{HeadKind, PendingRequest, ReplyHeader, ServerRefusal};
use crate::error::CloseCause;
use crate::wire::input::ReceiveBuffer;
use crate::wire::link::PeerLink;
use crate::wire::proto::{Kind, Request};

/// Requests with no more data than this are sent with one system call.
const COPIED_MAX: usize = 64 << 10;
/// The time for announcing the end of a connection to the server.
const FAREWELL: Duration = Duration::from_millis(100);

/// The cause of a failed request.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// The server refused it, and the connection works.
    Refused(ServerRefusal),
    /// The connection is lost.
    Lost(Arc<str>),
}

pub(crate) struct ClientConnection {
    link: Arc<dyn PeerLink>,
    pub(crate) agreed: RemoteParameters,
    patience: Duration,
    /// Held while a request is sent.
    sending: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    /// The received bytes. Absent while a thread receives.
    input: Option<ReceiveBuffer>,
    /// Requests that are not at their end, by cookie.
    waiting: BTreeMap<u64, ReplyWaiter>,
    next_cookie: u64,
    /// The cause of the loss of the connection.
    lost: Option<Arc<str>>,
}

#[derive(Default)]
struct ReplyWaiter {
    wake: Arc<Condvar>,
    /// True if the thread of the request waits to be woken.
    is_asleep: bool,
    /// The head of its answer, and what follows.
    turn: Option<(HeadKind, ReceiveBuffer)>,
}

impl ClientConnection {
    pub(crate) fn new(
        link: Arc<dyn PeerLink>,
        input: ReceiveBuffer,
        agreed: RemoteParameters,
        patience: Duration,
    ) -> ClientConnection {
        ClientConnection {
            link,
            agreed,
            patience,
            sending: Mutex::new(()),
            state: Mutex::new(State {
                input: Some(input),
                waiting: BTreeMap::new(),
                next_cookie: 1,
                lost: None,
            }),
        }
    }

    /// Returns the cause of the loss of the connection, if it is lost. The end of a server is noticed even if no
    /// request is sent.
    pub(crate) fn lost(&self) -> Option<Arc<str>> {
        let is_idle = {
            let state = self.state.lock();
            if state.lost.is_some() {
                return state.lost.clone();
            }
            state.waiting.is_empty()
        };
        if is_idle && self.link.is_left() {
            self.lose(&CloseCause::Protocol("the server closed the connection"));
        }
        self.state.lock().lost.clone()
    }

    /// Sends a request with its data, and waits for the answer. The cookie is set here.
    pub(crate) fn ask(
        &self,
        request: Request,
        data: &[IoSlice<'_>],
        asked: &mut PendingRequest<'_>,
    ) -> Result<(), RequestFailure> {
        let end = Instant::now() + self.patience;
        let cookie = self.begin()?;
        let request = Request { cookie, ..request };
        let answered = match self.send(&request, data, end) {
            Ok(()) => self.answer(cookie, end, asked),
            Err(gone) => Err(gone),
        };
        let lost = answered.as_ref().err().map(|gone| self.lose(gone));
        self.state.lock().waiting.remove(&cookie);
        match lost {
            Some(lost) => Err(RequestFailure::Lost(lost)),
            None => asked.outcome().map_err(RequestFailure::Refused),
        }
    }

    /// A cookie for a request.
    fn begin(&self) -> Result<u64, RequestFailure> {
        let mut state = self.state.lock();
        if let Some(lost) = &state.lost {
            return Err(RequestFailure::Lost(Arc::clone(lost)));
        }
        let cookie = state.next_cookie;
        state.next_cookie += 1;
        state.waiting.insert(cookie, ReplyWaiter::default());
        Ok(cookie)
    }

    fn send(
        &self,
        request: &Request,
        data: &[IoSlice<'_>],
        end: Instant,
    ) -> Result<(), CloseCause> {
        let head = request.encode();
        let len: usize = data.iter().map(|piece| piece.len()).sum();
        let _sending = self.sending.try_lock_until(end).ok_or(TOO_LATE)?;
        self.link.send_until(end);
        if len <= COPIED_MAX {
            let mut bytes = Vec::with_capacity(head.len() + len);
            bytes.extend(head);
            data.iter().for_each(|piece| bytes.extend_from_slice(piece));
            return Ok(self.link.send(&bytes)?);
        }
        self.link.send(&head)?;
        for piece in data {
            self.link.send(piece)?;
        }
        Ok(())
    }

    /// Receives until the answer to this request is at its end.
    fn answer(
        &self,
        cookie: u64,
        end: Instant,
        asked: &mut PendingRequest<'_>,
    ) -> Result<(), CloseCause> {
        let (mut own, mut input) = self.turn(cookie, end)?;
        loop {
            self.link.receive_until(end);
            let kind = match own.take() {
                Some(kind) => kind,
                None => {
                    let structured = self.agreed.structured;
                    let head = ReplyHeader::receive(&*self.link, &mut input, structured)?;
                    if head.cookie != cookie {
                        self.hand_over(head, input)?;
                        (own, input) = self.turn(cookie, end)?;
                        continue;
                    }
                    head.kind
                }
            };
            if asked.receive(kind, &*self.link, &mut input)? {
                self.release(cookie, input);
                return Ok(());
            }
        }
    }

    /// Waits until this thread may receive. If another one has received the head of the answer, that comes with it.
    fn turn(
        &self,
        cookie: u64,
        end: Instant,
    ) -> Result<(Option<HeadKind>, ReceiveBuffer), CloseCause> {
        let mut state = self.state.lock();
        loop {
            let State {
                input,
                waiting,
                lost,
                ..
            } = &mut *state;
            let own = waiting.get_mut(&cookie).ok_or(NO_REQUEST)?;
            own.is_asleep = false;
            if let Some((kind, input)) = own.turn.take() {
                return Ok((Some(kind), input));
            }
            if let Some(lost) = lost {
                return Err(CloseCause::Refused(lost.to_string()));
            }
            if let Some(input) = input.take() {
                return Ok((None, input));
            }
            own.is_asleep = true;
            let wake = Arc::clone(&own.wake);
            if wake.wait_until(&mut state, end).timed_out() {
                return Err(TOO_LATE);
            }
        }
    }

    /// Gives the input to the thread that waits for this answer.
    fn hand_over(&self, head: ReplyHeader, input: ReceiveBuffer) -> Result<(), CloseCause> {
        let mut state = self.state.lock();
        let waiting = state.waiting.get_mut(&head.cookie).ok_or(NO_REQUEST)?;
        waiting.turn = Some((head.kind, input));
        waiting.wake.notify_one();
        Ok(())
    }

    /// Lets another thread receive.
    fn release(&self, cookie: u64, input: ReceiveBuffer) {
        let mut state = self.state.lock();
        state.input = Some(input);
        let mut others = state.waiting.iter().filter(|(other, _)| **other != cookie);
        if let Some((_, next)) = others.find(|(_, waiting)| waiting.is_asleep) {
            next.wake.notify_one();
        }
    }

    /// Ends the connection for all requests. The first reason is the one that counts.
    fn lose(&self, gone: &CloseCause) -> Arc<str> {
        let mut state = self.state.lock();
        let lost = Arc::clone(state.lost.get_or_insert_with(|| reason(gone).into()));
        for waiting in state.waiting.values() {
            waiting.wake.notify_one();
        }
        drop(state);
        self.link.cut();
        lost
    }
}

const NO_REQUEST: CloseCause =
    CloseCause::Protocol("the server answers a request that was not made");
const TOO_LATE: CloseCause = CloseCause::Protocol("the server does not answer");

/// The reason in words, which the errors of sockets are not.
pub(super) fn reason(gone: &CloseCause) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    match gone {
        CloseCause::Io(error) if error.kind() == TimedOut => TOO_LATE.to_string(),
        CloseCause::Io(error)
            if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) =>
        {
            "the server closed the connection".into()
        }
        gone => gone.to_string(),
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        if self.state.get_mut().lost.is_some() {
            return;
        }
        let farewell = Request {
            flags: 0,
            kind: Kind::Disconnect,
            cookie: 0,
            offset: 0,
            len: 0,
        };
        self.link.send_until(Instant::now() + FAREWELL);
        // The server may be gone.
        let _ = self.link.send(&farewell.encode());
        self.link.finish();
    }
}
