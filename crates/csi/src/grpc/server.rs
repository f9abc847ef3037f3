//! Connections, and calls on them.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use admission::{ClientSource, ConnectionPlaces, Permit, PlaceLimit, PlaceLimits, StopSignal};
use bytes::{Bytes, BytesMut};
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, StatusCode};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::frame::{self, REQUEST_MAX};
use crate::status::{GrpcStatus, Result};

/// Connections at a time, of those that have made a call and of those that have not. The socket is for root and the
/// user of the driver, who have as many again.
const CONNECTIONS: PlaceLimit = PlaceLimit {
    all: 32,
    site: 32,
    each: 32,
};
/// The time for the first call.
const PATIENCE: Duration = Duration::from_secs(10);
/// Calls at a time of a connection.
const CALLS_MAX: u32 = 32;
/// Calls that work at a time.
const THREADS_MAX: usize = 16;
/// The headers of a request.
const HEADERS_MAX: u32 = 16 << 10;

/// The handler of calls: it makes a message of the path of a method and a message.
pub(crate) type CallHandler = dyn Fn(&str, &[u8]) -> Result<Vec<u8>> + Send + Sync;

/// Serves a listener. Does not return but with an error.
pub(crate) fn serve(listener: &UnixListener, answers: Arc<CallHandler>) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(THREADS_MAX)
        .build()?;
    let handle = runtime.handle().clone();
    let work = move || runtime.block_on(std::future::pending::<()>());
    threads::start("runtime", work)?;
    let places = ConnectionPlaces::new(PlaceLimits {
        strangers: CONNECTIONS,
        members: CONNECTIONS,
        reserved: CONNECTIONS.all,
    });
    let stop = StopSignal::new()?;
    let failed =
        |error: &io::Error| eprintln!("strongroom: a connection could not be accepted: {error}");
    admission::attend(listener, &stop, failed, |stream, source| {
        begin(&handle, &places, stream, source, Arc::clone(&answers));
    });
    Err(io::ErrorKind::Interrupted.into())
}

/// Has a task serve a connection. The task ends if the connection has to give way.
fn begin(
    runtime: &Handle,
    places: &Arc<ConnectionPlaces>,
    stream: UnixStream,
    source: ClientSource,
    answers: Arc<CallHandler>,
) {
    let (give, permit) = oneshot::channel();
    let task = runtime.spawn(async move {
        if let Ok(permit) = permit.await {
            connection(stream, answers, &permit).await;
        }
    });
    // It has ended already if it does not take the permit.
    let _ = give.send(places.greet(source, move || task.abort()));
}

/// Serves a connection until it ends. A client that breaks the protocol loses it, and so does one that makes no call.
async fn connection(stream: UnixStream, answers: Arc<CallHandler>, permit: &Permit) {
    let begun = tokio::time::timeout(PATIENCE, first_call(stream)).await;
    let Ok(Some((mut connection, first))) = begun else {
        return;
    };
    // Without a place it is served, and gives way to others.
    let _ = permit.admit();
    let mut next = Some(Ok(first));
    while let Some(Ok((request, respond))) = next {
        tokio::spawn(call(request, respond, Arc::clone(&answers)));
        next = connection.accept().await;
    }
}

type GrpcCall = (Request<RecvStream>, SendResponse<Bytes>);

/// Greets a client, and waits for its first call.
async fn first_call(
    stream: UnixStream,
) -> Option<(Connection<tokio::net::UnixStream, Bytes>, GrpcCall)> {
    stream.set_nonblocking(true).ok()?;
    let stream = tokio::net::UnixStream::from_std(stream).ok()?;
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(CALLS_MAX)
        .max_header_list_size(HEADERS_MAX);
    let mut connection = builder.handshake(stream).await.ok()?;
    let first = connection.accept().await?.ok()?;
    Some((connection, first))
}

/// Answers a call. If the client goes away, the work goes on to its end.
async fn call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    answers: Arc<CallHandler>,
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
    let done = done.unwrap_or_else(|_| Err(GrpcStatus::internal("the call broke off")));
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;

    use super::*;

    const SILENT: usize = 3 * CONNECTIONS.all;

    /// Makes a call at a socket, and returns the connection.
    async fn probe(path: &Path) -> h2::client::SendRequest<Bytes> {
        let stream = tokio::net::UnixStream::connect(path).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        again(client).await
    }

    /// Makes one more call.
    async fn again(client: h2::client::SendRequest<Bytes>) -> h2::client::SendRequest<Bytes> {
        let mut client = client.ready().await.unwrap();
        let request = Request::post("http://localhost/csi.v1.Identity/Probe");
        let request = request
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        let (answer, mut stream) = client.send_request(request, false).unwrap();
        stream.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
        let mut body = answer.await.expect("an answer").into_body();
        while body.data().await.transpose().unwrap().is_some() {}
        let trailers = body.trailers().await.unwrap().expect("trailers");
        assert_eq!(trailers.get("grpc-status").unwrap(), "0");
        client
    }

    #[test]
    fn silent_connections_shut_no_client_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let answers: Arc<CallHandler> = Arc::new(|_: &str, _: &[u8]| Ok(Vec::new()));
        std::thread::spawn(move || serve(&listener, answers));
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let known = probe(&path).await;
            let mut silent: Vec<UnixStream> = (0..SILENT)
                .map(|_| UnixStream::connect(&path).unwrap())
                .collect();
            // The oldest gives way, and the client that has made a call does not.
            drop(probe(&path).await);
            again(known).await;
            while silent[0].read(&mut [0; 64]).unwrap() > 0 {}
            drop(silent);
        });
    }
}
