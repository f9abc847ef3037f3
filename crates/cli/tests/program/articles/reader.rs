//! A reader of the pages, who types their lines at a terminal.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::page::{Block, Line, index};
use crate::common::terminal::Terminal;
use crate::common::*;

/// The answer wherever a passphrase is asked for.
pub(crate) const PASSPHRASE: &str = "correct horse battery";

/// The words of the documents for things of their authors' machines, and the words for them in a test. `DIR` is the
/// directory of the test. The rest is unchanged, but for the table of verbs in the index.
#[rustfmt::skip]
const PLACES: [(&str, &str); 21] = [
    ("/media/stick/", "DIR/"),
    ("/media/keys/", "DIR/"),
    ("/zones/", "DIR/"),
    ("=/export/home/darrenm", "=DIR/mnt/darrenm"),
    ("/dev/dsk/c10t600144F09ACAACD20000508E64A70001d0", "DIR/disk"),
    ("c1t1d0", "DIR/disk"),
    ("/dev/lofi/1", "luks:lofi1"),
    ("/dev/lofi ", "luks:lofi1 "),
    ("allow darrenm", "allow nobody"),
    ("/dev/ram0", "DIR/ram0"),
    ("crypthdr.img", "DIR/crypthdr.img"),
    ("~/", "DIR/"),
    ("/mnt/lustre", "DIR/lustre"),
    ("/tank/", "DIR/mnt/tank/"),
    ("/mypool", "DIR/mnt/mypool"),
    ("jot ", "seq "),
    ("7626382168311a9d", "$(ls -tr DIR/lustre/.fscrypt/protectors | head -n 1)"),
    ("2c75f519b9c9959d", "$(ls -t DIR/lustre/.fscrypt/protectors | head -n 1)"),
    ("16382f282d7b29ee", "$(ls DIR/lustre/.fscrypt/policies)"),
    // The host has no /eizoss.
    ("pool create -O encryption=on", "pool create -m none -O encryption=on"),
    ("pool create mypool", "pool create -m DIR/mnt/mypool mypool"),
];

/// The needs of lines, by name: commands that are run before them.
#[rustfmt::skip]
const SETUPS: [(&str, &[&str]); 10] = [
    ("none", &[]),
    ("x86-64", &[]),
    ("tank", &["strongroom pool create -s 128M -m DIR/mnt/tank tank DIR/tank"]),
    ("projects", &["strongroom pool create -s 128M -m DIR/mnt/projects projects DIR/projects"]),
    ("rpool", &["strongroom pool create -s 192M -m DIR/mnt/rpool rpool DIR/rpool"]),
    ("disk", &["truncate -s 64M DIR/disk"]),
    ("ram0", &["truncate -s 32M DIR/ram0"]),
    ("san", &["strongroom pool create -s 128M -m DIR/mnt/tank tank DIR/tank.pool"]),
    ("home", &[]),
    (
        "lustre",
        &[
            "truncate -s 32M DIR/ost",
            "mkfs.ext4 -q -b 4096 -O encrypt DIR/ost",
            "mkdir DIR/lustre",
            "mount -o loop DIR/ost DIR/lustre",
            "mkdir DIR/lustre/vault",
        ],
    ),
];

/// The rows of the table of verbs.
pub(crate) fn verbs() -> Vec<(&'static str, &'static str)> {
    let cell = |text: &'static str| text.trim().trim_matches('`');
    let rows = index().lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let mut cells = row.split(" | ");
        let there = cells.next().expect("a cell").trim_start_matches("| ");
        (cell(there), cell(cells.next().expect("a cell")))
    })
    .collect()
}

/// The command line that a line of a document becomes.
fn translate(line: &str) -> String {
    for separator in [" && ", " | "] {
        if let Some((first, rest)) = line.split_once(separator) {
            return translate(first) + separator + &translate(rest);
        }
    }
    // Variables before the command.
    if let Some((value, rest)) = line.split_once("\" ")
        && value
            .split_once("=\"")
            .is_some_and(|(name, _)| !name.contains(' '))
    {
        return format!("{value}\" {}", translate(rest));
    }
    let matches = |verb: &str| match verb.strip_suffix('*') {
        Some(start) => line.strip_prefix(start).map(str::to_owned),
        None => (line == verb).then(String::new),
    };
    let rows = verbs().into_iter();
    let rows = rows.filter_map(|(verb, here)| Some((verb, here, matches(verb)?)));
    match rows.max_by_key(|(verb, ..)| verb.len()) {
        Some((_, "*", rest)) => translate(&rest),
        Some((_, here, rest)) => here.replace('*', &rest),
        None => line.into(),
    }
}

/// The question of the program, and the answer: the text behind the question, or the passphrase.
fn question_and_answer(line: &str) -> (String, &str) {
    for end in ["(y/N) ", ": "] {
        if let Some((question, answer)) = line.rsplit_once(end) {
            return (question.to_owned() + end, answer);
        }
    }
    let here = line.replace("Enter again:", "Re-enter passphrase:");
    (here, PASSPHRASE)
}

pub(crate) struct Reader {
    pub(crate) place: Place,
    /// Lines that later ones depend on: assignments of variables, and the directory.
    before: String,
}

impl Reader {
    /// With what a setup makes; `None` where this machine cannot have it.
    pub(crate) fn new(setup: &str) -> Option<Reader> {
        let commands = SETUPS.iter().find(|(name, _)| *name == setup);
        let (_, commands) = commands.unwrap_or_else(|| panic!("no setup {setup}"));
        if setup == "x86-64" && cfg!(not(target_arch = "x86_64")) {
            eprintln!("skipped: features are switched off on x86-64 only");
            return None;
        }
        let mut place = Place::without_daemon();
        match setup {
            // Its portal is at the port of iSCSI, which others may have.
            "san" => place.start_within(&["unshare".into(), "--net".into()]),
            _ => place.start(),
        }
        let reader = Reader {
            place,
            before: String::new(),
        };
        for command in *commands {
            let script = reader.script("", &reader.in_place(command));
            let done = reader.place.shell(&script);
            if done.code != 0 {
                // Only what the kernel has to mount can be missing.
                assert!(command.starts_with("mount "), "{command}: {}", done.err);
                eprintln!("skipped: {command}: {}", done.err);
                return None;
            }
        }
        Some(reader)
    }

    /// With the setup of the first block.
    pub(crate) fn of(blocks: &[Block]) -> Option<Reader> {
        Reader::new(blocks[0].setup.expect("the first block names a setup"))
    }

    pub(crate) fn file(&self, dataset: &str, name: &str) -> PathBuf {
        self.place.path("mnt").join(dataset).join(name)
    }

    /// Types all lines of a block; returns what was printed. Lines that do not what the page says are told at the end.
    pub(crate) fn types(&mut self, block: &Block) -> String {
        let mut printed = String::new();
        let mut faults = Vec::new();
        for line in block.lines() {
            // What later lines depend on.
            let later = ["export ", "cd /"];
            if later.iter().any(|start| line.text.starts_with(start)) {
                let _ = writeln!(self.before, "{}", self.in_place(&line.text));
                continue;
            }
            let text = self.in_place(&translate(&line.text));
            let script = self.script(line.prompt, &text);
            let (is_ok, shown) = self.answers(&script, &line.questions());
            let fault = self.fault(&line, is_ok, &shown);
            faults.extend(fault.map(|fault| format!("{text}\n  {fault}, but: {shown}")));
            printed += &shown;
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        printed
    }

    /// The promise of the page for a line that the program does not keep.
    fn fault(&self, line: &Line, is_ok: bool, shown: &str) -> Option<String> {
        match line.refusal().map(|refusal| self.in_place(refusal)) {
            Some(_) if is_ok => return Some("it is not refused".into()),
            Some(refusal) if !shown.lines().any(|line| line.trim_end() == refusal) => {
                return Some(format!("no {refusal:?}"));
            }
            None if !is_ok => return Some("it failed".into()),
            _ => {}
        }
        // Numbers and names of the document are left out by `...`.
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let all = plain(shown);
        line.output().into_iter().find_map(|wanted| {
            let wanted = self.in_place(wanted);
            let mut parts = wanted.split("...").map(plain);
            let part = parts.find(|part| !all.contains(part))?;
            Some(format!("no {part:?}"))
        })
    }

    /// Runs a script; if it asks for something, at a terminal, and answers.
    fn answers(&self, script: &str, questions: &[&str]) -> (bool, String) {
        if questions.is_empty() {
            let done = self.place.shell(script);
            return (done.code == 0, done.out + &done.err);
        }
        // A question that the page does not have is no reason to wait for ever.
        let guarded = format!(
            "timeout --foreground 120 sh -c '{}'",
            script.replace('\'', "'\\''")
        );
        let mut terminal = Terminal::shell(&self.place, &guarded);
        for question in questions {
            let (question, answer) = question_and_answer(question);
            terminal.wait_for(&self.in_place(&question));
            terminal.types(&format!("{answer}\n"));
        }
        let (status, printed) = terminal.ends();
        (status.success(), printed.replace('\r', ""))
    }

    /// A script for one line, with the program on the path, and the socket of the zone if it is typed there.
    fn script(&self, prompt: &str, line: &str) -> String {
        let dir = Path::new(PROGRAM).parent().expect("a directory").display();
        let socket = match prompt {
            "zone" => self.place.path("zones/eizoss"),
            _ => self.place.socket(),
        };
        let (socket, home, before) = (socket.display(), self.place.arg(""), &self.before);
        format!("export PATH={dir}:$PATH HOME={home} STRONGROOM_SOCKET={socket}\n{before}{line}\n")
    }

    pub(crate) fn in_place(&self, text: &str) -> String {
        let dir = self.place.root().to_str().expect("UTF-8");
        let text = text.to_owned();
        let text = PLACES
            .iter()
            .fold(text, |text, (there, here)| text.replace(there, here));
        text.replace("DIR", dir)
    }
}
