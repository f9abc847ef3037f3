//! Text requests: which targets there are.

use std::sync::Arc;

use super::{Result, SessionConnection, reason};
use crate::login::negotiation::SessionPurpose;
use crate::targets::logical_unit::check_name;
use crate::targets::target::IscsiTarget;
use crate::wire::keys::{self, TEXT_MAX};
use crate::wire::output::DATA_LEAST;
use crate::wire::pdu::{FINAL, NO_TAG, PduHeader, common, response};

const CONTINUE: u8 = 0x40;
/// The tag of a long answer, of which more is to be asked for.
const MORE: u32 = 1;

impl SessionConnection<'_, '_> {
    pub(super) fn text(&mut self, head: &PduHeader, text: &[u8]) -> Result<()> {
        if head.get(common::TRANSFER_TAG) == MORE && !self.more_text.is_empty() {
            return self.send_text(head);
        }
        if head.flags() & CONTINUE != 0 || head.data_len() > TEXT_MAX {
            return self.reject(head, reason::PROTOCOL);
        }
        let Some(pairs) = keys::pairs(text) else {
            return self.reject(head, reason::INVALID_FIELD);
        };
        match pairs.iter().filter(|pair| pair.0 == "SendTargets").count() {
            // As other targets do: nothing in it is understood.
            0 if !pairs.is_empty() => return self.reject(head, reason::PROTOCOL),
            0 | 1 => {}
            // Each list can be long, and the request is short.
            _ => return self.reject(head, reason::INVALID_FIELD),
        }
        let mut answer = Vec::new();
        for (key, value) in pairs {
            match key {
                "SendTargets" if self.may_ask(value) => self.list(value, &mut answer),
                "SendTargets" => return self.reject(head, reason::INVALID_FIELD),
                _ => keys::put(&mut answer, key, "NotUnderstood"),
            }
        }
        self.more_text = answer;
        self.send_text(head)
    }

    /// All targets, or one by its name; in a session that uses one, that one, which need not be named.
    fn may_ask(&self, wanted: &str) -> bool {
        let is_own = || self.shared.target().is_some() && wanted.is_empty();
        wanted == "All" || check_name(wanted).is_ok() || is_own()
    }

    /// The targets that the initiator may use, with the address at which it asks.
    fn list(&self, wanted: &str, answer: &mut Vec<u8>) {
        let is_wanted = |name: &str| match (&self.shared.purpose, wanted) {
            (SessionPurpose::Discovery(_), "All") => true,
            (SessionPurpose::Use(attached), "" | "All") => name == attached.target.name(),
            (SessionPurpose::Use(attached), wanted) => {
                name == wanted && name == attached.target.name()
            }
            (SessionPurpose::Discovery(_), wanted) => name == wanted,
        };
        let may_see = |target: &IscsiTarget| match (&self.shared.purpose, target.chap()) {
            (SessionPurpose::Discovery(proved), Some(chap)) => {
                proved.iter().any(|one| Arc::ptr_eq(one, &chap))
            }
            _ => true,
        };
        for target in self.targets.all() {
            let is_open = target.admits(self.initiator) && may_see(&target);
            if is_wanted(target.name()) && is_open {
                keys::put(answer, "TargetName", target.name());
                let asked = self.link.portal();
                let portals = match self.targets.is_moved(target.name()) {
                    // The others are told at the login.
                    true => vec![asked],
                    false => target.portals(asked),
                };
                for portal in portals {
                    // All portals are in one group.
                    keys::put(answer, "TargetAddress", &format!("{portal},1"));
                }
            }
        }
    }

    /// Sends as much of the text as fits.
    fn send_text(&mut self, head: &PduHeader) -> Result<()> {
        let most = self.shared.agreed.send_max.min(DATA_LEAST);
        let len = self.more_text.len().min(most);
        let rest = self.more_text.split_off(len);
        let now = std::mem::replace(&mut self.more_text, rest);
        let is_last = self.more_text.is_empty();
        let mut reply = head.response(response::TEXT, if is_last { FINAL } else { CONTINUE });
        reply.set(common::TRANSFER_TAG, if is_last { NO_TAG } else { MORE });
        self.answer(&mut reply, true, &now)
    }
}
