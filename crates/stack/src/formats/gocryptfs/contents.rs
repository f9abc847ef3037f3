//! Contents: a header with the id of the file, then blocks, each authentic in its place of its file.

use std::sync::Arc;

use cipher::{AeadAlgorithm, AeadCipher, NonceBatch, Random};
use secret::Secret;
use vfs::{Error, Result};

use super::features::ContentCipher;
use crate::formats::{FileLayout, SizeIn};

/// Version 2, and an id of 16 bytes.
pub(super) const HEADER_LEN: usize = 18;

/// The version in headers.
const VERSION: [u8; 2] = 2u16.to_be_bytes();

/// Plain bytes of a block.
const BLOCK: usize = 4096;

const TAG_LEN: usize = 16;

/// The key of contents, and of the targets of links.
pub(super) struct ContentKey {
    cipher: AeadCipher,
    nonce_len: usize,
    /// AES-SIV has its tag before the data.
    tag_first: bool,
    random: Arc<dyn Random>,
}

impl ContentKey {
    pub(super) fn new(
        content: ContentCipher,
        key: &Secret,
        random: Arc<dyn Random>,
    ) -> cipher::Result<ContentKey> {
        let (algorithm, nonce_len) = match content {
            ContentCipher::AesGcm => (AeadAlgorithm::Aes256Gcm, 16),
            ContentCipher::AesSiv => (AeadAlgorithm::Aes256Siv, 16),
            ContentCipher::XChaCha20Poly1305 => (AeadAlgorithm::XChaCha20Poly1305, 24),
        };
        Ok(ContentKey {
            cipher: AeadCipher::new(algorithm, key.expose())?,
            nonce_len,
            tag_first: content == ContentCipher::AesSiv,
            random,
        })
    }

    pub(super) fn layout(&self) -> FileLayout {
        let tag_before = if self.tag_first { TAG_LEN } else { 0 };
        FileLayout {
            header: HEADER_LEN,
            before: self.nonce_len + tag_before,
            unit: BLOCK,
            after: TAG_LEN - tag_before,
            size: SizeIn::Lower,
        }
    }

    /// The header of a new file.
    pub(super) fn new_header(&self) -> Result<Vec<u8>> {
        let mut id = [0; 16];
        self.random.fill(&mut id).map_err(|_| Error::Io)?;
        Ok(header_of(&id).to_vec())
    }

    /// Seals consecutive blocks of the file with this header.
    pub(super) fn seal(&self, header: &[u8], first: u64, blocks: &mut [u8]) -> Result<()> {
        let id = file_id(header)?;
        let unit = self.layout().lower_unit();
        let nonces = NonceBatch::new(&*self.random, blocks.len().div_ceil(unit));
        for (number, block) in (first..).zip(blocks.chunks_mut(unit)) {
            let nonce = nonces.nonce().map_err(|_| Error::Io)?;
            self.seal_block(&nonce, &associated(number, id), block)?;
        }
        Ok(())
    }

    /// Seals consecutive blocks of the file with this header, whose block 0 has this nonce. Only AES-SIV
    /// stays safe when the same nonce comes again for other data.
    pub(super) fn seal_again(
        &self,
        nonce: &[u8; 16],
        header: &[u8],
        first: u64,
        blocks: &mut [u8],
    ) -> Result<()> {
        let id = file_id(header)?;
        let (high, low) = nonce.split_first_chunk::<8>().expect("8 bytes of 16");
        let low = u64::from_be_bytes(low.try_into().expect("8 bytes"));
        for (number, block) in (first..).zip(blocks.chunks_mut(self.layout().lower_unit())) {
            let low = low.wrapping_add(number).to_be_bytes();
            self.seal_block(&[*high, low].concat(), &associated(number, id), block)?;
        }
        Ok(())
    }

    /// Opens consecutive blocks of the file with this header.
    pub(super) fn open(&self, header: &[u8], first: u64, blocks: &mut [u8]) -> Result<()> {
        let id = file_id(header)?;
        for (number, block) in (first..).zip(blocks.chunks_mut(self.layout().lower_unit())) {
            self.open_block(&associated(number, id), block)?;
        }
        Ok(())
    }

    /// Seals a value that is no block of a file, as block 0 of a file without id.
    pub(super) fn seal_value(&self, plain: &[u8]) -> Result<Vec<u8>> {
        let nonce = self.random.nonce().map_err(|_| Error::Io)?;
        self.seal_value_again(&nonce, plain)
    }

    /// Seals like [`ContentKey::seal_value`], with this nonce. Only AES-SIV stays safe when it comes again.
    pub(super) fn seal_value_again(&self, nonce: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
        let layout = self.layout();
        let mut sealed = vec![0; layout.before + plain.len() + layout.after];
        sealed[layout.before..][..plain.len()].copy_from_slice(plain);
        self.seal_block(nonce, &[0; 8], &mut sealed)?;
        Ok(sealed)
    }

    /// Opens what [`ContentKey::seal_value`] sealed.
    pub(super) fn open_value(&self, mut sealed: Vec<u8>) -> Result<Vec<u8>> {
        self.open_block(&[0; 8], &mut sealed)?;
        let layout = self.layout();
        sealed.truncate(sealed.len() - layout.after);
        Ok(sealed.split_off(layout.before))
    }

    /// `fresh`: the nonce, and maybe more.
    fn seal_block(&self, fresh: &[u8], associated: &[u8], block: &mut [u8]) -> Result<()> {
        let UnitParts { nonce, data, tag } = self.parts(block)?;
        nonce.copy_from_slice(fresh.get(..nonce.len()).ok_or(Error::Io)?);
        *tag = self
            .cipher
            .seal(nonce, associated, data)
            .map_err(|_| Error::Io)?;
        Ok(())
    }

    fn open_block(&self, associated: &[u8], block: &mut [u8]) -> Result<()> {
        let UnitParts { nonce, data, tag } = self.parts(block)?;
        // A lower file system that lost the block can leave zeros where the nonce was.
        if nonce.iter().all(|byte| *byte == 0) {
            return Err(Error::Io);
        }
        self.cipher
            .open(nonce, associated, data, tag)
            .map_err(|_| Error::Io)
    }

    /// Cuts a block, which has at least one byte of data.
    fn parts<'a>(&self, block: &'a mut [u8]) -> Result<UnitParts<'a>> {
        let (nonce, rest) = block
            .split_at_mut_checked(self.nonce_len)
            .ok_or(Error::Io)?;
        let cut = match self.tag_first {
            true => rest.split_first_chunk_mut().map(|(tag, data)| (data, tag)),
            false => rest.split_last_chunk_mut(),
        };
        match cut {
            Some((data, tag)) if !data.is_empty() => Ok(UnitParts { nonce, data, tag }),
            _ => Err(Error::Io),
        }
    }
}

struct UnitParts<'a> {
    nonce: &'a mut [u8],
    data: &'a mut [u8],
    tag: &'a mut [u8; TAG_LEN],
}

/// The header of a file with this id.
pub(super) fn header_of(id: &[u8; 16]) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..VERSION.len()].copy_from_slice(&VERSION);
    header[VERSION.len()..].copy_from_slice(id);
    header
}

pub(super) fn file_id(header: &[u8]) -> Result<&[u8; 16]> {
    let id = header.strip_prefix(&VERSION).ok_or(Error::Io)?;
    let id: &[u8; 16] = id.try_into().map_err(|_| Error::Io)?;
    match id {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => Err(Error::Io),
        id => Ok(id),
    }
}

/// The authenticated data of a block.
fn associated(number: u64, id: &[u8; 16]) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(id);
    bytes
}
