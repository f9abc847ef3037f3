//! Writing `.pefs.db`: a new btree with all its records, in the byte order of this machine.

use std::collections::BTreeMap;

use super::pages::{HEADER_LEN, INTERNAL, LEAF, MAGIC, VERSION};

/// The records of a database, by their keys, which sort as the library sorts them.
pub(crate) type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys of records are not used twice.
const NO_DUPLICATES: u32 = 0x20;

/// The page that the tree begins with.
const ROOT: u32 = 1;

/// The length of an item's offset, which a page has besides the item.
const OFFSET_LEN: usize = 2;

/// An item of a page, and the key by which the page above knows its page.
struct PageItem {
    key: Vec<u8>,
    bytes: Vec<u8>,
}

/// The file, of pages of this size.
pub(crate) fn encode(records: &Records, page_size: usize) -> Vec<u8> {
    let leaf = |(key, value): (&Vec<u8>, &Vec<u8>)| PageItem {
        key: key.clone(),
        bytes: item(key.len(), value.len() as u32, &[key, value]),
    };
    let mut level = pages_of(records.iter().map(leaf).collect(), page_size);
    let mut levels = Vec::new();
    // The number of the first page of a level: page 1 is the root, whatever comes before it.
    let mut next = ROOT + 1;
    let mut kind = LEAF;
    while level.len() > 1 {
        let first = next;
        next += level.len() as u32;
        let numbered = level.iter().zip(first..);
        let above = numbered.map(|(page, number)| PageItem {
            key: page[0].key.clone(),
            bytes: item(page[0].key.len(), number, &[&page[0].key]),
        });
        let above = pages_of(above.collect(), page_size);
        levels.push((first, kind, level));
        (level, kind) = (above, INTERNAL);
    }
    levels.push((ROOT, kind, level));
    let mut file = vec![0; next as usize * page_size];
    file[..page_size].copy_from_slice(&first_page(page_size));
    for (first, kind, pages) in levels {
        let count = pages.len() as u32;
        for (page, number) in pages.into_iter().zip(first..) {
            let previous = if number == first { 0 } else { number - 1 };
            let following = if number + 1 == first + count {
                0
            } else {
                number + 1
            };
            let at = number as usize * page_size;
            let out = &mut file[at..at + page_size];
            put_page(out, [number, previous, following, kind], &page);
        }
    }
    file
}

/// The first page, which gives the kind of the file.
fn first_page(page_size: usize) -> Vec<u8> {
    let mut page = vec![0; page_size];
    let fields = [MAGIC, VERSION, page_size as u32, 0, 0, NO_DUPLICATES];
    put_numbers(&mut page, &fields);
    page
}

/// An item: the length of its key, another number, no flags, and bytes, at full words.
fn item(key_len: usize, number: u32, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = (key_len as u32).to_ne_bytes().to_vec();
    bytes.extend(number.to_ne_bytes());
    bytes.push(0);
    parts.iter().for_each(|part| bytes.extend(*part));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Items in pages, as many in each as there is room for; one page at least.
fn pages_of(items: Vec<PageItem>, page_size: usize) -> Vec<Vec<PageItem>> {
    let mut pages = vec![Vec::new()];
    let mut room = page_size - HEADER_LEN;
    for item in items {
        let wanted = item.bytes.len() + OFFSET_LEN;
        let mut last = pages.len() - 1;
        if wanted > room && !pages[last].is_empty() {
            pages.push(Vec::new());
            last += 1;
            room = page_size - HEADER_LEN;
        }
        room = room.saturating_sub(wanted);
        pages[last].push(item);
    }
    pages
}

/// Items lie at the end of their page, the first one last of all.
fn put_page(out: &mut [u8], numbers: [u32; 4], items: &[PageItem]) {
    put_numbers(out, &numbers);
    let mut upper = out.len();
    for (index, item) in items.iter().enumerate() {
        upper -= item.bytes.len();
        out[upper..upper + item.bytes.len()].copy_from_slice(&item.bytes);
        put_half(out, HEADER_LEN + OFFSET_LEN * index, upper);
    }
    put_half(out, 16, HEADER_LEN + OFFSET_LEN * items.len());
    put_half(out, 18, upper);
}

fn put_numbers(out: &mut [u8], numbers: &[u32]) {
    for (place, number) in out.chunks_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
}

/// Two bytes. The end of a page of 64 KiB is 0, as the library has it.
fn put_half(out: &mut [u8], at: usize, number: usize) {
    out[at..at + 2].copy_from_slice(&(number as u16).to_ne_bytes());
}
