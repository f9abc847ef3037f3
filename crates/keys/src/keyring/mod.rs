//! The keyring of a dataset: all its keys, wrapped, as one blob that is stored and replaced whole.

pub(crate) mod backup;
pub(crate) mod generation;
pub(crate) mod slot;
pub(crate) mod wrapping_key;
pub(crate) mod wrapping_key_access;

use cipher::{Random, Suite};
use zerocopy::{FromBytes, IntoBytes};

use crate::layout::{self, GenerationHead, Header, Trailer, WrappedKey};
use crate::{
    DataKeys, Error, Heads, KeyGeneration, KeyMaterial, KeySlot, Result, SLOTS_MAX, WrappingKey,
    WrappingKeyAccess,
};

/// The most generations of a keyring: a rotation a day for 179 years.
const GENERATIONS_MAX: usize = 1 << 16;

/// The keys of a dataset, wrapped: whose wrapping key, and the generations that it wraps.
///
/// A keyring can always be stored. It has a generation at least. The numbers of generations ascend, and their
/// transaction groups do not descend. The wrapping key that the keyring names wraps all of them. That key has slots
/// with ascending numbers, unless it is inherited. A keyring holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyring {
    family: u64,
    wrapping: WrappingKeyAccess,
    generations: Vec<KeyGeneration>,
}

impl Keyring {
    /// The keyring of these parts.
    ///
    /// # Errors
    /// [`Error::Keyring`] if they do not make a keyring.
    pub fn new(
        family: u64,
        wrapping: WrappingKeyAccess,
        generations: Vec<KeyGeneration>,
    ) -> Result<Keyring> {
        let keyring = Keyring {
            family,
            wrapping,
            generations,
        };
        keyring.check().map_err(Error::Keyring)?;
        Ok(keyring)
    }

    /// The clone family: datasets that share records, and so generations.
    pub fn family(&self) -> u64 {
        self.family
    }

    /// The access to the wrapping key, with the slots.
    pub fn wrapping(&self) -> &WrappingKeyAccess {
        &self.wrapping
    }

    /// The generations, the oldest first. Never empty.
    pub fn generations(&self) -> &[KeyGeneration] {
        &self.generations
    }

    /// The generation with this number.
    pub fn generation(&self, number: u32) -> Option<&KeyGeneration> {
        let found = self
            .generations
            .binary_search_by_key(&number, KeyGeneration::number);
        found.ok().map(|index| &self.generations[index])
    }

    /// The generation that new records are sealed with.
    pub fn newest(&self) -> &KeyGeneration {
        self.generations.last().expect("never empty")
    }

    /// The number of the oldest generation whose seal a head may have. 0: any of them.
    pub fn head_floor(&self) -> u32 {
        let floors = self.generations.iter().map(|g| g.heads().floor(g.number()));
        floors.max().unwrap_or(0)
    }

    /// Returns whether the keyring lacks the generations that seal heads. Then it is of a snapshot from before a
    /// rotation, or they were taken away.
    pub fn seals_no_heads(&self) -> bool {
        self.head_floor() > self.newest().number()
    }

    /// Unlocks the wrapping key; see [`WrappingKeyAccess::unlock`].
    ///
    /// # Errors
    /// As [`WrappingKeyAccess::unlock`].
    pub fn unlock(&self, material: &KeyMaterial) -> Result<WrappingKey> {
        self.wrapping.unlock(material)
    }

    /// Unwraps the keys of every generation, the oldest first.
    ///
    /// # Errors
    /// As [`KeyGeneration::open`].
    pub fn open(&self, key: &WrappingKey) -> Result<Vec<DataKeys>> {
        let open = |generation: &KeyGeneration| generation.open(key, self.family);
        self.generations.iter().map(open).collect()
    }

    /// The keyring with those generations only that this wrapping key opens, and the numbers of the others.
    /// All keys that it holds were made with the wrapping key, but a stream received without a key can bring
    /// forged generations.
    ///
    /// # Errors
    /// As [`KeyGeneration::open`] for the oldest, if none opens; [`Error::Secret`].
    pub fn opened_by(&self, key: &WrappingKey) -> Result<(Keyring, Vec<u32>)> {
        let (mut opened, mut foreign) = (Vec::new(), Vec::new());
        let mut why = None;
        for generation in &self.generations {
            match generation.open(key, self.family) {
                Ok(_) => opened.push(generation.clone()),
                Err(error @ (Error::WrongKey | Error::Damaged(_))) => {
                    foreign.push(generation.number());
                    why.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        match why.filter(|_| opened.is_empty()) {
            Some(error) => Err(error),
            None => {
                let keyring = Keyring::new(self.family, self.wrapping.clone(), opened)?;
                Ok((keyring, foreign))
            }
        }
    }

    /// Takes over changed slots of the same wrapping key.
    ///
    /// # Errors
    /// [`Error::Keyring`] if it is another wrapping key: that takes [`Keyring::rewrap`].
    pub fn set_wrapping(&mut self, wrapping: WrappingKeyAccess) -> Result<()> {
        let generations = self.generations.clone();
        *self = Keyring::new(self.family, wrapping, generations)?;
        Ok(())
    }

    /// Has every generation say what the keyring says: those below [`Keyring::head_floor`] that heads have later
    /// seals. A receive without the key can bring in generations, but cannot change those that are there.
    ///
    /// # Errors
    /// [`Error::WrongKey`] or [`Error::Damaged`] if `key` does not open a generation that has to change.
    pub fn settle_heads(&mut self, key: &WrappingKey) -> Result<()> {
        let floor = self.head_floor();
        for generation in &mut self.generations {
            if generation.number() < floor && generation.heads() != Heads::Later {
                *generation = generation.superseded(self.family, key)?;
            }
        }
        Ok(())
    }

    /// The same keys under another wrapping key.
    ///
    /// # Errors
    /// [`Error::WrongKey`] or [`Error::Damaged`] if `old` does not open every generation;
    /// [`Error::Keyring`] if `wrapping` does not name `new`.
    pub fn rewrap(
        &self,
        old: &WrappingKey,
        wrapping: WrappingKeyAccess,
        new: &WrappingKey,
        random: &dyn Random,
    ) -> Result<Keyring> {
        let rewrap = |generation: &KeyGeneration| generation.rewrap(self.family, old, new, random);
        let generations = self.generations.iter().map(rewrap).collect::<Result<_>>()?;
        let mut keyring = Keyring::new(self.family, wrapping, generations)?;
        keyring.settle_heads(new)?;
        Ok(keyring)
    }

    /// The keyring of a clone: of these generations, those that are no younger than transaction group
    /// `until`, under another wrapping key. So it opens what it shares, and nothing written later. With another key
    /// than the origin's (`is_apart`) it has no seal keys of the origin. If it [seals no
    /// heads](Keyring::seals_no_heads), the clone takes a new generation, by [`Keyring::rotate`].
    ///
    /// # Errors
    /// As [`Keyring::rewrap`]; [`Error::Keyring`] if there was no generation then.
    pub fn for_clone(
        &self,
        (until, is_apart): (u64, bool),
        old: &WrappingKey,
        wrapping: WrappingKeyAccess,
        new: &WrappingKey,
        random: &dyn Random,
    ) -> Result<Keyring> {
        let shared = self.generations.iter().filter(|g| g.txg() <= until);
        let rewrap = |generation: &KeyGeneration| match is_apart {
            true => generation.without_seal(self.family, old, new, random),
            false => generation.rewrap(self.family, old, new, random),
        };
        let generations = shared.map(rewrap).collect::<Result<_>>()?;
        Keyring::new(self.family, wrapping, generations)
    }

    /// The keyring for a stream: the generations no younger than transaction group `until`, unchanged, with the
    /// slots of the key root. No key is needed. If the stream `makes` a dataset and these seal no heads, all
    /// generations go. Otherwise the receiver could not seal the data that it accepts. They also go if none of
    /// these has the key that seals: a later one made the seals then.
    ///
    /// # Errors
    /// [`Error::Keyring`] if there was no generation then, or the slots are those of another wrapping key.
    pub fn for_stream(
        &self,
        until: u64,
        makes: bool,
        slots: &WrappingKeyAccess,
    ) -> Result<Keyring> {
        let sent = self.generations.iter().filter(|g| g.txg() <= until);
        let sent = Keyring::new(self.family, slots.clone(), sent.cloned().collect())?;
        let has_seals = sent.generations.iter().any(KeyGeneration::seals);
        match has_seals && !(makes && sent.seals_no_heads()) {
            true => Ok(sent),
            false => Keyring::new(self.family, slots.clone(), self.generations.clone()),
        }
    }

    /// Adds a generation of new keys, from transaction group `txg` on, and returns them. Heads have its seal from
    /// then on, and all older generations say so.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if `key` is not the wrapping key; [`Error::Keyring`] if `txg` is before
    /// that of the newest generation; otherwise as [`KeyGeneration::create`]. Nothing is changed then.
    pub fn rotate(
        &mut self,
        key: &WrappingKey,
        txg: u64,
        suite: Suite,
        now: u64,
        random: &dyn Random,
    ) -> Result<DataKeys> {
        let after = self.newest().number();
        self.rotate_beyond(after, key, txg, suite, now, random)
    }

    /// Rotates like [`Keyring::rotate`], with a number above `after`. That is no smaller than the newest. So a clone
    /// and its origin do not get generations of the same number in one commit.
    ///
    /// # Errors
    /// As [`Keyring::rotate`].
    pub fn rotate_beyond(
        &mut self,
        after: u32,
        key: &WrappingKey,
        txg: u64,
        suite: Suite,
        now: u64,
        random: &dyn Random,
    ) -> Result<DataKeys> {
        // Opening shows that the key is the right one and not just of the same name.
        self.newest().open(key, self.family)?;
        let number = after.checked_add(1);
        let number = number.ok_or(Error::Keyring("all numbers of generations are used"))?;
        let says = (number, txg, Heads::FromHere);
        let (generation, keys) = KeyGeneration::make(key, self.family, says, suite, now, random)?;
        let mut generations = self.generations.clone();
        generations.push(generation);
        let mut rotated = Keyring::new(self.family, self.wrapping.clone(), generations)?;
        rotated.settle_heads(key)?;
        *self = rotated;
        Ok(keys)
    }

    /// Removes a generation that no record uses any more. The newest stays.
    ///
    /// # Errors
    /// [`Error::NoGeneration`]; [`Error::Keyring`] for the newest.
    pub fn retire(&mut self, number: u32) -> Result<()> {
        if number == self.newest().number() {
            return Err(Error::Keyring(
                "no generation would be left for new records",
            ));
        }
        let mut generations = self.generations.iter();
        let index = generations.position(|generation| generation.number() == number);
        self.generations
            .remove(index.ok_or(Error::NoGeneration(number))?);
        Ok(())
    }

    /// The bytes to store.
    pub fn encode(&self) -> Vec<u8> {
        let slots = self.wrapping.slots();
        let mut out = vec![0; size_of::<Header>()];
        slots.iter().for_each(|slot| slot.encode(&mut out));
        let generations = self.generations.iter();
        generations.for_each(|generation| generation.encode(&mut out));
        let length = out.len() + size_of::<Trailer>();
        let header = Header {
            magic: layout::MAGIC,
            length: u32::try_from(length).expect("bounded by the counts").into(),
            version: self.version().into(),
            wrapping: match self.wrapping {
                WrappingKeyAccess::Own { .. } => layout::WRAPPING_OWN,
                WrappingKeyAccess::Inherited { .. } => layout::WRAPPING_INHERITED,
            },
            slots: u8::try_from(slots.len()).expect("at most SLOTS_MAX"),
            generations: u32::try_from(self.generations.len())
                .expect("at most GENERATIONS_MAX")
                .into(),
            reserved: 0.into(),
            family: self.family.into(),
            wrapping_key: *self.wrapping.id(),
        };
        out[..size_of::<Header>()].copy_from_slice(header.as_bytes());
        let checksum = cipher::hash(&out);
        out.extend_from_slice(Trailer { checksum }.as_bytes());
        out
    }

    /// Programs that know no rule for heads refuse a keyring that has one, and so do programs that know no parts.
    fn version(&self) -> u16 {
        if self.generations.iter().any(KeyGeneration::is_split) {
            return layout::VERSION_SPLIT;
        }
        let says_nothing = |generation: &KeyGeneration| generation.heads() == Heads::Any;
        match self.generations.iter().all(says_nothing) {
            true => layout::VERSION,
            false => layout::VERSION_HEADS,
        }
    }

    /// The keyring that these bytes, and no others, are the encoding of.
    ///
    /// # Errors
    /// [`Error::Damaged`] if they are not what was written; [`Error::TooNew`] or [`Error::Unknown`]
    /// if a later version of the program wrote them.
    pub fn decode(bytes: &[u8]) -> Result<Keyring> {
        let (header, mut bytes) = decode_envelope(bytes)?;
        let slots = usize::from(header.slots);
        let wrapping = match (header.wrapping, slots) {
            (layout::WRAPPING_OWN, 1..=SLOTS_MAX) => WrappingKeyAccess::Own {
                id: header.wrapping_key,
                slots: (0..slots)
                    .map(|_| KeySlot::decode(&mut bytes))
                    .collect::<Result<_>>()?,
            },
            (layout::WRAPPING_INHERITED, 0) => WrappingKeyAccess::Inherited {
                id: header.wrapping_key,
            },
            _ => return Err(Error::Damaged("the kind of wrapping")),
        };
        // Compared before anything is allocated: the count is what the bytes can hold.
        let count = header.generations.get() as usize;
        let shortest = size_of::<GenerationHead>() + size_of::<WrappedKey<64>>();
        if count > bytes.len() / shortest {
            return Err(Error::Damaged("the number of generations"));
        }
        let keyring = Keyring {
            family: header.family.get(),
            wrapping,
            generations: (0..count)
                .map(|_| KeyGeneration::decode(&mut bytes))
                .collect::<Result<_>>()?,
        };
        if !bytes.is_empty() {
            return Err(Error::Damaged("the number of generations"));
        }
        keyring.check().map_err(Error::Damaged)?;
        if keyring.version() != header.version.get() {
            return Err(Error::Damaged("its version"));
        }
        Ok(keyring)
    }

    /// Checks the rules of a keyring; see the type.
    fn check(&self) -> std::result::Result<(), &'static str> {
        if let WrappingKeyAccess::Own { slots, .. } = &self.wrapping {
            if !(1..=SLOTS_MAX).contains(&slots.len()) {
                return Err("the number of key slots");
            }
            if !slots.is_sorted_by(|a, b| a.number() < b.number()) {
                return Err("the order of the key slots");
            }
        }
        if !(1..=GENERATIONS_MAX).contains(&self.generations.len()) {
            return Err("the number of generations");
        }
        let ascends =
            |a: &KeyGeneration, b: &KeyGeneration| a.number() < b.number() && a.txg() <= b.txg();
        if !self.generations.is_sorted_by(ascends) {
            return Err("the order of the generations");
        }
        let id = self.wrapping.id();
        if self
            .generations
            .iter()
            .any(|generation| generation.wrapping_key() != id)
        {
            return Err("a generation is wrapped by another key");
        }
        Ok(())
    }
}

/// Checks what is the same in every version, then the version; returns the header and what is
/// between it and the trailer.
fn decode_envelope(bytes: &[u8]) -> Result<(Header, &[u8])> {
    let too_short = || Error::Damaged("it is too short");
    let (content, trailer) = Trailer::read_from_suffix(bytes).map_err(|_| too_short())?;
    let mut rest = content;
    let header: Header = layout::take(&mut rest).ok_or_else(too_short)?;
    if header.magic != layout::MAGIC {
        return Err(Error::Damaged("it does not begin as one"));
    }
    if usize::try_from(header.length.get()) != Ok(bytes.len()) {
        return Err(Error::Damaged("its length"));
    }
    if cipher::hash(content) != trailer.checksum {
        return Err(Error::Damaged("its checksum"));
    }
    match header.version.get() {
        layout::VERSION..=layout::VERSION_SPLIT => {}
        0 => return Err(Error::Damaged("its version")),
        version => return Err(Error::TooNew { version }),
    }
    if header.reserved.get() != 0 {
        return Err(Error::Damaged("its header"));
    }
    Ok((header, rest))
}
