//! The lines of `docs/articles`, typed at a terminal, and what the documents promise of them.
//!
//! A section with a test of its own is typed there. All others are typed by `lines_of_the_other_sections`.

mod page;
mod reader;

use std::{fs, thread};

use crate::common::*;
use page::{Answer, Block, Item, Section, index, pages, section, sections};
use reader::{PASSPHRASE, Reader, verbs};

fn blocks(page: &str, title: &str) -> Vec<Block> {
    section(page, title).blocks()
}

impl Reader {
    /// The value and the source of a property of a dataset.
    fn get(&self, property: &str, dataset: &str) -> String {
        let text = self
            .place
            .ok(&format!("get -H -o value,source {property} {dataset}"));
        text.trim_end().replace('\t', " ")
    }

    fn numbers(&self, dataset: &str) -> Vec<u64> {
        let found = self.place.json("inspect -ddd --json tank");
        let of = |found: &serde_json::Value| found["name"] == dataset;
        let datasets = found["datasets"].as_array().unwrap();
        let dataset = datasets
            .iter()
            .find(|found| of(found))
            .expect("it is there");
        let entries = dataset["keychain"].as_array().unwrap().iter();
        entries
            .map(|entry| entry["txg"].as_u64().unwrap())
            .collect()
    }
}

#[test]
fn every_row_of_the_verbs_is_used() {
    let lines = sections().flat_map(|section| section.blocks());
    let lines: Vec<String> = lines
        .flat_map(|block| block.lines())
        .map(|line| line.text)
        .collect();
    assert!(lines.len() > 100, "{}", lines.len());
    for (verb, _) in verbs() {
        let start = verb.trim_end_matches('*');
        assert!(lines.iter().any(|line| line.contains(start)), "{verb}");
    }
}

#[test]
fn every_item_has_an_answer_and_a_test() {
    let mut faults = Vec::new();
    for section in sections() {
        let blocks = section.blocks();
        let items = section.items();
        assert!(!items.is_empty(), "{}: {}", section.page, section.title);
        for item in items {
            let fault = item.fault(&blocks);
            faults.extend(fault.map(|fault| format!("{}, {}: {fault}", section.title, item.title)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_index_counts_the_items() {
    let row = |name: &str, items: &[Item]| {
        let count = |answer| items.iter().filter(|item| item.answer == answer).count();
        let [works, refused, not_here] =
            [Answer::Works, Answer::Refused, Answer::NotHere].map(count);
        format!(
            "| {name} | {} | {works} | {refused} | {not_here} |",
            items.len()
        )
    };
    let mut all = Vec::new();
    for page in pages() {
        let mut items = sections()
            .filter(|section| section.page == page.name)
            .flat_map(|section| section.items())
            .collect::<Vec<_>>();
        let title = page.text.lines().next().unwrap().trim_start_matches("# ");
        has(
            index(),
            &row(&format!("[{title}](articles/{}.md)", page.name), &items),
        );
        all.append(&mut items);
    }
    has(index(), &row("all", &all));
}

#[test]
fn lines_of_the_other_sections() {
    needs!(can_mount() && is_root(), "only root types all lines");
    let tested = include_str!("articles.rs");
    let has_a_test = |section: &Section| {
        tested.contains(&format!(
            "blocks(\"{}\", \"{}\")",
            section.page, section.title
        ))
    };
    let others = sections().filter(|section| !has_a_test(section));
    let others =
        others.map(|section| (section.title, thread::spawn(move || type_section(&section))));
    let threads: Vec<_> = others.collect();
    let ended = threads
        .into_iter()
        .map(|(title, thread)| (title, thread.join()));
    let failed: Vec<&str> = ended
        .filter_map(|(title, end)| end.is_err().then_some(title))
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

fn type_section(section: &Section) {
    let mut reader = None;
    for block in section.blocks() {
        if let Some(setup) = block.setup {
            reader = Reader::new(setup);
        }
        if let Some(reader) = &mut reader {
            reader.types(&block);
        }
    }
}

#[test]
fn introducing_zfs_crypto() {
    needs!(can_mount());
    let blocks = blocks(
        "solaris-zfs",
        "Introducing ZFS Crypto in Oracle Solaris 11 Express",
    );
    let [first, change, files] = &blocks[..] else {
        panic!("three blocks");
    };
    let mut reader = Reader::of(&blocks).expect("a pool");
    reader.types(first);
    // What is below inherits both properties, and the wrapping key; a clone beside it has its own.
    for name in ["music", "sub"] {
        let name = format!("tank/darren/{name}");
        assert_eq!(
            reader.get("encryption", &name),
            "on inherited from tank/darren"
        );
        let source = reader.get("keysource", &name);
        assert_eq!(source, "passphrase,prompt inherited from tank/darren");
    }
    assert!(
        reader
            .get("keysource", "tank/tony")
            .starts_with("passphrase,prompt")
    );
    let roots = reader.place.ok("key status -H");
    for row in ["tank/darren/music\ttank/darren\t", "tank/tony\ttank/tony\t"] {
        assert!(roots.contains(row), "{roots}");
    }
    // Data keys are each dataset's own; `key -K` adds one, and so does a clone with a key of its own.
    assert_eq!(reader.numbers("tank/darren").len(), 3);
    assert_eq!(reader.numbers("tank/darren/music").len(), 1);

    fs::write(reader.file("tank/darren", "note"), "mine").unwrap();
    // A change of the passphrase does not ask for the old one.
    let other = "another passphrase";
    reader.place.ok("unmount -a");
    reader.types(change);
    reader.place.ok("key unload tank/darren");
    reader
        .place
        .fails_with("key load tank/darren", &format!("{other}\n"), WRONG_KEY);
    reader
        .place
        .ok_with("key load tank/darren", &format!("{PASSPHRASE}\n"));
    reader.place.ok("mount tank/darren");
    let read = fs::read_to_string(reader.file("tank/darren", "note")).unwrap();
    assert_eq!(read, "mine");

    let mut reader = Reader::of(std::slice::from_ref(files)).expect("a pool");
    reader.types(files);
    assert_eq!(reader.get("encryption", "tank/tony"), "aes-256-ccm local");
    let source = reader.get("keysource", "tank/darren");
    assert_eq!(
        source,
        format!("raw,file://{} local", reader.place.arg("mykey"))
    );
    // It is asked for nothing.
    reader.place.ok("unmount -a");
    reader.place.ok("key unload tank/darren");
    reader.place.ok("key load tank/darren");
}

/// Pieces of the wrapped keys of a dataset as they are stored now.
fn wrapped(reader: &Reader, dataset: &str) -> Vec<Vec<u8>> {
    let copy = reader.place.arg("copy");
    reader.place.ok(&format!("key backup {dataset} {copy}"));
    let bytes = fs::read(&copy).unwrap();
    fs::remove_file(&copy).unwrap();
    let start = find(&bytes, b"SRKEYRNG").expect("a keyring") + 48;
    let random = |piece: &&[u8]| piece.iter().filter(|byte| **byte == 0).count() < 4;
    let pieces = bytes[start..bytes.len() - 64].chunks_exact(32);
    pieces.filter(random).map(<[u8]>::to_vec).collect()
}

#[test]
fn assured_delete() {
    needs!(can_mount());
    let blocks = blocks("solaris-zfs", "Assured delete with ZFS dataset encryption");
    let [create, delete, clone @ ..] = &blocks[..] else {
        panic!("several blocks");
    };
    let mut reader = Reader::of(&blocks).expect("a pool");
    reader.types(create);
    fs::write(reader.file("projects/edinburgh", "note"), "stays").unwrap();
    fs::write(reader.file("projects/glasgow", "note"), "goes").unwrap();
    let device = reader.place.path("projects");
    let keys = wrapped(&reader, "projects/glasgow");
    let others = wrapped(&reader, "projects/edinburgh");
    assert!(keys.iter().all(|key| find_in_file(&device, key).is_some()));

    // Nothing is left that the file with the key would open.
    reader.types(delete);
    reader.place.fails("list projects/glasgow", NOT_FOUND);
    reader.place.ok("pool sync");
    assert!(keys.iter().all(|key| find_in_file(&device, key).is_none()));
    assert!(
        others
            .iter()
            .all(|key| find_in_file(&device, key).is_some())
    );
    let note = fs::read_to_string(reader.file("projects/edinburgh", "note"));
    assert_eq!(note.unwrap(), "stays");
    assured_delete_of_a_clone(clone);
}

fn assured_delete_of_a_clone(blocks: &[Block]) {
    let [create, part, delete] = blocks else {
        panic!("three blocks");
    };
    let mut reader = Reader::of(blocks).expect("a pool");
    reader.types(create);
    let (glasgow, mungo) = ("projects/glasgow", "projects/mungo");
    fs::write(reader.file(glasgow, "shared"), "of both").unwrap();
    reader.types(part);
    // Both can be written to again, and each has what the other wrote before the snapshot.
    for name in [glasgow, mungo] {
        assert_eq!(reader.get("readonly", name), "off local");
        fs::write(reader.file(name, "own"), name).unwrap();
        let shared = fs::read_to_string(reader.file(name, "shared"));
        assert_eq!(shared.unwrap(), "of both");
        let keys = reader.place.ok(&format!("key generations -H {name}"));
        // Each has a key of its own, so the clone rotated the keys of its origin too.
        let count = if name == glasgow { 3 } else { 2 };
        assert_eq!(keys.lines().count(), count, "{keys}");
    }
    // The newest data keys are not the other's, so that each can be made unreadable alone.
    let stays = reader.place.ok(&format!("destroy --shred -n {mungo}"));
    has(&stays, "with generation 1");
    lacks(&stays, "with generation 2");
    let device = reader.place.path("projects");
    let keys = wrapped(&reader, mungo);
    reader.types(delete);
    reader.place.ok("pool sync");
    assert!(keys.iter().all(|key| find_in_file(&device, key).is_none()));
    for (name, text) in [("own", glasgow), ("shared", "of both")] {
        let read = fs::read_to_string(reader.file(glasgow, name)).unwrap();
        assert_eq!(read, text);
    }
}

/// The factor by which the shared records of the pool would take more space, in hundredths.
fn dedup_ratio(reader: &Reader) -> u64 {
    reader.place.ok("pool sync");
    let text = reader.place.ok("pool list -H -o dedup tank");
    let number = text.trim().trim_end_matches('x').replace('.', "");
    number.parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn encryption_and_deduplication() {
    needs!(can_mount());
    let blocks = blocks("solaris-zfs", "Having my secured cake and cloning it too");
    let [clones, apart] = &blocks[..] else {
        panic!("two blocks");
    };
    let mut reader = Reader::of(&blocks).expect("a pool");
    reader.types(clones);
    // The same patch for every project.
    let patch: Vec<u8> = (0..1u32 << 18)
        .flat_map(|n| blake3::hash(&n.to_le_bytes()).as_bytes()[..4].to_vec())
        .collect();
    let apply = |reader: &Reader, project: &str| {
        let file = reader.file(&format!("tank/builds/{project}"), "patched");
        fs::write(file, &patch).unwrap();
    };
    apply(&reader, "project-one");
    let before = dedup_ratio(&reader);
    apply(&reader, "project-two");
    let shared = dedup_ratio(&reader);
    assert!(before < 110 && shared > 190, "{before} {shared}");
    let printed = reader.types(apart);
    has(&printed, "tank");
    apply(&reader, "project-three");
    let apart = dedup_ratio(&reader);
    assert!(apart < shared, "{shared} {apart}");
}

#[test]
fn what_is_on_disk() {
    let blocks = blocks("solaris-zfs", "ZFS encryption: what is on disk?");
    let [block] = &blocks[..] else {
        panic!("one block");
    };
    let mut reader = Reader::of(&blocks).expect("a pool");
    let printed = reader.types(block);
    let (fs, clone) = (reader.numbers("tank/fs"), reader.numbers("tank/fsc1"));
    assert_eq!((fs.len(), clone.len()), (4, 3), "{fs:?} {clone:?}");
    assert_eq!(fs[..2], clone[..2]);
    // The clone has a key of its own, so one commit makes new data keys for it and for its origin.
    assert_eq!(fs[2], clone[2]);
    assert!(fs[1] < fs[2] && fs[2] < fs[3], "{fs:?} {clone:?}");
    // zdb shows the keychains, and the history says which transaction made each key.
    for txg in fs.iter().chain(&clone) {
        assert!(printed.contains(&txg.to_string()), "{txg}: {printed}");
    }
    let made = printed
        .lines()
        .filter(|line| line.contains("[internal encryption key create txg:"))
        .filter(|line| line.contains("rekey succeeded dataset = "));
    let made: Vec<&str> = made.collect();
    assert_eq!(made.len(), 4, "{printed}");
    assert!(made[1].contains(" from dataset = "), "{made:?}");
    for (line, txg) in made.iter().zip([fs[1], clone[2], fs[2], fs[3]]) {
        has(line, &format!("txg:{txg}]"));
    }
    assert_eq!(reader.get("primarycache", "tank/fs"), "metadata local");
    assert_eq!(reader.get("secondarycache", "tank/fs"), "none local");
}

#[test]
fn a_pool_in_a_volume() {
    needs!(
        can_mount() && is_root(),
        "only root allows something to others"
    );
    let blocks = blocks("solaris-zfs", "Encrypting ZFS pools using lofi crypto");
    let [create, again] = &blocks[..] else {
        panic!("two blocks");
    };
    let mut reader = Reader::of(&blocks).expect("a pool");
    reader.types(create);
    let note = reader.place.path("mnt/darrenm/Documents/Private/note");
    fs::write(&note, "private").unwrap();
    reader.place.says("allow darrenm", "create,destroy,mount");
    let mounted = reader.place.ok("mount");
    lacks(&mounted, "darrenm/Documents ");
    reader.types(again);
    assert_eq!(fs::read_to_string(&note).unwrap(), "private");
}

#[test]
fn a_detached_header_leaves_only_ciphertext() {
    let blocks = blocks("dm-crypt", "Setup of the measurement");
    let mut reader = Reader::of(&blocks).expect("a file");
    for block in &blocks {
        reader.types(block);
    }
    let data = fs::read(reader.place.path("ram0")).unwrap();
    assert!(find(&data, b"LUKS").is_none());
}
