//! Lists in pages. A token names the last entry of the page before, so entries that come or go meanwhile do no harm.

use crate::status::{GrpcCode, GrpcStatus, Result};

/// The prefix of a token, by which other texts are refused.
const TOKEN: &str = "after:";

/// A page of a list.
pub(super) struct ListPage {
    after: Option<String>,
    most: usize,
}

impl ListPage {
    pub(super) fn of(token: &str, max_entries: i32) -> Result<ListPage> {
        let after = match token {
            "" => None,
            token => Some(token.strip_prefix(TOKEN).ok_or_else(|| {
                GrpcStatus::new(GrpcCode::Aborted, "the starting token is none of this list")
            })?),
        };
        let most = match max_entries {
            0 => usize::MAX,
            most => usize::try_from(most)
                .map_err(|_| GrpcStatus::invalid(format!("a list of {most} entries")))?,
        };
        Ok(ListPage {
            after: after.map(str::to_owned),
            most,
        })
    }

    /// The entries of the page, and the token of the next one. `all` is sorted by id.
    pub(super) fn cut<T>(&self, all: Vec<T>, id: impl Fn(&T) -> String) -> (Vec<T>, String) {
        let is_new = |entry: &T| self.after.as_ref().is_none_or(|after| id(entry) > *after);
        let mut page: Vec<T> = all.into_iter().filter(is_new).collect();
        let is_last = page.len() <= self.most;
        page.truncate(self.most);
        let token = match page.last() {
            Some(last) if !is_last => format!("{TOKEN}{}", id(last)),
            _ => String::new(),
        };
        (page, token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let mut all = vec!["a", "b", "c"];
        let cut = |token: &str, most, all: &[&str]| {
            let page = ListPage::of(token, most).unwrap();
            page.cut(
                all.iter().map(|it| (*it).to_owned()).collect(),
                |it: &String| it.clone(),
            )
        };
        let (page, token) = cut("", 2, &all);
        assert_eq!(
            (page.join(" ").as_str(), token.as_str()),
            ("a b", "after:b")
        );
        // The entry that the token names may go.
        all.remove(1);
        assert_eq!(cut(&token, 1, &all), (vec!["c".to_owned()], String::new()));
        assert_eq!(cut("", 0, &all).0.len(), 2);
        assert!(ListPage::of("", -1).is_err());
        assert_eq!(ListPage::of("b", 0).err().unwrap().code, GrpcCode::Aborted);
    }
}
