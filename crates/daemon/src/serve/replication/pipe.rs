//! The connection between the sender and the receiver of a run, with the limit of bytes in a second.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::state::callers::channel::{DataChannel, Dialogue, StreamWriter};
use crate::state::replication::progress::RunProgress;

/// The most bytes that are written at once, and the longest wait, while a limit holds. So a stop is noticed soon.
const PIECE: usize = 64 << 10;
const WAIT: Duration = Duration::from_millis(100);

/// An end of the connection.
pub(super) struct PipeEnd {
    stream: UnixStream,
    is_broken: AtomicBool,
    /// True if the other end closed the connection before everything was written.
    was_refused: AtomicBool,
    /// The run whose bytes are counted, and its limit; `None` at the end that receives.
    counted: Option<(Arc<RunProgress>, Option<u64>)>,
}

impl PipeEnd {
    /// An end that sends for a run.
    pub(super) fn sending(
        stream: UnixStream,
        progress: &Arc<RunProgress>,
        limit: Option<u64>,
    ) -> Arc<PipeEnd> {
        Arc::new(PipeEnd {
            stream,
            is_broken: AtomicBool::new(false),
            was_refused: AtomicBool::new(false),
            counted: Some((Arc::clone(progress), limit)),
        })
    }

    /// An end that receives.
    pub(super) fn receiving(stream: UnixStream) -> Arc<PipeEnd> {
        Arc::new(PipeEnd {
            stream,
            is_broken: AtomicBool::new(false),
            was_refused: AtomicBool::new(false),
            counted: None,
        })
    }

    /// Closes the connection, because the program at the other end has ended. What it wrote can still be read.
    pub(super) fn hang_up(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Returns whether the other end closed the connection before everything was written.
    pub(super) fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Acquire)
    }
}

impl DataChannel for PipeEnd {
    fn reader(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(&self.stream))
    }

    fn writer(&self) -> Box<dyn StreamWriter + '_> {
        Box::new(CountedWriter {
            end: self,
            begun: Instant::now(),
            written: 0,
        })
    }

    fn dialogue(&self) -> Box<dyn Dialogue + '_> {
        Box::new(&self.stream)
    }

    fn break_off(&self) {
        self.is_broken.store(true, Ordering::Release);
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn is_gone(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }
}

/// Counts what is written, and keeps to the limit.
struct CountedWriter<'a> {
    end: &'a PipeEnd,
    begun: Instant,
    written: u64,
}

impl CountedWriter<'_> {
    /// Waits until more may be written.
    fn wait(&self, limit: u64) -> io::Result<()> {
        let due = Duration::from_secs_f64(self.written as f64 / limit as f64);
        loop {
            if self.end.is_gone() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let early = due.saturating_sub(self.begun.elapsed());
            if early.is_zero() {
                return Ok(());
            }
            std::thread::sleep(early.min(WAIT));
        }
    }
}

impl Write for CountedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((progress, limit)) = &self.end.counted else {
            return (&self.end.stream).write(bytes);
        };
        let piece = match limit {
            Some(limit) => {
                self.wait(*limit)?;
                &bytes[..bytes.len().min(PIECE)]
            }
            None => bytes,
        };
        let written = (&self.end.stream).write(piece).inspect_err(|_| {
            let is_own = self.end.is_gone();
            self.end.was_refused.store(!is_own, Ordering::Release);
        })?;
        self.written += written as u64;
        progress.add_sent(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.end.stream).flush()
    }
}

impl StreamWriter for CountedWriter<'_> {
    fn end(self: Box<Self>) -> io::Result<()> {
        self.end.stream.shutdown(Shutdown::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_counted_and_arrives() {
        let (here, there) = UnixStream::pair().unwrap();
        let progress = RunProgress::new();
        let sender = PipeEnd::sending(here, &progress, Some(1 << 30));
        let receiver = PipeEnd::receiving(there);
        let sending = std::thread::spawn(move || {
            let mut writer = sender.writer();
            writer.write_all(&[7; 300_000]).unwrap();
            writer.end().unwrap();
        });
        let mut arrived = Vec::new();
        receiver
            .reader()
            .unwrap()
            .read_to_end(&mut arrived)
            .unwrap();
        sending.join().unwrap();
        assert_eq!(arrived, [7; 300_000]);
        assert_eq!(progress.sent(), 300_000);
    }

    #[test]
    fn a_stop_ends_a_writer_that_waits_for_its_limit() {
        let (here, _there) = UnixStream::pair().unwrap();
        let progress = RunProgress::new();
        let sender = PipeEnd::sending(here, &progress, Some(1));
        let data: Arc<dyn DataChannel> = Arc::clone(&sender) as Arc<dyn DataChannel>;
        progress.enter(None, vec![data]).unwrap();
        let mut writer = sender.writer();
        writer.write_all(b"x").unwrap();
        progress.stop("the job was paused");
        assert!(writer.write_all(b"y").is_err());
        assert!(progress.enter(None, Vec::new()).is_err());
    }
}
