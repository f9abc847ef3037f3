//! The PKCS#11 modules that may be loaded, and the process that loads them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use keys::TokenModules;

/// Root's list of modules.
const LIST: &str = "/etc/strongroom/pkcs11";
/// The time limit for one operation of a module.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The first argument of the process that loads a module: the same program.
pub const TOKEN_HELPER: &str = "pkcs11-helper";

/// The list that the daemon was started with.
static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// Makes the daemon use another list.
pub(crate) fn choose_list(list: PathBuf) {
    let _ = CHOSEN.set(list);
}

/// The modules in a list; by default in the usual list of this user.
pub fn token_modules(list: Option<&Path>) -> TokenModules {
    let given = list.or(CHOSEN.get().map(PathBuf::as_path));
    TokenModules {
        list: given.map_or_else(usual_list, Path::to_owned),
        helper: vec!["/proc/self/exe".into(), TOKEN_HELPER.into()],
        time_max: TIME_MAX,
    }
}

/// Root's list, or for others a list of their own.
fn usual_list() -> PathBuf {
    match std::env::var_os("HOME") {
        Some(home) if !rustix::process::geteuid().is_root() => {
            Path::new(&home).join(".config/strongroom/pkcs11")
        }
        _ => LIST.into(),
    }
}
