//! The `strongroom` command.
fn main() {
    eprintln!("strongroom: no command is implemented yet");
    std::process::exit(1);
}
