//! The file that says what a pool serves: `ha.toml`, or `stmf-ha.conf` of stmf-ha.
//!
//! Both have the same nouns, as lists and words: `targets`, `NAME_tpg`, `views` and so on. `toml` and `stmf` read the two
//! spellings into [`Items`], `nouns`, `identity` and `meaning` make a [`HaFile`] of these, and `write` spells them. A pool may come from
//! anywhere: nothing in the file is executed, and it has a limit ([`LEN_MAX`]).
//!
//! The nouns are those of stmf-ha by Saso Kiselkov (its manual page and sample).

mod identity;
mod items;
mod meaning;
mod nouns;
mod stmf;
mod toml;
mod write;

pub use identity::{HaIdentity, LUN_MAX, STMF_PROPERTY, parse_lun};
pub use items::{Items, NounRefusal};
pub use meaning::{HaFile, HaTarget, HaView, PortalGroup, Redirect, RedirectTarget, TARGET_PREFIX};

/// The name of the file in the root directory of the root dataset.
pub const TOML_NAME: &str = "ha.toml";
/// The name of the file of stmf-ha, which may be in its place.
pub const STMF_NAME: &str = "stmf-ha.conf";
/// The file has at most so many bytes.
pub const LEN_MAX: usize = 64 << 10;

/// The spelling of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `ha.toml`.
    Toml,
    /// `stmf-ha.conf`: assignments of a shell. They are not executed.
    Stmf,
}

impl Spelling {
    /// Reads what a file says. Nouns are not looked at yet.
    ///
    /// # Errors
    /// What cannot be understood, with its line.
    pub fn read(self, bytes: &[u8]) -> Result<Items, NounRefusal> {
        if bytes.len() > LEN_MAX {
            let what = format!("it is longer than {LEN_MAX} bytes");
            return Err(NounRefusal::new(0, "the file", what));
        }
        let text = str::from_utf8(bytes)
            .map_err(|_| NounRefusal::new(0, "the file", "it is no text in UTF-8"))?;
        match self {
            Spelling::Toml => toml::read(text),
            Spelling::Stmf => stmf::read(text),
        }
    }

    /// Spells what was read. Comments are not kept.
    ///
    /// # Errors
    /// If stmf-ha has no word for it.
    pub fn write(self, items: &Items) -> Result<String, NounRefusal> {
        match self {
            Spelling::Toml => Ok(write::toml(items)),
            Spelling::Stmf => write::stmf(items),
        }
    }

    /// Reads a file and what it means, as far as that can be known without the pool.
    ///
    /// # Errors
    /// What cannot be understood, or has no meaning, with its line and noun.
    pub fn parse(self, bytes: &[u8]) -> Result<HaFile, NounRefusal> {
        HaFile::of(&self.read(bytes)?)
    }
}

#[cfg(test)]
mod tests;
