//! Prints the version of this program, and what it was built from.

use console::outcome::Outcome;
use console::show::json;
use daemon::{FORMAT_VERSION, known_features};
use protocol::api::API_VERSION;
use serde_json::json;

/// The commit of the sources. `scripts/release` sets the variable. A program with a path or a time of the build in it
/// could not be built twice with the same bytes.
const COMMIT: Option<&str> = option_env!("STRONGROOM_COMMIT");

/// The library that the program is linked with.
const LIBC: &str = match cfg!(target_env = "musl") {
    true => "musl",
    false => "gnu",
};

pub(crate) fn run(is_json: bool) -> Outcome {
    let version = env!("CARGO_PKG_VERSION");
    let commit = COMMIT.filter(|commit| !commit.is_empty());
    let target = format!("{}-linux-{LIBC}", std::env::consts::ARCH);
    let features: Vec<String> = known_features().into_iter().map(|row| row.name).collect();
    if is_json {
        return Outcome::text(json::show(&json!({
            "version": version, "commit": commit, "target": target, "protocol": API_VERSION,
            "format": FORMAT_VERSION, "features": features,
        })));
    }
    Outcome::text(format!(
        " version: {version}\n  commit: {}\n  target: {target}\nprotocol: {API_VERSION}\n  format: {FORMAT_VERSION}\n\
         features: {}\n",
        commit.unwrap_or("unknown"),
        features.join(" "),
    ))
}
