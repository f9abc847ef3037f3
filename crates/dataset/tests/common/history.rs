//! The states that a file system may have after it went out of use without being closed.

use std::collections::BTreeMap;

use vfs::Kind;

use super::model::{Id, Model, Picture};

/// A state that was there once.
#[derive(Clone)]
struct Moment {
    model: Model,
    /// True if the operation before it took several steps.
    took_steps: bool,
    /// The files that were durable from then on.
    synced: Option<Synced>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    All,
    /// Names, owners and the like.
    Names,
    /// The names, and the contents of a file.
    File(Id),
}

/// The states since the last one that was durable as a whole, which is the first.
#[derive(Clone)]
pub struct History(Vec<Moment>);

impl History {
    pub fn new(model: Model) -> History {
        let first = Moment {
            model,
            took_steps: false,
            synced: None,
        };
        History(vec![first])
    }

    /// The present, if nothing happens.
    pub fn now(&self) -> &Model {
        &self.0.last().expect("never empty").model
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is any doubt.
    pub fn is_settled(&self) -> bool {
        self.0.len() == 1
    }

    pub fn push(&mut self, model: Model, took_steps: bool) {
        self.0.push(Moment {
            model,
            took_steps,
            synced: None,
        });
    }

    /// Notes that something of the present is durable.
    pub fn mark(&mut self, synced: Synced) {
        let model = self.now().clone();
        self.0.push(Moment {
            model,
            took_steps: false,
            synced: Some(synced),
        });
    }

    /// All of the present is committed.
    pub fn committed(&mut self) {
        self.0.drain(..self.0.len() - 1);
    }

    /// Returns the states that the arrays may hold, without the logged changes.
    pub fn without_log(&self) -> History {
        let mut history = self.clone();
        for moment in &mut history.0 {
            moment.synced = None;
        }
        history
    }

    /// Adds the states of another.
    pub fn or(&mut self, other: &History) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Returns the state that was found; `None` if it is none of them. Where nothing was logged it is one of them.
    /// Otherwise names are those of one moment, of the last sync or later, and what each file holds
    /// is of a moment since it was synced itself.
    pub fn settle(&self, found: &Picture) -> Option<Model> {
        let mut moments = self.0.iter().rev();
        if let Some(same) = moments.find(|moment| moment.model.is_seen_as(found)) {
            let after = self.0.iter().rposition(|moment| moment.synced.is_some());
            if after.is_none() || self.0.len() == 1 {
                return Some(same.model.clone());
            }
        }
        let from = self.durable(|_| true);
        (from..self.0.len())
            .rev()
            .find_map(|n| self.mixture(n, found))
    }

    /// The last moment when something was synced.
    fn durable(&self, what: impl Fn(Synced) -> bool) -> usize {
        let is_it = |moment: &Moment| moment.synced.is_some_and(&what);
        self.0.iter().rposition(is_it).unwrap_or(0)
    }

    /// The names of a moment, with contents as they were found, if these can be.
    fn mixture(&self, n: usize, found: &Picture) -> Option<Model> {
        let mut model = self.0[n].model.clone();
        let paths = model.paths();
        if paths.len() != found.len() {
            return None;
        }
        for (id, path) in &paths {
            let (node, seen) = (&model.nodes[id], found.get(path)?);
            if (node.kind, node.nlink) != (seen.kind, seen.nlink) {
                return None;
            }
        }
        let files: BTreeMap<Id, &Vec<u8>> = paths.iter().map(|(id, path)| (*id, path)).collect();
        for (id, path) in files {
            let seen = &found[path];
            let since = match seen.kind {
                Kind::File => self.durable(|s| s == Synced::All || s == Synced::File(id)),
                _ => self.durable(|_| true),
            };
            let moments = &self.0[since..];
            let states = || {
                moments
                    .iter()
                    .filter_map(|moment| moment.model.nodes.get(&id))
            };
            let is_possible = states().any(|node| node.mode == seen.mode)
                && states().any(|node| node.xattrs == seen.xattrs)
                && held(moments, id, &seen.contents);
            if !is_possible {
                return None;
            }
            let node = model.node_mut(id);
            node.mode = seen.mode;
            node.xattrs = seen.xattrs.clone();
            node.contents = seen.contents.clone();
        }
        Some(model)
    }
}

/// Returns whether a file held this at one of these moments, or between two of them.
fn held(moments: &[Moment], id: Id, contents: &[u8]) -> bool {
    let states = || {
        let nodes = moments
            .iter()
            .filter_map(|moment| moment.model.nodes.get(&id));
        nodes.map(|node| node.contents.as_slice())
    };
    states().any(|state| state == contents)
        || moments.iter().any(|moment| moment.took_steps)
            && is_between(states().collect::<Vec<_>>().as_slice(), contents)
}

/// Returns whether contents are put together from parts of others.
pub fn is_between(states: &[&[u8]], contents: &[u8]) -> bool {
    const PART: usize = 512;
    let zeros = [0; PART];
    let part_of = |state: &[u8], n: usize, len: usize| -> Vec<u8> {
        let mut part = state.get(n * PART..).unwrap_or_default().to_vec();
        part.resize(part.len().max(len), 0);
        part.truncate(len);
        part
    };
    let sizes = || states.iter().map(|state| state.len());
    (sizes().min()..=sizes().max()).contains(&Some(contents.len()))
        && contents.chunks(PART).enumerate().all(|(n, part)| {
            part == &zeros[..part.len()]
                || states
                    .iter()
                    .any(|state| part_of(state, n, part.len()) == part)
        })
}
