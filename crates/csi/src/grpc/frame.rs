//! Messages as gRPC frames them, and the headers of an answer.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::status::{GrpcCode, GrpcStatus, Result};

/// The longest request.
pub(super) const REQUEST_MAX: usize = 1 << 20;
/// A byte that says whether the message is compressed, and its length.
const HEAD: usize = 5;

/// The message of a request.
pub(super) fn message(mut body: Bytes) -> Result<Bytes> {
    if body.len() < HEAD {
        return Err(GrpcStatus::internal("the request has no message"));
    }
    let (compressed, len) = (body.get_u8(), body.get_u32());
    if compressed != 0 {
        return Err(GrpcStatus::new(
            GrpcCode::Unimplemented,
            "compressed messages are not supported",
        ));
    }
    match usize::try_from(len).is_ok_and(|len| len == body.len()) {
        true => Ok(body),
        false => Err(GrpcStatus::internal(
            "the request is not exactly one message",
        )),
    }
}

/// The body of an answer.
pub(super) fn framed(message: &[u8]) -> Result<Bytes> {
    let len = u32::try_from(message.len())
        .map_err(|_| GrpcStatus::internal("the answer is too long; ask for a page of the list"))?;
    let mut body = BytesMut::with_capacity(HEAD + message.len());
    body.put_u8(0);
    body.put_u32(len);
    body.put_slice(message);
    Ok(body.freeze())
}

/// The first headers of an answer.
pub(super) fn head() -> Response<()> {
    let mut response = Response::new(());
    let kind = HeaderValue::from_static("application/grpc");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, kind);
    response
}

/// The last headers of an answer.
pub(super) fn trailers(result: std::result::Result<(), &GrpcStatus>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    let code = result.map_or_else(|status| status.code as u8, |()| 0);
    trailers.insert(
        HeaderName::from_static("grpc-status"),
        HeaderValue::from(u16::from(code)),
    );
    if let Err(status) = result
        && let Ok(message) = HeaderValue::try_from(escaped(&status.message))
    {
        trailers.insert(HeaderName::from_static("grpc-message"), message);
    }
    trailers
}

/// Bytes that are no printable ASCII, and `%`, are `%` and two digits.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_one_message() {
        let body = framed(b"abc").unwrap();
        assert_eq!(&body[..], b"\0\0\0\0\x03abc");
        assert_eq!(message(body.clone()).unwrap(), "abc");
        for wrong in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\x01",
            b"\0\0\0\0\0a",
            b"\x01\0\0\0\0",
        ] {
            assert!(message(Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
        let status = GrpcStatus::new(GrpcCode::NotFound, "'é' 100%\n");
        let trailers = trailers(Err(&status));
        assert_eq!(trailers["grpc-status"], "5");
        assert_eq!(trailers["grpc-message"], "'%C3%A9' 100%25%0A");
    }
}
