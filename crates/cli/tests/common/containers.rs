//! LUKS containers from the command line.

use super::{Done, Place};

/// A password hash as quick as there is.
pub const CHEAP: &str = "--pbkdf-force-iterations 4 --pbkdf-memory 32";

pub const PASSPHRASE: &str = "correct horse\n";

/// A file of zeros, which is to be a container with 2 MiB of data.
pub fn image(place: &Place) {
    let file = std::fs::File::create(place.path("image")).unwrap();
    file.set_len(18 << 20).unwrap();
}

/// Makes a container in the file `image`.
#[track_caller]
pub fn format(place: &Place, more: &str) {
    image(place);
    let line = format!("format -q {more} {{DIR}}/image");
    ends(place, 0, &line, PASSPHRASE);
}

/// Runs a command line of `luks`, split at spaces, that has to end with this code.
#[track_caller]
pub fn ends(place: &Place, code: i32, line: &str, input: &str) -> Done {
    let done = place.run_with(&place.words(&format!("luks {line}")), input.as_bytes());
    assert_eq!(done.code, code, "{line}: {done:?}");
    done
}
