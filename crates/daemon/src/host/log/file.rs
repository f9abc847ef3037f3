//! The file of the log, and the files from before. The file of a daemon that a command started is rotated here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The size at which a file is rotated, in bytes.
const SIZE_MAX: u64 = 8 << 20;
/// The number of older files: `daemon.log.1` is the newest of them.
const OLDER: u32 = 3;

/// The file `daemon.log`.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    size_max: u64,
}

impl LogFile {
    /// Opens the log in a directory, and makes the directory.
    pub(super) fn open(dir: &Path) -> io::Result<LogFile> {
        LogFile::with_size(dir, SIZE_MAX)
    }

    fn with_size(dir: &Path, size_max: u64) -> io::Result<LogFile> {
        fs::create_dir_all(dir)?;
        let path = dir.join("daemon.log");
        let file = append(&path)?;
        let size = file.metadata()?.len();
        Ok(LogFile {
            path,
            file,
            size,
            size_max,
        })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let older = |n: u32| self.path.with_extension(format!("log.{n}"));
        for n in (1..OLDER).rev() {
            match fs::rename(older(n), older(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, older(1))?;
        self.file = append(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.size > 0 && self.size + line.len() as u64 > self.size_max {
            // If this fails, the file has the line anyway. The next line tries again.
            let _ = self.rotate();
        }
        let written = self.file.write(line)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_rotated_and_the_oldest_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::with_size(dir.path(), 10).unwrap();
        for n in 0..9 {
            log.write_all(format!("line {n}\n").as_bytes()).unwrap();
        }
        drop(log);
        // What is there counts.
        let mut log = LogFile::with_size(dir.path(), 10).unwrap();
        log.write_all(b"line 9\n").unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let files = ["daemon.log", "daemon.log.1", "daemon.log.2", "daemon.log.3"];
        assert_eq!(
            files.map(read),
            ["line 9\n", "line 8\n", "line 7\n", "line 6\n"]
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), files.len());
        let mode = fs::metadata(dir.path().join("daemon.log")).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    }
}
