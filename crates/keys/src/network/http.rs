//! The failures of HTTP requests, in words.

use ureq::Error as Failed;

use crate::network::tls;

/// The reason of a failed request, without any text of the server.
pub(crate) fn reason(error: &Failed) -> String {
    match error {
        Failed::Timeout(_) => timed_out(),
        Failed::HostNotFound => no_host(),
        Failed::RequireHttpsOnly(_) => {
            "it redirects to an address without https, which would show the key".into()
        }
        Failed::TooManyRedirects | Failed::RedirectFailed => "it redirects too many times".into(),
        Failed::Io(error) => io_reason(error),
        Failed::Rustls(error) => tls::reason(error),
        Failed::ConnectionFailed => "no connection".into(),
        Failed::BadUri(_) | Failed::Http(_) => "the address is not valid".into(),
        _ => "its answer is not correct HTTP".into(),
    }
}

/// The same, of a failure while bytes are read.
pub(crate) fn io_reason(error: &std::io::Error) -> String {
    if let Some(inner) = error.get_ref() {
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return tls::reason(tls);
        }
        if let Some(inner) = inner.downcast_ref::<Failed>() {
            return reason(inner);
        }
    }
    match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => timed_out(),
        // The standard library's words; it has no kind of its own for that.
        _ if error.to_string().starts_with("failed to lookup address") => no_host(),
        // What has no number is a library's, in words of its own.
        _ if error.raw_os_error().is_none() => "it closed the connection".into(),
        _ => words(error),
    }
}

/// The error text of the system, without its number.
pub(crate) fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let end = text.find(" (os error ").unwrap_or(text.len());
    text[..end].to_lowercase()
}

fn no_host() -> String {
    "there is no such host".into()
}

/// The reason of a request to a server that is too slow.
pub(crate) fn timed_out() -> String {
    "it does not answer".into()
}
