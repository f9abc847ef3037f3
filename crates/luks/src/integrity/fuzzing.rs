//! Entry points of the fuzzer `fuzz/` that read superblocks and journals.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};

use super::superblock::{TagLayout, TagSuperblock};
use super::tagged_device::{TagMode, TaggedDevice};
use crate::model::SECTOR;

/// Devices are at least this large: enough for a journal and some data.
const DEVICE_LEN: usize = 256 << 10;

/// Opens what would be the beginning of a device, as its superblock says, and uses it.
pub fn superblock(bytes: &[u8]) {
    let mut image = bytes.to_vec();
    image.resize(DEVICE_LEN.max(bytes.len()), 0);
    open(image);
}

/// Opens a journal of three sections whose sectors have valid commit ids. The first bytes choose the ids, the others
/// are the contents.
pub fn journal(bytes: &[u8]) {
    let superblock = TagSuperblock {
        interleave_log2: 3,
        tag_len: 200,
        journal_sections: 3,
        data_len: 64,
        fixed_padding: true,
        block_log2: 1,
    };
    let layout = TagLayout::new(&superblock, 0, DEVICE_LEN as u64).expect("it fits");
    let mut image = superblock.encode();
    let sectors = 3 * layout.section.sectors;
    let (sequences, mut rest) = bytes.split_at(bytes.len().min(sectors));
    for number in 0..3 {
        let begin = image.len();
        layout
            .section
            .encode(number, 0, std::iter::empty(), &mut image);
        for (s, sector) in image[begin..].chunks_exact_mut(SECTOR as usize).enumerate() {
            let (taken, behind) = rest.split_at(rest.len().min(sector.len() - 8));
            sector[..taken.len()].copy_from_slice(taken);
            rest = behind;
            let at = number as usize * layout.section.sectors + s;
            let sequence = sequences.get(at).copied().unwrap_or(0) % 4;
            let id = super::journal::commit_id(number, s, sequence);
            sector[SECTOR as usize - 8..].copy_from_slice(&id);
        }
    }
    image.resize(DEVICE_LEN, 0);
    open(image);
}

/// A small superblock with its journal, and a journal that is half around with a block in it. They are seeds for the
/// two targets above, with their numbers.
pub fn samples() -> Vec<(u8, Vec<u8>)> {
    let superblock = TagSuperblock {
        interleave_log2: 3,
        tag_len: 420,
        journal_sections: 1,
        data_len: 16,
        fixed_padding: true,
        block_log2: 0,
    };
    let layout = TagLayout::new(&superblock, 0, DEVICE_LEN as u64).expect("it fits");
    let mut image = superblock.encode();
    layout.section.encode(0, 0, std::iter::empty(), &mut image);
    // 40 sectors in each section; then the first entry of each sector, for the sectors 2, 4, 6...
    let mut journal = [[1; 80].as_slice(), &[0; 40]].concat();
    for place in (2..18u64).step_by(2) {
        let mut sector = [0; 504];
        sector[..8].copy_from_slice(&place.to_le_bytes());
        journal.extend_from_slice(&sector);
    }
    vec![(0, image), (1, journal)]
}

/// Uses the device if it opens, and opens it again with an empty journal.
fn open(image: Vec<u8>) {
    let Ok(superblock) = TagSuperblock::decode(&image) else {
        return;
    };
    let tag_len = usize::from(superblock.tag_len);
    let Some(block) = 512usize.checked_shl(superblock.block_log2.into()) else {
        return;
    };
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(image));
    let Ok(tagged) = TaggedDevice::open(Arc::clone(&device), 0, tag_len, block, TagMode::Journal)
    else {
        return;
    };
    let last = tagged.data_len() / block as u64 - 1;
    let (data, tag) = (vec![0x5a; block], vec![0xa5; tag_len]);
    tagged
        .write(last, &data, &tag)
        .expect("it lies on the device");
    tagged.flush().expect("a device in memory");
    drop(tagged);
    let again = TaggedDevice::open(device, 0, tag_len, block, TagMode::ReadOnly);
    let again = again.unwrap_or_else(|error| panic!("it was closed: {error}"));
    let (mut read, mut tags) = (vec![0; block], Vec::new());
    again
        .read(last, &mut read, &mut tags)
        .expect("it was written");
    assert_eq!((read, tags), (data, tag));
}
