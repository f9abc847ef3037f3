//! Links the module with libpam, which needs no headers. Without the library the module still links: every program
//! that loads it has libpam.

use std::path::Path;

fn main() {
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let dirs = [
        format!("/lib/{arch}-linux-gnu"),
        format!("/usr/lib/{arch}-linux-gnu"),
        "/lib64".to_owned(),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
        "/lib".to_owned(),
    ];
    if dirs
        .iter()
        .any(|dir| Path::new(dir).join("libpam.so.0").exists())
    {
        println!("cargo::rustc-cdylib-link-arg=-l:libpam.so.0");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=STRONGROOM_PROGRAM");
}
