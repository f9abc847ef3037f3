//! Writes lines of a limited length.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// The longest line, in bytes.
const LINE_MAX: usize = 4096;

/// Cuts a text that is too long for a line, and says so.
pub(crate) fn cut(text: String) -> String {
    cut_to(text, LINE_MAX)
}

/// Cuts a text of more than `max` bytes, and says so.
pub(crate) fn cut_to(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = text.floor_char_boundary(max);
        let more = text.len() - end;
        text.truncate(end);
        text += &format!("... ({more} bytes more)");
    }
    text
}

/// The output of the log. A copy writes to the same place.
#[derive(Clone)]
pub(super) struct LogOutput(Arc<Mutex<dyn Write + Send>>);

impl LogOutput {
    pub(super) fn new(to: impl Write + Send + 'static) -> LogOutput {
        LogOutput(Arc::new(Mutex::new(to)))
    }
}

impl Write for LogOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if line.len() <= LINE_MAX {
            self.0.lock().write_all(line)?;
        } else {
            let text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
            self.0.lock().write_all((cut(text) + "\n").as_bytes())?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().flush()
    }
}

impl MakeWriter<'_> for LogOutput {
    type Writer = LogOutput;

    fn make_writer(&self) -> LogOutput {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        let mut output = LogOutput::new(Vec::new());
        let lines = Arc::new(Mutex::new(Vec::new()));
        output.0 = Arc::clone(&lines) as _;
        output.write_all(b"short\n").unwrap();
        // A character is not cut in two.
        let long = "x".repeat(LINE_MAX - 1) + &"ü".repeat(1 << 20) + "\n";
        output.write_all(long.as_bytes()).unwrap();
        let text = String::from_utf8(lines.lock().clone()).unwrap();
        assert!(text.len() < LINE_MAX + 40, "{}", text.len());
        assert!(text.starts_with("short\nxxx"));
        assert!(text.ends_with("x... (2097152 bytes more)\n"));
        assert_eq!(cut("short".into()), "short");
    }
}
