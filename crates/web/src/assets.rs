//! The files of the pages, in the binary.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::http::{Request, Response};

/// The files: address, type, contents.
const FILES: &[(&str, &str, &[u8])] = &[(
    "/",
    "text/html; charset=utf-8",
    include_bytes!("../assets/index.html"),
)];

/// The file at an address.
pub(crate) fn response(request: &Request) -> Option<Response> {
    let (_, kind, contents) = FILES.iter().find(|(path, ..)| *path == request.path)?;
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let mut response = match request.if_none_match.as_deref() == Some(&*tag) {
        true => Response::empty(304),
        false => Response::body(kind, *contents),
    };
    response.header("ETag", tag);
    // The next version of the program has other files.
    response.header("Cache-Control", "no-cache");
    Some(response)
}
