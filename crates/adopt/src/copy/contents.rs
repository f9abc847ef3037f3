//! The contents of a file: copied with their holes, and read back.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, FallocateFlags, SeekFrom, fadvise, fallocate, seek};
use rustix::io::Errno;

use crate::trouble::{Result, Trouble, TroubleContext};

/// The bytes that one read takes.
const PIECE: usize = 1 << 20;

/// A function that is called for each piece that was read, with its length. It may end the copy.
pub(crate) type Tick<'a> = dyn FnMut(usize) -> Result<()> + 'a;

/// The number of pieces that are copied before they are verified.
const WINDOW: usize = if cfg!(test) { 2 } else { 1 << 14 };

/// The copied contents: the hash of each piece of data. Between them are holes.
type Pieces = Vec<(Range<u64>, [u8; 32])>;

/// Copies a file of this length, and verifies the copy. A copy that was begun before keeps what is right in it.
///
/// # Errors
/// If the source cannot be read or ends early, the copy cannot be written, or it is not what was copied.
pub(crate) fn copy(
    from: &File,
    to: &File,
    len: u64,
    is_begun: bool,
    tick: &mut Tick<'_>,
) -> Result<()> {
    to.set_len(len).context("cannot be written")?;
    let (mut pieces, mut verified) = (Pieces::new(), 0);
    let (mut buffer, mut old) = (vec![0; PIECE], vec![0; if is_begun { PIECE } else { 0 }]);
    let mut at = 0;
    while at < len {
        let data = next_data(from, at, len).of_source("cannot be read")?;
        if is_begun && data.start > at {
            make_hole(to, at..data.start).context("cannot be written")?;
        }
        at = data.start;
        while at < data.end {
            let piece = &mut buffer[..piece_len(at, data.end)];
            read(from, piece, at)?;
            let old = &mut old[..if is_begun { piece.len() } else { 0 }];
            let is_there = is_begun && to.read_exact_at(old, at).is_ok() && *old == *piece;
            if !is_there {
                to.write_all_at(piece, at).context("cannot be written")?;
            }
            let end = at + piece.len() as u64;
            pieces.push((at..end, cipher::hash(piece)));
            at = end;
            tick(piece.len())?;
            if pieces.len() == WINDOW {
                verify(to, verified..at, &pieces, tick)?;
                verified = at;
                pieces.clear();
            }
        }
    }
    verify(to, verified..len, &pieces, tick)?;
    match to.metadata().map(|meta| meta.len()) {
        Ok(has) if has == len => Ok(()),
        _ => Err(differs()),
    }
}

/// Makes a part of a copy durable, and reads it back, not from the memory of the kernel if the system allows that.
fn verify(to: &File, part: Range<u64>, pieces: &Pieces, tick: &mut Tick<'_>) -> Result<()> {
    to.sync_all().context("cannot be made durable")?;
    let _ = fadvise(to, 0, None, Advice::DontNeed);
    let mut buffer = vec![0; PIECE];
    let mut at = part.start;
    for (range, hash) in pieces {
        check_hole(to, at..range.start, &mut buffer)?;
        let piece = &mut buffer[..piece_len(range.start, range.end)];
        (to.read_exact_at(piece, range.start)).context("the copy cannot be read back")?;
        if cipher::hash(piece) != *hash {
            return Err(differs());
        }
        at = range.end;
        tick(0)?;
    }
    check_hole(to, at..part.end, &mut buffer)
}

fn differs() -> Trouble {
    Trouble::new("the copy differs from what was written; it was discarded")
}

/// Returns whether two files of the same length have the same contents.
///
/// # Errors
/// If one of them cannot be read.
pub(crate) fn is_same(a: &File, b: &File, len: u64, tick: &mut Tick<'_>) -> Result<bool> {
    let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = 0;
    while at < len {
        let size = piece_len(at, len);
        let (left, right) = (&mut left[..size], &mut right[..size]);
        read(a, left, at)?;
        (b.read_exact_at(right, at)).context("the copy cannot be read")?;
        if left != right {
            return Ok(false);
        }
        at += size as u64;
        tick(0)?;
    }
    Ok(true)
}

fn piece_len(at: u64, end: u64) -> usize {
    usize::try_from(end - at).unwrap_or(PIECE).min(PIECE)
}

fn read(from: &File, piece: &mut [u8], at: u64) -> Result<()> {
    match from.read_exact_at(piece, at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Trouble::new(
            "became shorter while it was copied; run the command again",
        )),
        read => read.of_source("cannot be read"),
    }
}

/// The next part with data from here on; empty, at the end of the file, if only a hole follows.
fn next_data(file: &File, at: u64, len: u64) -> io::Result<Range<u64>> {
    let start = match seek(file, SeekFrom::Data(at)) {
        Ok(start) => start.min(len),
        Err(Errno::NXIO) => return Ok(len..len),
        // The file system does not know holes.
        Err(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => return Ok(at..len),
        Err(error) => return Err(error.into()),
    };
    match seek(file, SeekFrom::Hole(start)) {
        Ok(end) if end > start => Ok(start..end.min(len)),
        _ => Ok(start..len),
    }
}

/// Takes away what an earlier copy has where the source has a hole.
fn make_hole(file: &File, range: Range<u64>) -> io::Result<()> {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match fallocate(file, punch, range.start, range.end - range.start) {
        Err(Errno::NOTSUP | Errno::NOSYS) => {}
        done => return Ok(done?),
    }
    let zeros = vec![0; PIECE];
    let mut at = range.start;
    while at < range.end {
        let size = piece_len(at, range.end);
        file.write_all_at(&zeros[..size], at)?;
        at += size as u64;
    }
    Ok(())
}

/// Checks that a part of a copy has only zeros.
fn check_hole(file: &File, range: Range<u64>, buffer: &mut [u8]) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let data = next_data(file, at, range.end).context("the copy cannot be read back")?;
        at = data.start;
        while at < data.end {
            let piece = &mut buffer[..piece_len(at, data.end)];
            (file.read_exact_at(piece, at)).context("the copy cannot be read back")?;
            if piece.iter().any(|byte| *byte != 0) {
                return Err(Trouble::new("the copy has data where the source has none"));
            }
            at += piece.len() as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use tempfile::tempfile;

    use super::*;

    const PART: u64 = PIECE as u64;
    const LEN: u64 = 6 * PART;

    /// Pieces of data with a hole after the first, and another at the end.
    fn source() -> File {
        let source = tempfile().unwrap();
        for at in [0, 2, 3, 4] {
            let piece = vec![at as u8 + 1; PIECE];
            source.write_all_at(&piece, at * PART).unwrap();
        }
        source.set_len(LEN).unwrap();
        source
    }

    /// The result of a copy when something happens after so many pieces, which `act` may answer.
    fn after(
        pieces: u32,
        (from, to): (&File, &File),
        is_begun: bool,
        act: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut copied = 0;
        copy(from, to, LEN, is_begun, &mut |bytes| {
            copied += u32::from(bytes > 0);
            match bytes > 0 && copied == pieces {
                true => act(),
                false => Ok(()),
            }
        })
    }

    #[test]
    fn one_wrong_byte_anywhere_in_a_copy_is_found() {
        let from = source();
        // After the piece, and before its window is read back: in data, in holes, in the last window.
        for (pieces, at, why) in [
            (1, 0, "differs"),
            (1, PART + 5, "has data where"),
            (2, 3 * PART - 1, "differs"),
            (4, 4 * PART, "differs"),
            (4, LEN - 1, "has data where"),
        ] {
            let to = tempfile().unwrap();
            let flip = || to.write_all_at(b"!", at).context("it is full");
            let trouble = after(pieces, (&from, &to), false, flip).unwrap_err();
            assert!(trouble.why.contains(why), "{at}: {trouble:?}");
            assert!(!trouble.is_end, "the next file may be well");
        }
    }

    #[test]
    fn a_copy_goes_on_after_any_piece() {
        let from = source();
        for pieces in 1..=4 {
            let to = tempfile().unwrap();
            let end = || Err(Trouble::interrupted());
            assert!(after(pieces, (&from, &to), false, end).unwrap_err().is_end);
            // What an earlier source had there.
            to.write_all_at(b"old", PART + 7).unwrap();
            to.set_len(LEN + 1).unwrap();
            copy(&from, &to, LEN, true, &mut |_| Ok(())).unwrap();
            let is_whole = is_same(&from, &to, LEN, &mut |_| Ok(()));
            assert!(is_whole.unwrap(), "{pieces}");
            assert_eq!(to.metadata().unwrap().len(), LEN);
        }
    }

    #[test]
    fn a_source_that_gets_shorter_is_named() {
        let (from, to) = (source(), tempfile().unwrap());
        let cut = || from.set_len(3 * PART + 9).context("it stays");
        let trouble = after(2, (&from, &to), false, cut).unwrap_err();
        assert!(trouble.why.contains("became shorter"), "{trouble:?}");
    }

    #[test]
    fn holes_stay_holes() {
        let (from, to) = (source(), tempfile().unwrap());
        copy(&from, &to, LEN, false, &mut |_| Ok(())).unwrap();
        let blocks = |file: &File| file.metadata().unwrap().blocks();
        assert!(blocks(&to) <= blocks(&from), "{}", blocks(&to));
    }
}
