//! What the program `openssl` measures of itself.

use std::process::{Command, Stdio};

/// Its version, if there is one.
pub(super) fn version() -> Option<String> {
    let output = Command::new("openssl").arg("version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// MB/s of `openssl speed` for a second of its own time; none if it does not have the algorithm.
pub(super) fn speed(algorithm: &[&str], size: usize) -> Option<f64> {
    let output = Command::new("openssl")
        .args(["speed", "-mr", "-seconds", "1", "-bytes"])
        .arg(size.to_string())
        .arg("-evp")
        .args(algorithm)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    parse(&String::from_utf8(output.stdout).ok()?)
}

/// A line `+F:number:name:bytes a second`.
fn parse(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("+F:"))?;
    let bytes: f64 = line.rsplit(':').next()?.trim().parse().ok()?;
    (bytes > 0.0).then_some(bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_output_is_read() {
        let text = "+H:131072\n+F:25:AES-128-CBC:5936906240.00\n";
        assert_eq!(parse(text), Some(5936.90624));
        for text in [
            "",
            "+H:131072\n",
            "+F:25:AES-128-CBC:x",
            "+F:25:AES-128-CBC:0.00",
        ] {
            assert_eq!(parse(text), None);
        }
    }
}
