//! The next part of a re-encryption, and the segments that describe the data then.

use super::course::{Course, DataExtent, DataPart, State};
use super::state::ReencryptionState;

impl ReencryptionState {
    /// Returns the next part when `done` of `total` bytes are new. Its length is at most `longest`.
    pub(crate) fn next(&self, total: u64, done: u64, longest: u64) -> DataPart {
        let (left, first) = (total.saturating_sub(done), self.moved_len());
        let rest = left.saturating_sub(first);
        if self.moved.is_some() && rest == 0 {
            return DataPart {
                at: 0,
                len: left,
                is_moved: true,
            };
        }
        let len = longest.min(rest);
        let at = match self.course {
            Course::Forward => done,
            Course::Backward | Course::Up => left - len,
            Course::Down => first + done,
        };
        DataPart {
            at,
            len,
            is_moved: false,
        }
    }

    /// Returns the segments of a header when `done` of `total` bytes are new, and a part is hot.
    pub(crate) fn layout(&self, total: u64, done: u64, hot: Option<&DataPart>) -> Vec<DataExtent> {
        let hot_len = hot.map_or(0, |hot| hot.len);
        let left = total.saturating_sub(done + hot_len);
        let first = self.moved_len();
        let rest = left.saturating_sub(first);
        let is_in_order = left >= first && left > 0;
        use State::{Hot, Moved, New, Old};
        let parts = match self.course {
            Course::Forward => vec![
                (New, 0, done),
                (Hot, done, hot_len),
                (Old, done + hot_len, left),
            ],
            Course::Backward => vec![
                (Old, 0, left),
                (Hot, left, hot_len),
                (New, left + hot_len, done),
            ],
            // The moved part is hot, or nothing is left.
            Course::Up | Course::Down if !is_in_order => {
                vec![(Hot, 0, hot_len), (New, hot_len, done)]
            }
            Course::Up => vec![
                (Moved, 0, first),
                (Old, first, rest),
                (Hot, left, hot_len),
                (New, left + hot_len, done),
            ],
            Course::Down => vec![
                (Moved, 0, first),
                (New, first, done),
                (Hot, first + done, hot_len),
                (Old, first + done + hot_len, rest),
            ],
        };
        let mut layout: Vec<DataExtent> = parts
            .into_iter()
            .filter(|(_, _, len)| *len > 0)
            .map(|(state, at, len)| DataExtent {
                state,
                at,
                len: Some(len),
            })
            .collect();
        let ends_with_device = match self.course {
            Course::Forward | Course::Backward | Course::Down => {
                self.limit.is_none() && self.old.segment.len.is_none()
            }
            Course::Up => done >= total && self.new.segment.len.is_none(),
        };
        if let Some(last) = layout
            .last_mut()
            .filter(|of| of.state != Hot && ends_with_device)
        {
            last.len = None;
        }
        layout
    }
}
