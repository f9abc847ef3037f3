//! An encrypted dataset, its devices, and everything that was ever on them.

/// A generation of keys.
pub(crate) type ModelGeneration = u8;

/// The contents of two files.
pub(crate) type ModelFiles = [u8; 2];

/// A hash or tag that only one value has.
pub(crate) type ModelDigest = u16;

/// Rules of the format. Each can be left out, to see what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FormatRules {
    /// The identity of a record has a checksum of its ciphertext.
    pub(crate) identity_has_checksum: bool,
    /// A log entry names the seal of the state that was durable when it was written.
    pub(crate) entry_names_state: bool,
    /// Each time a dataset is opened, a commit begins a log with a new random name before anything is logged.
    pub(crate) open_begins_log: bool,
    /// A log entry is authenticated with the seal key too, not with the data key alone.
    pub(crate) entry_has_seal: bool,
    /// A seal contains the hashes of all seals before it.
    pub(crate) seal_has_history: bool,
    /// A clone gets the data keys of its origin, and none of its seal keys.
    pub(crate) clone_lacks_seal_keys: bool,
    /// The command that makes a clone with a key of its own rotates the keys of the origin.
    pub(crate) clone_rotates_origin: bool,
}

impl FormatRules {
    /// The rules before records had hashes, and logs states.
    pub(crate) const BEFORE: FormatRules = FormatRules {
        identity_has_checksum: false,
        entry_names_state: false,
        open_begins_log: false,
        entry_has_seal: false,
        seal_has_history: false,
        clone_lacks_seal_keys: false,
        clone_rotates_origin: false,
    };

    pub(crate) const PRESENT: FormatRules = FormatRules {
        identity_has_checksum: true,
        entry_names_state: true,
        open_begins_log: true,
        entry_has_seal: true,
        seal_has_history: true,
        clone_lacks_seal_keys: true,
        clone_rotates_origin: true,
    };
}

/// A sealed record, as a device stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelRecord {
    pub(crate) generation: ModelGeneration,
    /// Nonce and tag. A holder of the data key can make other ciphertexts with the same.
    pub(crate) tag: ModelDigest,
    pub(crate) plaintext: u8,
    /// True if the tag fits the ciphertext.
    pub(crate) is_authentic: bool,
}

/// The part of a record pointer that the seal covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelIdentity {
    pub(crate) generation: ModelGeneration,
    pub(crate) tag: ModelDigest,
    /// A hash of the ciphertext, here the record itself.
    pub(crate) checksum: Option<ModelRecord>,
}

/// An entry of the log: a file that `fsync` made durable.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The name of the log.
    pub(crate) log: ModelDigest,
    pub(crate) number: u8,
    pub(crate) txg: u8,
    pub(crate) generation: ModelGeneration,
    pub(crate) file: usize,
    pub(crate) contents: u8,
    /// The seal that was durable when the entry was written.
    pub(crate) state: ModelDigest,
}

/// A sealed state: what one commit made durable.
#[derive(Clone, Debug)]
pub(crate) struct ModelHead {
    pub(crate) seal: ModelDigest,
    pub(crate) generation: ModelGeneration,
    pub(crate) sequence: u8,
    /// The state has all changes up to this transaction group.
    pub(crate) base: u8,
    /// The name of the log.
    pub(crate) log: ModelDigest,
    /// The number of the first log entry that the state does not contain.
    pub(crate) first_entry: u8,
    pub(crate) identities: [ModelIdentity; 2],
    /// The seals before this one, the newest last.
    pub(crate) history: Vec<ModelDigest>,
}

/// The keyring on the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelKeyring {
    pub(crate) newest: ModelGeneration,
    /// A head needs the seal of this generation or a later one.
    pub(crate) floor: ModelGeneration,
}

/// The contents of the devices at one moment, and the program in memory.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) keyring: ModelKeyring,
    pub(crate) head: ModelHead,
    pub(crate) records: [ModelRecord; 2],
    /// The log since the head.
    pub(crate) entries: Vec<Entry>,
    pub(crate) files: ModelFiles,
    txg: u8,
}

/// A step of the program, or of the attacker who puts devices back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelStep {
    /// A file is written, and a commit makes it durable.
    Commit(usize),
    /// A file is written, and `fsync` logs it.
    Fsync(usize),
    /// The first file is committed, and `fsync` logs the second one while that commit is under way.
    FsyncInCommit,
    Rotate,
    /// A clone of the present state gets a key of its own, which the attacker has.
    Clone,
    /// The devices get back what they held before the step of this number.
    PutBack(usize),
}

/// The keys that a clone's key opens.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelKeys {
    pub(crate) data: Vec<ModelGeneration>,
    pub(crate) seal: Vec<ModelGeneration>,
}

/// A dataset with all of its past.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) rules: FormatRules,
    pub(crate) now: Moment,
    /// The devices before each step.
    pub(crate) past: Vec<Moment>,
    pub(crate) steps: Vec<ModelStep>,
    pub(crate) heads: Vec<ModelHead>,
    pub(crate) records: Vec<ModelRecord>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) keyrings: Vec<ModelKeyring>,
    /// The keyrings from the clone on.
    pub(crate) since_clone: usize,
    /// The contents that were durable at some time.
    pub(crate) durable: Vec<ModelFiles>,
    pub(crate) clone_keys: Option<ModelKeys>,
    last_digest: ModelDigest,
    last_contents: u8,
}

impl World {
    pub(crate) fn new(rules: FormatRules) -> World {
        let record = |tag| ModelRecord {
            generation: 1,
            tag,
            plaintext: 0,
            is_authentic: true,
        };
        let records = [record(1), record(2)];
        let head = ModelHead {
            seal: 3,
            generation: 1,
            sequence: 1,
            base: 1,
            log: 0,
            first_entry: 1,
            identities: records.each_ref().map(|record| identity(rules, record)),
            history: Vec::new(),
        };
        let keyring = ModelKeyring {
            newest: 1,
            floor: 1,
        };
        World {
            rules,
            now: Moment {
                keyring,
                head: head.clone(),
                records: records.clone(),
                entries: Vec::new(),
                files: [0, 0],
                txg: 1,
            },
            past: Vec::new(),
            steps: Vec::new(),
            heads: vec![head],
            records: records.to_vec(),
            entries: Vec::new(),
            keyrings: vec![keyring],
            since_clone: 0,
            durable: vec![[0, 0]],
            clone_keys: None,
            last_digest: 3,
            last_contents: 0,
        }
    }

    /// The steps that can be next.
    pub(crate) fn next_steps(&self) -> Vec<ModelStep> {
        let mut steps = vec![
            ModelStep::Commit(0),
            ModelStep::Commit(1),
            ModelStep::Fsync(0),
            ModelStep::Fsync(1),
            ModelStep::FsyncInCommit,
            ModelStep::Rotate,
        ];
        if self.clone_keys.is_none() {
            steps.push(ModelStep::Clone);
        }
        steps.extend((0..self.past.len()).map(ModelStep::PutBack));
        steps
    }

    pub(crate) fn take(&mut self, step: ModelStep) {
        self.past.push(self.now.clone());
        self.steps.push(step);
        match step {
            ModelStep::Commit(file) => {
                self.write(file);
                self.commit(&[]);
            }
            ModelStep::Fsync(file) => {
                self.write(file);
                self.log(file);
            }
            ModelStep::FsyncInCommit => {
                let before = self.now.files;
                self.write(0);
                let committed = self.now.files;
                self.write(1);
                // Entry and commit become durable in any order.
                self.durable.push(committed);
                self.durable.push([before[0], self.now.files[1]]);
                self.now.txg += 1;
                let logged = self.log(1);
                let files = std::mem::replace(&mut self.now.files, committed);
                self.now.txg -= 1;
                self.commit(&[logged]);
                self.now.files = files;
            }
            ModelStep::Rotate => self.rotate(),
            ModelStep::Clone => {
                let all: Vec<ModelGeneration> = (1..=self.now.keyring.newest).collect();
                self.clone_keys = Some(ModelKeys {
                    seal: if self.rules.clone_lacks_seal_keys {
                        Vec::new()
                    } else {
                        all.clone()
                    },
                    data: all,
                });
                if self.rules.clone_rotates_origin {
                    self.rotate();
                }
                self.since_clone = self.keyrings.len() - 1;
            }
            ModelStep::PutBack(number) => {
                self.now = self.past[number].clone();
                // The program opens the dataset again.
                if self.rules.open_begins_log {
                    self.now.head.log = self.digest();
                    self.commit(&[]);
                }
            }
        }
        self.durable.push(self.now.files);
    }

    fn digest(&mut self) -> ModelDigest {
        self.last_digest += 1;
        self.last_digest
    }

    fn write(&mut self, file: usize) {
        self.last_contents += 1;
        self.now.files[file] = self.last_contents;
    }

    fn log(&mut self, file: usize) -> Entry {
        let head = &self.now.head;
        let last = self.now.entries.last();
        let entry = Entry {
            log: head.log,
            number: last.map_or(head.first_entry, |last| last.number + 1),
            txg: self.now.txg + 1,
            generation: self.now.keyring.newest,
            file,
            contents: self.now.files[file],
            state: head.seal,
        };
        self.now.entries.push(entry.clone());
        self.entries.push(entry.clone());
        entry
    }

    /// Makes a new head of the files. It contains the log but for the entries that are `kept`.
    fn commit(&mut self, kept: &[Entry]) {
        self.now.txg += 1;
        for file in 0..2 {
            if self.now.records[file].plaintext != self.now.files[file] {
                let record = ModelRecord {
                    generation: self.now.keyring.newest,
                    tag: self.digest(),
                    plaintext: self.now.files[file],
                    is_authentic: true,
                };
                self.records.push(record.clone());
                self.now.records[file] = record;
            }
        }
        let contained = self.now.entries.len() - kept.len();
        let last = self.now.entries[..contained].last();
        let before = &self.now.head;
        let mut head = ModelHead {
            seal: 0,
            generation: self.now.keyring.newest,
            sequence: before.sequence + 1,
            base: self.now.txg,
            log: before.log,
            first_entry: last.map_or(before.first_entry, |last| last.number + 1),
            identities: self
                .now
                .records
                .each_ref()
                .map(|record| identity(self.rules, record)),
            history: before.history.clone(),
        };
        head.history.push(before.seal);
        head.seal = self.digest();
        self.now.entries = kept.to_vec();
        self.now.head = head.clone();
        self.heads.push(head);
    }

    /// Gives the dataset new keys; heads need their seal from now on.
    fn rotate(&mut self) {
        let newest = self.now.keyring.newest + 1;
        self.now.keyring = ModelKeyring {
            newest,
            floor: newest,
        };
        self.keyrings.push(self.now.keyring);
        self.commit(&[]);
    }
}

fn identity(rules: FormatRules, record: &ModelRecord) -> ModelIdentity {
    ModelIdentity {
        generation: record.generation,
        tag: record.tag,
        checksum: rules.identity_has_checksum.then(|| record.clone()),
    }
}
