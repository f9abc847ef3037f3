//! Checkpoints: the pool goes back to a moment, or not.

use pool::{AtCheckpoint, Pool};

use crate::common::origin;
use crate::model::world::World;
use crate::sim::Sim;

/// The known facts about the checkpoint of the pool.
#[derive(Default)]
pub struct Kept {
    /// The world when the checkpoint was made.
    world: Option<World>,
    /// The world when a checkpoint was made that may not be there.
    maybe: Option<World>,
    /// A command that would end it was cut short.
    ending: Option<Ending>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Discard,
    Rewind,
}

/// Returns whether a command was refused because there is a checkpoint.
pub fn is_refusal(error: &pool::Error) -> bool {
    matches!(error, pool::Error::Refused { .. }) && error.to_string().contains("pool checkpoint -d")
}

impl Sim {
    pub fn checkpoint_step(&mut self) {
        match self.kept.world.is_some() {
            false => self.make_checkpoint(),
            true if self.dice.below(3) == 0 => self.discard_checkpoint(),
            true => {}
        }
    }

    fn make_checkpoint(&mut self) {
        self.say("make a checkpoint");
        let made = self.pool().make_checkpoint(&origin());
        if let Err(error @ pool::Error::Refused { .. }) = &made {
            // A device lacks data, a group leaves, or a log waits for its key.
            return self.say(format!("   {error}"));
        }
        let is_made = self.survive(made).is_some();
        if is_made {
            self.committed();
            self.kept.world = Some(self.world.clone());
        } else if self.is_over {
            let mut world = self.world.clone();
            world.committed(|guid| self.mounted.contains_key(&guid));
            self.kept.maybe = Some(world);
        }
    }

    pub fn discard_checkpoint(&mut self) {
        self.say("discard the checkpoint");
        self.kept.ending = Some(Ending::Discard);
        let discarded = self.pool().discard_checkpoint(&origin());
        if self.survive(discarded).is_some() {
            self.committed();
            self.kept = Kept::default();
        }
    }

    pub fn has_checkpoint(&self) -> bool {
        self.kept.world.is_some()
    }

    /// Returns the treatment of the checkpoint by the next import.
    pub fn at_checkpoint(&mut self) -> AtCheckpoint {
        if self.kept.world.is_none() || self.dice.below(4) > 0 {
            return AtCheckpoint::Keep;
        }
        self.say("go back to the checkpoint");
        self.kept.ending = Some(Ending::Rewind);
        AtCheckpoint::Rewind
    }

    /// Compares what is known of it with the pool that was imported. True if the pool went back to it.
    pub fn find_checkpoint(&mut self, pool: &Pool) -> bool {
        let Kept {
            world,
            maybe,
            ending,
        } = std::mem::take(&mut self.kept);
        if pool.checkpoint_info().is_some() {
            self.kept.world = world.or(maybe);
            assert!(self.has_checkpoint(), "there is a checkpoint");
            return false;
        }
        match (world, ending) {
            (None, _) | (Some(_), Some(Ending::Discard)) => false,
            (Some(mut world), Some(Ending::Rewind)) => {
                world.caches.clone_from(&self.world.caches);
                self.world = world;
                true
            }
            (Some(_), None) => panic!("the checkpoint is lost"),
        }
    }
}
