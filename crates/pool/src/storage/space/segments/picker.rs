//! Chooses the segment for the next allocation.
//!
//! Records of one class share segments. The allocator fills segments that are at least half free before it begins an
//! empty one, and low segments before high ones. So a pool in a sparse file stays small as long as possible. On a log
//! empty segments come first: there free space costs nothing, and what is written together stays together.

use crate::format::records::extent::Class;

/// The facts about a segment that the allocator knows without its bitmap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    /// The class of the segment; `None` while it is empty.
    pub(crate) class: Option<Class>,
    /// The number of taken units.
    pub(crate) taken: u32,
    /// No free run is longer than this.
    pub(crate) longest: u32,
}

impl Summary {
    /// An empty segment of `units` units.
    pub(crate) fn empty(units: u32) -> Summary {
        Summary {
            class: None,
            taken: 0,
            longest: units,
        }
    }

    /// An empty segment in which nothing is placed yet.
    pub(crate) fn unopened() -> Summary {
        Summary::empty(0)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct SegmentSearch {
    /// The class of the record.
    pub(crate) class: Class,
    /// The units that it takes.
    pub(crate) units: u32,
    /// The units of a segment.
    pub(crate) capacity: u32,
    /// A segment that is not chosen.
    pub(crate) barred: Option<u32>,
    /// True on a log.
    pub(crate) is_log: bool,
}

/// The best segment of a group, by its index.
pub(crate) fn pick(segments: &[Summary], wanted: &SegmentSearch) -> Option<u32> {
    let &SegmentSearch {
        class,
        units,
        capacity,
        barred,
        is_log,
    } = wanted;
    let own = |s: &Summary| s.class == Some(class);
    let empty = |s: &Summary| s.class.is_none();
    let other = |s: &Summary| s.class.is_some() && s.class != Some(Class::System);
    let half_free = |s: &Summary| own(s) && capacity - s.taken >= capacity / 2;
    let fits = |s: &Summary| s.longest.min(capacity - s.taken) >= units;
    let search = |wanted: &dyn Fn(&Summary) -> bool| first(segments, barred, &fits, wanted);
    if class == Class::System {
        // Chosen when the pool was made: the table says which they are.
        return emptiest(segments, barred, &fits, &own);
    }
    let (before, after): (Test<'_>, Test<'_>) = match is_log {
        true => (&empty, &half_free),
        false => (&half_free, &empty),
    };
    search(before)
        .or_else(|| search(after))
        .or_else(|| emptiest(segments, barred, &fits, &own))
        .or_else(|| emptiest(segments, barred, &fits, &other))
}

type Test<'a> = &'a dyn Fn(&Summary) -> bool;

fn candidates<'a>(
    segments: &'a [Summary],
    barred: Option<u32>,
    fits: Test<'a>,
    wanted: Test<'a>,
) -> impl Iterator<Item = (u32, &'a Summary)> {
    segments
        .iter()
        .enumerate()
        .map(|(index, summary)| (index as u32, summary))
        .filter(move |(index, s)| Some(*index) != barred && wanted(s) && fits(s))
}

fn first(segments: &[Summary], barred: Option<u32>, fits: Test, wanted: Test) -> Option<u32> {
    candidates(segments, barred, fits, wanted)
        .next()
        .map(|(index, _)| index)
}

fn emptiest(segments: &[Summary], barred: Option<u32>, fits: Test, wanted: Test) -> Option<u32> {
    candidates(segments, barred, fits, wanted)
        .min_by_key(|(_, summary)| summary.taken)
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(class: Option<Class>, taken: u32) -> Summary {
        Summary {
            class,
            taken,
            longest: u32::MAX,
        }
    }

    #[test]
    fn preferences() {
        let data = Some(Class::Data);
        let mut segments = vec![
            segment(Some(Class::System), 0),
            segment(Some(Class::Meta), 10),
            segment(data, 90),
            segment(data, 80),
            segment(None, 0),
            segment(data, 40),
        ];
        let search = |class, units, barred, is_log| SegmentSearch {
            class,
            units,
            capacity: 100,
            barred,
            is_log,
        };
        let pick_data = |s: &[Summary], units| pick(s, &search(Class::Data, units, None, false));
        let pick_system = |s: &[Summary]| pick(s, &search(Class::System, 100, None, false));
        assert_eq!(pick_data(&segments, 30), Some(5), "half free");
        assert_eq!(pick_data(&segments, 61), Some(4), "empty");
        assert_eq!(
            pick(&segments, &search(Class::Data, 30, Some(5), false)),
            Some(4),
            "barred"
        );
        let on_log = search(Class::Data, 30, None, true);
        assert_eq!(pick(&segments, &on_log), Some(4), "empty, on a log");
        segments[4].class = Some(Class::Meta);
        segments[4].taken = 99;
        segments[5].longest = 7;
        assert_eq!(
            pick_data(&segments, 8),
            Some(3),
            "the emptiest of its class"
        );
        assert_eq!(
            pick_data(&segments, 25),
            Some(1),
            "another class, never system"
        );
        assert_eq!(pick_data(&segments, 91), None);
        assert_eq!(pick_system(&segments), Some(0));
        segments[0].taken = 1;
        segments[4].class = None;
        assert_eq!(pick_system(&segments), None);
    }
}
