//! Groups with parity: which columns are read, and what each of them gets.
//!
//! A *way* of reading is a set of columns to do without; what they hold is got back from the parity.
//! Missing columns are in all of them. The others are tried one after the other until the reader
//! accepts the result. Nothing here says which column is wrong. Of a column that two
//! members hold, while one takes the other's place, both are tried.

use std::borrow::Cow;
use std::io::IoSlice;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::group::member::Member;
use crate::group::mirror::{Group, Groups, StoreLayout, units_of};
use crate::layout::parity_code::{parity_of, restore};
use crate::layout::shape::{GroupStripe, Shape, StripePart};
use crate::{Error, MemberState, Result, SegmentId, UNIT};

/// A set of columns, a bit for each.
type Columns = u32;

/// More ways to choose between members that hold the same column are not tried.
const CHOICES_MAX: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadWay {
    without: Columns,
    /// The members that are read where several hold a column.
    choice: usize,
}

impl ReadWay {
    fn leaves_out(&self, column: usize) -> bool {
        self.without & 1 << column != 0
    }

    /// Chooses the member of each column that is read. The numbers of columns with
    /// one do not matter.
    fn choose(&self, counts: &[usize]) -> Vec<usize> {
        let mut rest = self.choice;
        let choose = |count: &usize| {
            let count = (*count).max(1);
            let chosen = rest % count;
            rest /= count;
            chosen
        };
        counts.iter().map(choose).collect()
    }
}

/// The share of a column: the first row, and the bytes from there on.
type ColumnShare<'a> = (u64, Cow<'a, [u8]>);

impl Group {
    /// The members of a column that can be read, the best first.
    fn readers_of(&self, column: usize) -> impl Iterator<Item = &Arc<Member>> {
        self.readers()
            .filter(move |member| member.column() == column)
    }

    fn reader_counts(&self) -> Vec<usize> {
        let columns = 0..self.shape().columns();
        columns
            .map(|column| self.readers_of(column).count())
            .collect()
    }

    /// All ways to read, those first that trust no member that lacks something, and of these the
    /// ones that do without few. None if too much is missing.
    pub(crate) fn ways(&self) -> Vec<ReadWay> {
        let (missing, stale) = self.incomplete();
        ways_without(self.shape(), missing, stale, &self.reader_counts())
    }

    /// The columns that cannot be read, and those of which every member lacks something.
    fn incomplete(&self) -> (Columns, Columns) {
        let (mut missing, mut stale) = (0, 0);
        for column in 0..self.shape().columns() {
            match self.readers_of(column).next().map(|member| member.state()) {
                None => missing |= 1 << column,
                Some(MemberState::Online) => {}
                Some(_) => stale |= 1 << column,
            }
        }
        (missing, stale)
    }

    /// Returns whether the way that is tried `nth` reads only members that hold everything.
    pub(crate) fn is_trusted_way(&self, nth: usize) -> bool {
        let (_, stale) = self.incomplete();
        // The first choice are those members.
        self.way(nth)
            .is_some_and(|way| way.choice == 0 && stale & !way.without == 0)
    }

    /// The way that is tried `nth`, modulo their number.
    pub(crate) fn way(&self, nth: usize) -> Option<ReadWay> {
        let is_online = |member: &Arc<Member>| member.state() == MemberState::Online;
        let mut columns = 0..self.shape().columns();
        if nth == 0 && columns.all(|column| self.readers_of(column).any(is_online)) {
            return Some(ReadWay::default());
        }
        let ways = self.ways();
        ways.get(nth.checked_rem(ways.len())?).copied()
    }

    /// The first way that reads only members that hold everything and are not slow.
    pub(crate) fn prompt_way(&self) -> Option<ReadWay> {
        let (missing, stale) = self.incomplete();
        let columns = 0..self.shape().columns();
        let is_slow = |column: &usize| {
            self.readers_of(*column)
                .next()
                .is_some_and(|member| member.pace().is_slow())
        };
        let avoided = columns
            .filter(is_slow)
            .fold(missing | stale, |all, n| all | 1 << n);
        if avoided == 0 {
            return Some(ReadWay::default());
        }
        let ways = self.ways().into_iter();
        let mut good = ways.filter(|way| way.choice == 0 && avoided & !way.without == 0);
        good.next()
    }

    /// Reads a stripe in one way, from each member by `ask`.
    pub(crate) fn read_way(
        &self,
        way: ReadWay,
        segment: SegmentId,
        offset: u32,
        buf: &mut [u8],
        ask: fn(&Member, u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let stripe = self.stripe(segment, offset, buf.len());
        let chosen = match way.choice {
            0 => vec![0; self.shape().columns()],
            _ => way.choose(&self.reader_counts()),
        };
        let read = |part: &StripePart, buf: &mut [u8]| {
            let none = Error::NoMember {
                group: segment.group(),
            };
            let mut readers = self.readers_of(part.column);
            let member = readers.nth(chosen[part.column]).ok_or(none)?;
            ask(member, member.row(part.row), buf)
        };
        let all_there = !stripe.data().iter().any(|part| way.leaves_out(part.column));
        if all_there && buf.len().is_multiple_of(UNIT as usize) {
            let mut data = stripe.data().iter();
            return data.try_for_each(|part| read(part, &mut buf[part.bytes()]));
        }
        let mut lacking = 0;
        let mut found = vec![None; stripe.parts.len()];
        let (parity, data) = found.split_at_mut(stripe.parity().len());
        for (part, found) in stripe.data().iter().zip(&mut *data) {
            if way.leaves_out(part.column) {
                lacking += 1;
                continue;
            }
            read(part, found.insert(vec![0; part.len()]))?;
        }
        for (part, found) in stripe.parity().iter().zip(&mut *parity) {
            if lacking > 0 && !way.leaves_out(part.column) {
                read(part, found.insert(vec![0; part.len()]))?;
                lacking -= 1;
            }
        }
        match gather(&stripe, found, buf) {
            true => Ok(()),
            false => Err(Error::NoMember {
                group: segment.group(),
            }),
        }
    }

    pub(crate) fn stripe(&self, segment: SegmentId, offset: u32, len: usize) -> GroupStripe {
        self.shape()
            .stripe(self.unit(segment, offset), units_of(len))
    }

    /// Writes stripes that lie one behind the other, with their parity, to all members that are written
    /// to, by `act`, which gets a member, a byte of it and what goes there.
    pub(crate) fn write_stripes(
        &self,
        segment: SegmentId,
        offset: u32,
        stripes: &[&[u8]],
        mut act: impl FnMut(&Arc<Member>, u64, &[IoSlice<'_>]),
    ) {
        let shares = self.share(segment, offset, stripes);
        for member in self.members.iter().filter(|member| member.is_active()) {
            let mut rest = &shares[member.column()][..];
            while let Some((first, _)) = rest.first() {
                let mut row = *first;
                let follows = |(at, bytes): &&ColumnShare<'_>| {
                    let is_next = *at == row;
                    row += u64::from(units_of(bytes.len()));
                    is_next
                };
                let count = rest.iter().take_while(follows).count();
                let (run, behind) = rest.split_at(count);
                let pieces: Vec<IoSlice<'_>> =
                    run.iter().map(|(_, bytes)| IoSlice::new(bytes)).collect();
                act(member, member.row(*first), &pieces);
                rest = behind;
            }
        }
    }

    /// Returns the share of each column in some stripes, in the order of its rows.
    fn share<'a>(
        &self,
        segment: SegmentId,
        offset: u32,
        stripes: &[&'a [u8]],
    ) -> Vec<Vec<ColumnShare<'a>>> {
        let shape = self.shape();
        let mut shares = vec![Vec::new(); shape.columns()];
        let mut at = self.unit(segment, offset);
        for bytes in stripes {
            let units = units_of(bytes.len());
            let stripe = shape.stripe(at, units);
            for (part, bytes) in stripe.parts.iter().zip(contents(&stripe, bytes)) {
                shares[part.column].push((part.row, bytes));
            }
            at += u64::from(shape.taken(units));
        }
        shares
    }
}

/// The ways of reading a group of which some columns are missing and others lack something. `members`
/// says how many can be read of each column.
fn ways_without(shape: Shape, missing: Columns, stale: Columns, members: &[usize]) -> Vec<ReadWay> {
    let Some(spare) = shape.parity().checked_sub(missing.count_ones() as usize) else {
        return Vec::new();
    };
    let there = (0..shape.columns()).map(|n| 1 << n);
    let there: Vec<Columns> = there.filter(|bit| missing & bit == 0).collect();
    let mut sets = vec![missing];
    for _ in 0..spare {
        let more = |set: &Columns| there.iter().map(|bit| set | bit).collect::<Vec<_>>();
        let larger: Vec<Columns> = sets.iter().flat_map(more).collect();
        sets.extend(larger);
        sets.sort_unstable();
        sets.dedup();
    }
    sets.sort_unstable_by_key(|set| ((stale & !set).count_ones(), set.count_ones(), *set));
    let choices: usize = members.iter().map(|count| (*count).max(1)).product();
    let choices = 0..choices.min(CHOICES_MAX);
    let ways = choices.flat_map(|choice| sets.iter().map(move |without| (*without, choice)));
    ways.map(|(without, choice)| ReadWay { without, choice })
        .collect()
}

/// Returns the contents of the parts of a stripe, parity first. The last unit is filled up with zeros.
fn contents<'a>(stripe: &GroupStripe, data: &'a [u8]) -> Vec<Cow<'a, [u8]>> {
    let part = |range: std::ops::Range<usize>| match data.get(range.clone()) {
        Some(bytes) => Cow::Borrowed(bytes),
        None => {
            let mut bytes = data.get(range.start..).unwrap_or_default().to_vec();
            bytes.resize(range.len(), 0);
            Cow::Owned(bytes)
        }
    };
    let data: Vec<Cow<'a, [u8]>> = stripe.data().iter().map(|p| part(p.bytes())).collect();
    let slices: Vec<&[u8]> = data.iter().map(|bytes| &bytes[..]).collect();
    let parity = parity_of(&slices, stripe.parity().len());
    parity.into_iter().map(Cow::Owned).chain(data).collect()
}

/// Puts together what was found of the parts of a stripe, parity first. False if it is too little.
fn gather(stripe: &GroupStripe, mut found: Vec<Option<Vec<u8>>>, buf: &mut [u8]) -> bool {
    let mut data = found.split_off(stripe.parity().len());
    let lens: Vec<usize> = stripe.data().iter().map(|part| part.len()).collect();
    if !restore(&mut data, &lens, &found) {
        return false;
    }
    for (part, bytes) in stripe.data().iter().zip(data.iter().flatten()) {
        let end = part.bytes().end.min(buf.len());
        if let Some(buf) = buf.get_mut(part.bytes().start..end) {
            buf.copy_from_slice(&bytes[..buf.len()]);
        }
    }
    true
}

/// The bytes of all members of a group at an address, as far as they could be read.
pub struct ColumnParts {
    stripe: GroupStripe,
    len: usize,
    /// The guid of each member, the number of its part, and the bytes.
    found: Vec<(u64, usize, Option<Vec<u8>>)>,
    /// The number of readable copies of each column.
    counts: Vec<usize>,
    /// The ways to put the columns together, with parity.
    ways: Vec<ReadWay>,
}

impl ColumnParts {
    /// Reads the parts of a place on the members in a state. One that does not answer, and can be done without, is
    /// faulted: who examines a pool must not keep its commits waiting.
    pub(crate) fn read(
        (groups, layout): (&Groups, &StoreLayout),
        group: &Group,
        (segment, offset): (SegmentId, u32),
        len: usize,
        state: MemberState,
    ) -> ColumnParts {
        let stripe = group.stripe(segment, offset, len);
        let members = group.members.iter().filter(|m| m.state() == state);
        let (mut numbers, mut tasks) = (Vec::new(), Vec::new());
        for member in members {
            let mut parts = stripe.parts.iter();
            if let Some(number) = parts.position(|p| p.column == member.column()) {
                let part = &stripe.parts[number];
                numbers.push(number);
                let buf = Mutex::new(vec![0; part.len()]);
                tasks.push((Arc::clone(member), Arc::new((member.row(part.row), buf))));
            }
        }
        let read = |member: &Member, (at, buf): &(u64, Mutex<Vec<u8>>)| {
            // Not under a lock that the caller waits for: it may give up.
            let mut bytes = std::mem::take(&mut *buf.lock());
            member.read(*at, &mut bytes)?;
            *buf.lock() = bytes;
            Ok(())
        };
        let outcomes = groups.on_some(layout, &tasks, read);
        let mut found = Vec::new();
        for ((outcome, (member, task)), number) in outcomes.iter().zip(&tasks).zip(numbers) {
            if let Some(outcome) = outcome {
                let bytes = std::mem::take(&mut *task.1.lock());
                found.push((member.guid(), number, outcome.is_ok().then_some(bytes)));
            }
        }
        let mut counts = vec![0; group.shape().columns()];
        for (_, number, bytes) in &found {
            counts[stripe.parts[*number].column] += usize::from(bytes.is_some());
        }
        let missing = stripe.parts.iter().filter(|part| counts[part.column] == 0);
        let missing = missing.fold(0, |all, part| all | 1 << part.column);
        let ways = match group.shape().has_parity() {
            true => ways_without(group.shape(), missing, 0, &counts),
            false => Vec::new(),
        };
        ColumnParts {
            stripe,
            len,
            found,
            counts,
            ways,
        }
    }

    /// Returns the number of bytes that were read or attempted.
    pub fn bytes(&self) -> usize {
        let parts = self.found.iter();
        parts
            .map(|(_, number, _)| self.stripe.parts[*number].len())
            .sum()
    }

    /// In how many ways they can be put together.
    pub fn ways(&self) -> usize {
        match self.stripe.parity().is_empty() {
            true => self.found.len(),
            false => self.ways.len(),
        }
    }

    /// Returns the data that this way gives, if it gives any.
    pub fn whole(&self, way: usize) -> Option<Vec<u8>> {
        if self.stripe.parity().is_empty() {
            let (_, _, bytes) = self.found.get(way)?;
            let mut bytes = bytes.clone()?;
            bytes.truncate(self.len);
            return Some(bytes);
        }
        let way = self.ways.get(way)?;
        let mut chosen = way.choose(&self.counts);
        let mut parts = vec![None; self.stripe.parts.len()];
        for (_, number, bytes) in &self.found {
            let column = self.stripe.parts[*number].column;
            if bytes.is_none() || way.leaves_out(column) {
                continue;
            }
            if chosen[column] == 0 {
                parts[*number].clone_from(bytes);
            }
            chosen[column] = chosen[column].wrapping_sub(1);
        }
        let mut buf = vec![0; self.len];
        gather(&self.stripe, parts, &mut buf).then_some(buf)
    }

    /// The members that hold something else than their part of `good`, or could not be read.
    pub fn bad(&self, good: &[u8]) -> Vec<u64> {
        let expected = contents(&self.stripe, good);
        let differs = |(_, number, bytes): &&(u64, usize, Option<Vec<u8>>)| {
            bytes.as_deref() != Some(&expected[*number][..])
        };
        let bad = self.found.iter().filter(differs);
        bad.map(|(guid, _, _)| *guid).collect()
    }

    /// The members that were read.
    pub fn members(&self) -> impl Iterator<Item = u64> {
        let read = self.found.iter().filter(|(_, _, bytes)| bytes.is_some());
        read.map(|(guid, _, _)| *guid)
    }

    /// Returns whether a member was read.
    pub fn was_read(&self, guid: u64) -> bool {
        self.members().any(|member| member == guid)
    }
}

/// Returns the bytes that a member holds of such contents, and their offset.
pub(crate) fn part_of<'a>(
    group: &Group,
    member: &Member,
    segment: SegmentId,
    offset: u32,
    whole: &'a [u8],
) -> Option<(u64, Cow<'a, [u8]>)> {
    let stripe = group.stripe(segment, offset, whole.len());
    let number = stripe
        .parts
        .iter()
        .position(|p| p.column == member.column())?;
    let bytes = contents(&stripe, whole).swap_remove(number);
    Some((member.row(stripe.parts[number].row), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_begin_with_those_that_trust_no_stale_column() {
        let ways = |columns, parity, missing, stale| {
            let shape = Shape::new(columns, parity).unwrap();
            let ways = ways_without(shape, missing, stale, &vec![1; columns]);
            ways.into_iter().map(|way| way.without).collect::<Vec<_>>()
        };
        assert_eq!(ways(3, 1, 0, 0), [0, 1, 2, 4]);
        assert_eq!(ways(3, 1, 2, 0), [2]);
        assert_eq!(ways(3, 1, 0, 4), [4, 0, 1, 2]);
        assert!(ways(3, 1, 3, 0).is_empty());
        assert_eq!(ways(4, 2, 0, 0).len(), 1 + 4 + 6);
        assert_eq!(ways(4, 2, 1, 2), [3, 1, 5, 9]);
        assert_eq!(ways(32, 2, 0, 0).len(), 1 + 32 + 31 * 16);
        assert_eq!(ways(4, 3, 0, 0).len(), 1 + 4 + 6 + 4);
        assert_eq!(ways(32, 3, 0, 0).len(), 1 + 32 + 31 * 16 + 32 * 31 * 5);
    }

    #[test]
    fn every_member_of_a_column_is_chosen() {
        let counts = [2, 1, 3, 0];
        let ways = ways_without(Shape::new(4, 1).unwrap(), 8, 0, &counts);
        let chosen: Vec<_> = ways.iter().map(|way| way.choose(&counts)).collect();
        assert_eq!(chosen.len(), 6);
        assert_eq!(
            (&chosen[0][..], &chosen[5][..]),
            (&[0; 4][..], &[1, 0, 2, 0][..])
        );
    }
}
