//! Other programs, which judge what this one does.

use std::process::{Command, Output};

pub fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().expect(program)
}

pub fn ok(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {out}{err}");
    out
}
