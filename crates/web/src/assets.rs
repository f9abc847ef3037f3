//! The files of the pages, in the binary.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::http::{Request, Response};

const PAGE: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// The files of `assets` at these paths, with their types; the first is the page itself.
macro_rules! files {
    ($page:literal $($path:literal $kind:ident)*) => {
        &[
            ("/", PAGE, include_bytes!(concat!("../assets/", $page))),
            $((concat!("/", $path), $kind, include_bytes!(concat!("../assets/", $path))),)*
        ]
    };
}

/// The files: address, type, contents.
const FILES: &[(&str, &str, &[u8])] = files! {
    "index.html"
    "app.js" SCRIPT
    "icon.svg" PICTURE
    "acts/copies.js" SCRIPT
    "acts/datasets.js" SCRIPT
    "acts/keys.js" SCRIPT
    "acts/new-pool.js" SCRIPT
    "acts/pools.js" SCRIPT
    "acts/serving.js" SCRIPT
    "lib/api.js" SCRIPT
    "lib/characters.js" SCRIPT
    "lib/dialog.js" SCRIPT
    "lib/format.js" SCRIPT
    "lib/icons.js" SCRIPT
    "lib/layout.js" SCRIPT
    "lib/line-chart.js" SCRIPT
    "lib/long-list.js" SCRIPT
    "lib/parts.js" SCRIPT
    "lib/rates.js" SCRIPT
    "lib/store.js" SCRIPT
    "lib/time-line.js" SCRIPT
    "lib/tree-map.js" SCRIPT
    "lib/view.js" SCRIPT
    "pages/access.js" SCRIPT
    "pages/activity.js" SCRIPT
    "pages/copies.js" SCRIPT
    "pages/dataset.js" SCRIPT
    "pages/datasets.js" SCRIPT
    "pages/exports.js" SCRIPT
    "pages/jobs.js" SCRIPT
    "pages/keys.js" SCRIPT
    "pages/overview.js" SCRIPT
    "pages/performance.js" SCRIPT
    "pages/permissions.js" SCRIPT
    "pages/pools.js" SCRIPT
    "pages/snapshots.js" SCRIPT
    "style/base.css" STYLE
    "style/dialogs.css" STYLE
    "style/lists.css" STYLE
    "style/parts.css" STYLE
    "style/pictures.css" STYLE
};

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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::FILES;

    /// Every file of the folder has its row, and all of them together are small.
    #[test]
    fn all_files_are_served() {
        let mut paths = Vec::new();
        below(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("assets"),
            "",
            &mut paths,
        );
        paths.sort();
        let mut served: Vec<String> = FILES.iter().map(|(path, ..)| path.to_string()).collect();
        served
            .iter_mut()
            .filter(|path| *path == "/")
            .for_each(|path| *path = "/index.html".into());
        served.sort();
        assert_eq!(paths, served);
        let size: usize = FILES.iter().map(|(_, _, contents)| contents.len()).sum();
        assert!(size < 300 << 10, "{size} bytes");
    }

    fn below(dir: &Path, prefix: &str, paths: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let entry = entry.expect("an entry");
            let path = format!("{prefix}/{}", entry.file_name().to_string_lossy());
            match entry.path().is_dir() {
                true => below(&entry.path(), &path, paths),
                false => paths.push(path),
            }
        }
    }
}
