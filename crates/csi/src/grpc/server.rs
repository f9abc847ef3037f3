//! Connections, and calls on them.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Request, StatusCode};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::frame::{self, REQUEST_MAX};
use crate::status::{Result, Status};

/// Connections at a time. Others wait.
const CONNECTIONS_MAX: usize = 32;
/// Calls at a time of a connection.
const CALLS_MAX: u32 = 32;
/// Calls that work at a time.
const THREADS_MAX: usize = 16;
/// The headers of a request.
const HEADERS_MAX: u32 = 16 << 10;
/// The pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);

/// What answers: the path of a method and a message make a message.
pub(crate) type Answers = dyn Fn(&str, &[u8]) -> Result<Vec<u8>> + Send + Sync;

/// Serves a listener. Does not return but with an error.
pub(crate) fn serve(listener: UnixListener, answers: Arc<Answers>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(THREADS_MAX)
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let place = place.map_err(io::Error::other)?;
            match listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(connection(stream, Arc::clone(&answers), place));
                }
                Err(error) => {
                    eprintln!("strongroom: a connection could not be accepted: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    })
}

/// Serves a connection until it ends. A client that breaks the protocol loses it.
async fn connection(stream: UnixStream, answers: Arc<Answers>, _place: OwnedSemaphorePermit) {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(CALLS_MAX)
        .max_header_list_size(HEADERS_MAX);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(call(request, respond, Arc::clone(&answers)));
    }
}

/// Answers a call. If the client goes away, the work goes on to its end.
async fn call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    answers: Arc<Answers>,
) {
    let (head, body) = request.into_parts();
    let kind = head.headers.get(http::header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        let mut response = http::Response::new(());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let _ = respond.send_response(response, true);
        return;
    }
    let Ok(body) = received(body).await else {
        respond.send_reset(Reason::ENHANCE_YOUR_CALM);
        return;
    };
    let work = move || {
        let message = frame::message(body)?;
        frame::framed(&answers(head.uri.path(), &message)?)
    };
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|_| Err(Status::internal("the call broke off")));
    // The client may have gone.
    let _ = send(&mut respond, done);
}

/// The body of a request, which has a limit.
async fn received(mut body: RecvStream) -> std::result::Result<Bytes, ()> {
    let mut all = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(drop)?;
        if all.len() + piece.len() > REQUEST_MAX {
            return Err(());
        }
        let _ = body.flow_control().release_capacity(piece.len());
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

fn send(
    respond: &mut SendResponse<Bytes>,
    done: Result<Bytes>,
) -> std::result::Result<(), h2::Error> {
    let mut stream = respond.send_response(frame::head(), false)?;
    match done {
        Ok(body) => {
            stream.send_data(body, false)?;
            stream.send_trailers(frame::trailers(Ok(())))
        }
        Err(status) => stream.send_trailers(frame::trailers(Err(&status))),
    }
}
