//! Compression of records.

use std::fmt;

use pool::ArrayKind;

use crate::buffer::RecordBuffer;

/// The length of a payload is a multiple of this.
pub(super) const UNIT: usize = 4096;

/// A compressed payload begins with its length.
const LENGTH: usize = 4;

/// The compression of records before they are sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    Off,
    /// LZ4: fast, with moderate compression.
    #[default]
    Lz4,
    /// Zstandard with a level, 1 to 19.
    Zstd(u8),
}

/// The values of `compression` in a record pointer.
pub(crate) const NONE: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

impl Compression {
    /// The compression with a name of the property: `off`, `on` (which is `lz4`), `lz4`, `zstd`
    /// (which is `zstd-3`), `zstd-1` to `zstd-19`.
    pub fn from_name(name: &str) -> Option<Compression> {
        Some(match name {
            "off" => Compression::Off,
            "on" | "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd(3),
            _ => {
                let level = name.strip_prefix("zstd-")?;
                let number: u8 = level.parse().ok()?;
                if !(1..=19).contains(&number) || level.starts_with(['+', '0']) {
                    return None;
                }
                Compression::Zstd(number)
            }
        })
    }

    /// The compression for an array. Pages are compressed with LZ4, or not at all.
    pub(crate) fn of(self, array: ArrayKind) -> Compression {
        match (array, self) {
            (ArrayKind::Pages, Compression::Zstd(_)) => Compression::Lz4,
            _ => self,
        }
    }

    /// Compresses `plain` into the front of `out`. Returns the method and the length. `None` if the result does not
    /// fit: the length of `out` is the longest result that is worth storing.
    pub(crate) fn compress(self, plain: &[u8], out: &mut [u8]) -> Option<(u8, usize)> {
        match self {
            Compression::Off => None,
            Compression::Lz4 if looks_random(plain) => None,
            Compression::Lz4 => {
                let len = lz4::block::compress_to_buffer(plain, None, false, out).ok()?;
                Some((LZ4, len))
            }
            Compression::Zstd(level) => {
                let len = ZSTD_ENCODER.with_borrow_mut(|(at, encoder)| {
                    if *at != level {
                        *encoder = zstd::bulk::Compressor::new(i32::from(level)).ok()?;
                        *at = level;
                    }
                    encoder.compress_to_buffer(plain, out).ok()
                })?;
                Some((ZSTD, len))
            }
        }
    }
}

/// The shortest record that is sampled before LZ4 compresses all of it.
const SAMPLED: usize = 8 << 10;
/// The lengths of a sample.
const SHORTEST_SAMPLE: usize = 1024;
const LONGEST_SAMPLE: usize = 4096;

/// Returns whether samples of a record show that LZ4 would not compress it, for example because it is compressed
/// already. Data that
/// compress a little are slow to compress, and not worth storing so.
fn looks_random(plain: &[u8]) -> bool {
    if plain.len() < SAMPLED {
        return false;
    }
    let len = (plain.len() / 64).clamp(SHORTEST_SAMPLE, LONGEST_SAMPLE);
    let mut out = [0; LONGEST_SAMPLE];
    let out = &mut out[..len - len / 16];
    let last = plain.len() - len;
    [0, last / 3, last / 3 * 2, last].iter().all(|at| {
        let sample = &plain[*at..*at + len];
        lz4::block::compress_to_buffer(sample, None, false, out).is_err()
    })
}

type Encoder = zstd::bulk::Compressor<'static>;

thread_local! {
    static ZSTD_ENCODER: std::cell::RefCell<(u8, Encoder)> =
        std::cell::RefCell::new((0, Encoder::default()));
}

/// Decompresses. False if the result does not fill `out` exactly, or if the bytes are malformed.
#[must_use]
pub(crate) fn decompress(how: u8, packed: &[u8], out: &mut [u8]) -> bool {
    let Ok(len) = i32::try_from(out.len()) else {
        return false;
    };
    let expected = out.len();
    match how {
        LZ4 => lz4::block::decompress_to_buffer(packed, Some(len), out).ok() == Some(expected),
        ZSTD => zstd::bulk::decompress_to_buffer(packed, out).ok() == Some(expected),
        _ => false,
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::Off => f.write_str("off"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::Zstd(level) => write!(f, "zstd-{level}"),
        }
    }
}

/// The compressed payload, if it saves at least one unit and at least an eighth.
pub(super) fn pack(compression: Compression, plain: &[u8]) -> Option<(u8, RecordBuffer)> {
    let most = (plain.len() - plain.len() / 8).min(plain.len().saturating_sub(UNIT)) / UNIT * UNIT;
    if most == 0 || compression == Compression::Off {
        return None;
    }
    // A buffer of this size is usually kept.
    let mut payload = RecordBuffer::zeroed(plain.len());
    payload.resize(most);
    let (how, len) = compression.compress(plain, &mut payload[LENGTH..])?;
    payload[..LENGTH].copy_from_slice(&(len as u32).to_le_bytes());
    // The compressor may have left bytes behind its output. They must not be stored.
    payload[LENGTH + len..].fill(0);
    payload.resize((LENGTH + len).next_multiple_of(UNIT));
    Some((how, payload))
}

/// The contents of a compressed payload, unless it is malformed.
pub(super) fn unpack(how: u8, payload: &[u8], len: usize) -> Option<RecordBuffer> {
    let (length, rest) = payload.split_first_chunk::<LENGTH>()?;
    let packed = rest.get(..u32::from_le_bytes(*length) as usize)?;
    let mut plain = RecordBuffer::zeroed(len);
    decompress(how, packed, &mut plain).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, shown) in [
            ("off", "off"),
            ("on", "lz4"),
            ("zstd", "zstd-3"),
            ("zstd-19", "zstd-19"),
        ] {
            assert_eq!(Compression::from_name(name).unwrap().to_string(), shown);
        }
        for bad in [
            "", "zstd-0", "zstd-20", "zstd-03", "zstd-+3", "gzip", "zstd-",
        ] {
            assert_eq!(Compression::from_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn round_trips_and_refuses_what_does_not_fit() {
        let plain: Vec<u8> = (0..100_000u32).map(|i| (i / 50) as u8).collect();
        for compression in [
            Compression::Lz4,
            Compression::Zstd(1),
            Compression::Zstd(7),
            Compression::Zstd(3),
        ] {
            let mut out = vec![0; 90_000];
            let (how, len) = compression.compress(&plain, &mut out).unwrap();
            let mut back = vec![0; plain.len()];
            assert!(decompress(how, &out[..len], &mut back));
            assert_eq!(back, plain);
            assert!(!decompress(how, &out[..len], &mut vec![0; plain.len() + 1]));
            assert!(!decompress(how, &out[..len], &mut vec![0; plain.len() - 1]));
            assert!(!decompress(how, &out[..len / 2], &mut back));
            assert_eq!(compression.compress(&plain, &mut [0; 10]), None);
            for n in 0..len.min(2000) {
                let mut bad = out[..len].to_vec();
                bad[n] ^= 0x41;
                let _ = decompress(how, &bad, &mut back);
            }
        }
        assert!(!decompress(9, &[1, 2, 3], &mut [0; 3]));
    }

    #[test]
    fn lz4_does_not_dwell_on_what_looks_random() {
        let mut state = 1u64;
        let mut byte = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        let mut plain: Vec<u8> = (0..128 << 10).map(|_| byte()).collect();
        let mut out = vec![0; 128 << 10];
        assert!(looks_random(&plain));
        assert_eq!(Compression::Lz4.compress(&plain, &mut out), None);
        assert!(looks_random(&plain[..16 << 10]) && !looks_random(&plain[..4 << 10]));
        // A compressible end is enough to try the compression.
        plain[120 << 10..].fill(0);
        assert!(!looks_random(&plain) && !looks_random(&plain[112 << 10..]));
        assert!(Compression::Lz4.compress(&plain, &mut out).is_some());
    }
}
