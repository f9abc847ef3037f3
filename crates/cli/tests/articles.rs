//! The commands of the articles that `docs/ARTICLES.md` quotes, typed at a terminal, and what they promise.

mod common;

use std::fs;
use std::path::PathBuf;

use common::terminal::Terminal;
use common::*;

const DOCUMENT: &str = include_str!("../../../docs/ARTICLES.md");

/// What is typed wherever a new passphrase is asked for.
const PASSPHRASE: &str = "correct horse battery";

/// What stands in the articles for things of their authors' machines, and what it is in a test. `DIR` is the
/// directory of the test. Nothing else is changed, but for the table of verbs in the document.
const PLACES: [(&str, &str); 8] = [
    ("/media/stick/", "DIR/"),
    ("/media/keys/", "DIR/"),
    ("file:///zones/p", "file://DIR/p"),
    ("/export/home/darrenm", "DIR/mnt/darrenm"),
    (
        "/dev/dsk/c10t600144F09ACAACD20000508E64A70001d0",
        "DIR/disk",
    ),
    ("/dev/ram0", "DIR/ram0"),
    ("crypthdr.img", "DIR/crypthdr.img"),
    // The host has no /eizoss.
    (
        "pool create -O encryption=on",
        "pool create -m none -O encryption=on",
    ),
];

/// The rows of the table of verbs.
fn verbs() -> Vec<(&'static str, &'static str)> {
    let cell = |text: &'static str| text.trim().trim_matches('`');
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<_> = rows
        .map(|row| {
            let mut cells = row.split('|').skip(1);
            (cell(cells.next().unwrap()), cell(cells.next().unwrap()))
        })
        .collect();
    assert!(rows.len() > 20, "{rows:?}");
    rows
}

/// The commands that a line of an article becomes.
fn translate(line: &str) -> Vec<String> {
    if line.starts_with("strongroom ") {
        return vec![line.into()];
    }
    let matches = |verb: &str| match verb.strip_suffix('*') {
        Some(start) => line.strip_prefix(start),
        None => (line == verb).then_some(""),
    };
    let (verb, here) = verbs()
        .into_iter()
        .filter(|(verb, _)| matches(verb).is_some())
        .max_by_key(|(verb, _)| verb.len())
        .unwrap_or_else(|| panic!("no row for {line}"));
    let rest = matches(verb).unwrap();
    here.split(" && ")
        .map(|one| one.replace('*', rest))
        .collect()
}

/// A block of lines below a heading of the document.
struct Block(&'static str);

fn blocks(heading: &str) -> Vec<Block> {
    let (_, section) = DOCUMENT
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let parts = section.split("```console\n").skip(1);
    parts
        .map(|part| Block(part.split("```").next().unwrap()))
        .collect()
}

/// The user who types the commands.
struct Reader {
    place: Place,
}

impl Reader {
    /// With a pool of that name, whose datasets are mounted below `mnt`.
    fn new(pool: &str) -> Reader {
        let place = Place::new();
        let (mnt, file) = (place.arg(&format!("mnt/{pool}")), place.arg(pool));
        place.ok(&format!("pool create -s 128M -m {mnt} {pool} {file}"));
        Reader { place }
    }

    fn file(&self, dataset: &str, name: &str) -> PathBuf {
        self.place.path("mnt").join(dataset).join(name)
    }

    /// Runs all lines of a block; returns what was printed.
    fn types(&self, block: &Block) -> String {
        let mut printed = String::new();
        let mut lines = block.0.lines().peekable();
        while let Some(line) = lines.next() {
            let (prompt, line) = line.split_once(['$', '#']).expect("a command");
            let mut prompts = Vec::new();
            while let Some(prompt) = lines.next_if(|line| line.starts_with("Enter ")) {
                prompts.push(self.in_place(prompt));
            }
            let socket = match prompt {
                "zone" => self.place.path("zones/eizoss"),
                _ => self.place.socket(),
            };
            for command in self.translated(line.trim()) {
                printed += &self.run(&command, &prompts, socket.to_str().unwrap());
            }
        }
        printed
    }

    fn in_place(&self, text: &str) -> String {
        let dir = self.place.root().to_str().unwrap();
        let text = text.to_owned();
        PLACES.iter().fold(text, |text, (there, here)| {
            text.replace(there, &here.replace("DIR", dir))
        })
    }

    fn translated(&self, line: &str) -> Vec<String> {
        // A variable before the command.
        let (variable, line) = match line.split_once("\" ") {
            Some((variable, line)) if variable.starts_with("LD_HWCAP=") => (
                variable.replace("LD_HWCAP=\"", "STRONGROOM_HWCAP=") + " ",
                line,
            ),
            _ => (String::new(), line),
        };
        let commands = translate(line).into_iter();
        commands
            .map(|command| variable.clone() + &self.in_place(&command))
            .collect()
    }

    /// Runs one command at a terminal, and answers what it asks.
    fn run(&self, line: &str, prompts: &[String], socket: &str) -> String {
        let mut words = words(line);
        let mut variables = Vec::new();
        while let Some((name, value)) = words[0].split_once('=') {
            variables.push((name.to_owned(), value.to_owned()));
            words.remove(0);
        }
        assert_eq!(words.remove(0), "strongroom", "{line}");
        let asks_first = words[0] == "destroy" || words[..2] == ["luks", "format"];
        if prompts.is_empty() && !asks_first {
            let mut command = self.place.command();
            command.envs(variables).env("STRONGROOM_SOCKET", socket);
            let output = command.args(&words).output().unwrap();
            let (out, err) = (
                String::from_utf8(output.stdout).unwrap(),
                String::from_utf8(output.stderr).unwrap(),
            );
            assert!(
                output.status.success(),
                "{line}: {err}\n{}",
                self.place.log()
            );
            return out;
        }
        let socket = ["--socket", socket];
        let mut terminal = Terminal::run(&self.place, &[&socket[..], &words].concat());
        if asks_first {
            terminal.wait_for("(y/N) ");
            terminal.types("y\n");
        }
        for prompt in prompts {
            terminal.wait_for(match prompt.as_str() {
                "Enter again:" => "Re-enter passphrase:",
                other => other,
            });
            terminal.types(&format!("{PASSPHRASE}\n"));
        }
        let (status, shown) = terminal.ends();
        assert!(status.success(), "{line}: {shown}\n{}", self.place.log());
        shown
    }

    /// One property of a dataset.
    fn get(&self, property: &str, dataset: &str) -> String {
        let text = self
            .place
            .ok(&format!("get -H -o value,source {property} {dataset}"));
        text.trim_end().replace('\t', " ")
    }

    fn numbers(&self, dataset: &str) -> Vec<u64> {
        let text = self.place.ok("inspect -ddd --json tank");
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
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
fn every_section_of_the_document_has_a_test() {
    let tested = include_str!("articles.rs");
    let mut count = 0;
    for heading in DOCUMENT.lines().filter_map(|line| line.strip_prefix("## ")) {
        count += usize::from(!blocks(heading).is_empty());
        let call = format!("blocks(\"{heading}\")");
        assert!(
            tested.contains(&call) || blocks(heading).is_empty(),
            "{heading}"
        );
    }
    assert!(count >= 9, "{count}");
}

#[test]
fn encryption_is_one_option() {
    if !can_mount() {
        return;
    }
    let reader = Reader::new("tank");
    let [first, change] = &blocks("Encryption is one option")[..] else {
        panic!("two blocks");
    };
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
    // Encryption is chosen at creation.
    reader.place.fails("set encryption=off tank/darren", USAGE);

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
}

#[test]
fn keys_in_files() {
    let reader = Reader::new("tank");
    for block in blocks("Keys in files") {
        reader.types(&block);
    }
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
    if !can_mount() {
        return;
    }
    let reader = Reader::new("projects");
    for key in ["g", "e"] {
        reader
            .place
            .ok(&format!("keygen {}", reader.place.arg(key)));
    }
    let [create, delete] = &blocks("Assured delete")[..] else {
        panic!("two blocks");
    };
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
}

#[test]
fn assured_delete_of_a_clone() {
    if !can_mount() {
        return;
    }
    let reader = Reader::new("projects");
    reader.place.ok("keygen {DIR}/g");
    reader.types(&Block(
        "$ zfs create -o encryption=on -o raw,file:///media/keys/g projects/glasgow\n",
    ));
    let (glasgow, mungo) = ("projects/glasgow", "projects/mungo");
    fs::write(reader.file(glasgow, "shared"), "of both").unwrap();
    let [part, delete] = &blocks("Assured delete of a clone")[..] else {
        panic!("two blocks");
    };
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

/// How many times as much the shared records of the pool would take, in hundredths.
fn dedup_ratio(reader: &Reader) -> u64 {
    reader.place.ok("pool sync");
    let text = reader.place.ok("pool list -H -o dedup tank");
    let number = text.trim().trim_end_matches('x').replace('.', "");
    number.parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn encryption_and_deduplication() {
    if !can_mount() {
        return;
    }
    let reader = Reader::new("tank");
    let [clones, apart] = &blocks("Encryption and deduplication")[..] else {
        panic!("two blocks");
    };
    reader.types(clones);
    // The same patch for every project.
    let patch: Vec<u8> = (0..1u32 << 18)
        .flat_map(|n| blake3::hash(&n.to_le_bytes()).as_bytes()[..4].to_vec())
        .collect();
    let apply = |project: &str| {
        let file = reader.file(&format!("tank/builds/{project}"), "patched");
        fs::write(file, &patch).unwrap();
    };
    apply("project-one");
    let before = dedup_ratio(&reader);
    apply("project-two");
    let shared = dedup_ratio(&reader);
    assert!(before < 110 && shared > 190, "{before} {shared}");
    let printed = reader.types(apart);
    has(&printed, "tank");
    apply("project-three");
    let apart = dedup_ratio(&reader);
    assert!(apart < shared, "{shared} {apart}");
}

#[test]
fn what_is_on_disk() {
    let reader = Reader::new("tank");
    let key = reader.place.arg("k");
    reader.place.ok(&format!("keygen {key}"));
    reader.place.ok(&format!(
        "create -u -o encryption=on -o keysource=raw,file://{key} tank/fs"
    ));
    let [block] = &blocks("What is on disk")[..] else {
        panic!("one block");
    };
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
fn a_pool_for_a_zone() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root has zones");
        return;
    }
    let reader = Reader {
        place: Place::new(),
    };
    let disk = fs::File::create(reader.place.path("disk")).unwrap();
    disk.set_len(64 << 20).unwrap();
    let passphrase = reader.place.path("p");
    fs::write(&passphrase, "zfscrypto\n").unwrap();
    fs::set_permissions(
        &passphrase,
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let blocks = blocks("A pool for a zone");
    let printed: Vec<String> = blocks.iter().map(|block| reader.types(block)).collect();
    let rows: Vec<String> = printed[2]
        .lines()
        .filter(|line| line.starts_with("rpool"))
        .map(|line| words(line).join(" "))
        .collect();
    let source = format!("passphrase,file://{}", passphrase.display());
    assert_eq!(
        rows,
        [
            "rpool encryption on inherited from $globalzone".to_owned(),
            format!("rpool keysource {source} inherited from $globalzone"),
            "rpool/export/home/bob encryption on local".to_owned(),
            "rpool/export/home/bob keysource passphrase,prompt local".to_owned(),
        ]
    );
}

#[test]
fn a_pool_in_a_volume() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root allows something to others");
        return;
    }
    let reader = Reader::new("rpool");
    let [create, again] = &blocks("A pool in a volume")[..] else {
        panic!("two blocks");
    };
    reader.types(create);
    let note = reader.place.path("mnt/darrenm/Documents/Private/note");
    fs::write(&note, "private").unwrap();
    let allowed = reader.place.ok("allow darrenm");
    has(&allowed, "create,destroy,mount");
    let mounted = reader.place.ok("mount");
    lacks(&mounted, "darrenm/Documents ");
    reader.types(again);
    assert_eq!(fs::read_to_string(&note).unwrap(), "private");
}

#[test]
fn without_the_instructions_of_the_processor() {
    let reader = Reader {
        place: Place::new(),
    };
    let [switches, fips] = &blocks("Without the processor's instructions")[..] else {
        panic!("two blocks");
    };
    let printed = reader.types(switches);
    let lists: Vec<&str> = printed.split("WHAT IT IS").skip(1).collect();
    let [all, slow, disabled] = &lists[..] else {
        panic!("{printed}");
    };
    lacks(all, "AES in software");
    if cfg!(target_arch = "x86_64") {
        has(slow, "AES in software");
    }
    let xts = |list: &str| {
        let row = list.lines().find(|line| line.starts_with("aes-xts "));
        words(row.unwrap())[1].to_owned()
    };
    assert_eq!(
        (xts(all), xts(disabled)),
        ("aws-lc".into(), "portable".into())
    );
    let printed = reader.types(fips);
    has(&printed, "FIPS mode: on");
}

#[test]
fn dm_crypt() {
    let reader = Reader {
        place: Place::new(),
    };
    for name in ["ram0", "crypthdr.img"] {
        let file = fs::File::create(reader.place.path(name)).unwrap();
        file.set_len(16 << 20).unwrap();
    }
    let [block] = &blocks("dm-crypt")[..] else {
        panic!("one block");
    };
    let printed = reader.types(block);
    let flags: Vec<bool> = printed
        .split("encrypted-ram0 is open")
        .skip(1)
        .map(|status| status.contains("no_read_workqueue no_write_workqueue"))
        .collect();
    // With queues, and without them.
    assert_eq!(flags, [false, true], "{printed}");
    has(&printed, "aes-xts");
    let data = fs::read(reader.place.path("ram0")).unwrap();
    assert!(find(&data, b"LUKS").is_none());
}
