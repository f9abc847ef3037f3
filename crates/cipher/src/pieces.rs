//! Data that lies in several places: lists of slices of any length and alignment, also empty ones.
//!
//! What lies in one place is handed on as it is. The rest is copied together, and what became of it back:
//! a whole message, but of sectors only those that are cut.

use zeroize::Zeroizing;

use crate::Result;

/// Returns all the data, if no more than one of the pieces has any.
pub(crate) fn alone<'a>(pieces: &'a mut [&mut [u8]]) -> Option<&'a mut [u8]> {
    let mut filled = pieces.iter_mut().filter(|piece| !piece.is_empty());
    match (filled.next(), filled.next()) {
        (None, _) => Some(&mut []),
        (Some(piece), None) => Some(piece),
        _ => None,
    }
}

/// Runs over all the data at once.
pub(crate) fn whole<T>(
    pieces: &mut [&mut [u8]],
    run: impl FnOnce(&mut [u8]) -> Result<T>,
) -> Result<T> {
    if let Some(data) = alone(pieces) {
        return run(data);
    }
    let mut data = Zeroizing::new(pieces.concat());
    let done = run(&mut data);
    let mut rest = &data[..];
    for piece in pieces {
        let (from, after) = rest.split_at(piece.len());
        piece.copy_from_slice(from);
        rest = after;
    }
    done
}

/// Runs over consecutive sectors, with the number of the first from 0, as many at once as lie together.
/// The data is a whole number of them.
pub(crate) fn sectors(
    pieces: &mut [&mut [u8]],
    sector_size: usize,
    mut run: impl FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let len: usize = pieces.iter().map(|piece| piece.len()).sum();
    debug_assert!(len.is_multiple_of(sector_size), "whole sectors");
    let mut number = 0;
    let mut cut = Zeroizing::new(Vec::new());
    let mut place = PiecePosition::default();
    while let Some(piece) = pieces.get_mut(place.piece) {
        let rest = &mut piece[place.offset..];
        let len = rest.len() / sector_size * sector_size;
        if len > 0 {
            run(number, &mut rest[..len])?;
            number += (len / sector_size) as u64;
            place.offset += len;
        } else if rest.is_empty() {
            place = place.next_piece();
        } else {
            cut.resize(sector_size, 0);
            let copy_out = |part: &mut [u8], copy: &mut [u8]| copy.copy_from_slice(part);
            let after = place.exchange(pieces, &mut cut, copy_out);
            run(number, &mut cut)?;
            let copy_back = |part: &mut [u8], copy: &mut [u8]| part.copy_from_slice(copy);
            place.exchange(pieces, &mut cut, copy_back);
            number += 1;
            place = after;
        }
    }
    Ok(())
}

/// A place in a list of pieces.
#[derive(Clone, Copy, Default)]
struct PiecePosition {
    piece: usize,
    offset: usize,
}

impl PiecePosition {
    fn next_piece(self) -> PiecePosition {
        PiecePosition {
            piece: self.piece + 1,
            offset: 0,
        }
    }

    /// Calls `copy` with each part of a piece from here on, and with the same part of `sector`. Returns the position
    /// after the sector.
    fn exchange(
        mut self,
        pieces: &mut [&mut [u8]],
        mut sector: &mut [u8],
        copy: impl Fn(&mut [u8], &mut [u8]),
    ) -> PiecePosition {
        while !sector.is_empty() {
            let part = &mut pieces[self.piece][self.offset..];
            let len = part.len().min(sector.len());
            let (now, later) = sector.split_at_mut(len);
            copy(&mut part[..len], now);
            sector = later;
            self.offset += len;
            if self.offset == pieces[self.piece].len() {
                self = self.next_piece();
            }
        }
        self
    }
}
