//! Guarantees of a store, and their outcomes.

use std::fmt;

/// A promise of a store on which a pool relies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreGuarantee {
    /// An object can be read as soon as it is made.
    ReadAfterWrite,
    /// A request to create an object that exists is refused, and changes nothing.
    CreateOnce,
    /// Exactly one of many requests succeeds that create one object at the same time.
    OneWinner,
    /// A list has all objects that were made, in order, and begins where it is told to.
    OrderedList,
    /// A part of an object can be read.
    RangedRead,
    /// An object that was removed is neither read nor listed any more.
    DeleteAtOnce,
    /// The new bytes of an object that was replaced are read at once.
    ReplaceAtOnce,
    /// An object of 8 MiB is stored whole.
    LargeObjects,
}

impl StoreGuarantee {
    /// All of them, in the order of the checks.
    pub const ALL: [StoreGuarantee; 8] = [
        StoreGuarantee::ReadAfterWrite,
        StoreGuarantee::CreateOnce,
        StoreGuarantee::RangedRead,
        StoreGuarantee::LargeObjects,
        StoreGuarantee::OrderedList,
        StoreGuarantee::ReplaceAtOnce,
        StoreGuarantee::DeleteAtOnce,
        StoreGuarantee::OneWinner,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            StoreGuarantee::ReadAfterWrite => "read-after-write",
            StoreGuarantee::CreateOnce => "create-once",
            StoreGuarantee::OneWinner => "one-winner",
            StoreGuarantee::OrderedList => "ordered-list",
            StoreGuarantee::RangedRead => "ranged-read",
            StoreGuarantee::DeleteAtOnce => "delete-at-once",
            StoreGuarantee::ReplaceAtOnce => "replace-at-once",
            StoreGuarantee::LargeObjects => "large-objects",
        }
    }

    /// The loss that a pool has without the guarantee.
    pub fn consequence(self) -> &'static str {
        match self {
            StoreGuarantee::ReadAfterWrite => "an import can miss the last writes",
            StoreGuarantee::CreateOnce | StoreGuarantee::OneWinner => {
                "two machines can write to the pool at the same time and destroy it"
            }
            StoreGuarantee::OrderedList => "an import can miss objects",
            StoreGuarantee::RangedRead => "no data can be read",
            StoreGuarantee::DeleteAtOnce => "old wrapped keys can be read after a change of keys",
            StoreGuarantee::ReplaceAtOnce => "emptied objects can come back with old contents",
            StoreGuarantee::LargeObjects => "no large write succeeds",
        }
    }
}

impl fmt::Display for StoreGuarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuaranteeOutcome {
    /// No check found a violation.
    Holds,
    /// The store breaks the guarantee: a sentence says how.
    Broken(String),
}

/// A guarantee and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuaranteeCheck {
    /// The guarantee.
    pub guarantee: StoreGuarantee,
    /// The outcome of the check.
    pub outcome: GuaranteeOutcome,
}

/// The outcomes of all checks of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeReport {
    /// The checks, in the order in which they were made.
    pub checks: Vec<GuaranteeCheck>,
    /// The names of objects that could not be removed again.
    pub leftovers: Vec<String>,
}

impl ProbeReport {
    /// Returns whether a pool can rely on the store.
    pub fn is_safe(&self) -> bool {
        self.broken().next().is_none()
    }

    /// Iterates over the guarantees that the store breaks, each with the sentence that says how.
    pub fn broken(&self) -> impl Iterator<Item = (StoreGuarantee, &str)> {
        self.checks.iter().filter_map(|check| match &check.outcome {
            GuaranteeOutcome::Broken(how) => Some((check.guarantee, how.as_str())),
            GuaranteeOutcome::Holds => None,
        })
    }
}
