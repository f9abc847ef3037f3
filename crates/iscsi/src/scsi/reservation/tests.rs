//! The tables of SPC-4, section 5.13.

use super::change::{Action, Effects, ReserveOutCommand};
use super::state::{Kind, Need, Nexus, Reservations};
use super::stored_text::KEPT_MAX;
use super::wire;
use crate::scsi::sense::{CommandRefusal, Sense};

const A: u64 = 0xa;
const B: u64 = 0xb;
const C: u64 = 0xc;

fn nexus(name: &str) -> Nexus {
    Nexus {
        initiator: format!("iqn.x:{name}"),
        isid: [0, 2, 0x3d, 0, 0, 1],
    }
}

fn order(action: Action, kind: u8, key: u64, other: u64) -> ReserveOutCommand {
    ReserveOutCommand {
        action,
        what: kind,
        key,
        other,
        keep: false,
        all_ports: false,
    }
}

/// Reservations that change.
struct ReservationTable(Reservations);

impl ReservationTable {
    /// With the keys of `a` and `b`, and perhaps a reservation of `a`.
    fn new(kind: Option<Kind>) -> ReservationTable {
        let mut unit = ReservationTable(Reservations::default());
        unit.ok("a", Action::Register, 0, 0, A);
        unit.ok("b", Action::Register, 0, 0, B);
        if let Some(kind) = kind {
            unit.ok("a", Action::Reserve, kind as u8, A, 0);
        }
        unit
    }

    fn say(
        &mut self,
        who: &str,
        action: Action,
        kind: u8,
        key: u64,
        other: u64,
    ) -> Result<Effects, CommandRefusal> {
        let (new, effects) = self
            .0
            .after(&nexus(who), &order(action, kind, key, other))?;
        self.0 = new;
        Ok(effects)
    }

    #[track_caller]
    fn ok(&mut self, who: &str, action: Action, kind: u8, key: u64, other: u64) -> Effects {
        self.say(who, action, kind, key, other).expect("it is done")
    }

    #[track_caller]
    fn fails(
        &mut self,
        who: &str,
        action: Action,
        kind: u8,
        key: u64,
        other: u64,
        why: impl Into<CommandRefusal>,
    ) {
        let before = self.0.clone();
        assert_eq!(self.say(who, action, kind, key, other), Err(why.into()));
        assert_eq!(self.0, before);
    }

    fn allows(&self, who: &str, need: Need) -> bool {
        self.0.allow(&nexus(who), need)
    }

    fn holders(&self) -> Vec<&str> {
        let holders = self.0.summary().1.map_or(Vec::new(), |held| held.1);
        let short = |it: &&'_ Nexus| it.initiator.len() - 1;
        holders
            .iter()
            .map(|it| &it.initiator[short(it)..])
            .collect()
    }
}

fn told(who: &str, sense: Sense) -> Vec<(Nexus, Sense)> {
    vec![(nexus(who), sense)]
}

#[test]
fn each_type_allows_what_the_table_says() {
    use Kind as K;
    // Whether one that registered, and one that did not, reads and writes.
    let table = [
        (K::WriteExclusive, [true, false], [true, false]),
        (K::ExclusiveAccess, [false, false], [false, false]),
        (K::WriteExclusiveRegistrants, [true, true], [true, false]),
        (K::ExclusiveAccessRegistrants, [true, true], [false, false]),
        (K::WriteExclusiveAll, [true, true], [true, false]),
        (K::ExclusiveAccessAll, [true, true], [false, false]),
    ];
    for (kind, registered, stranger) in table {
        let unit = ReservationTable::new(Some(kind));
        let can = |who| [unit.allows(who, Need::Read), unit.allows(who, Need::Write)];
        assert_eq!(can("a"), [true, true], "{kind:?}");
        assert_eq!(can("b"), registered, "{kind:?}");
        assert_eq!(can("x"), stranger, "{kind:?}");
        for who in ["a", "b", "x"] {
            assert!(unit.allows(who, Need::Nothing) && unit.allows(who, Need::Presence));
        }
    }
    let unit = ReservationTable::new(None);
    assert!(unit.allows("x", Need::Write), "keys alone reserve nothing");
}

#[test]
fn a_key_is_registered_changed_and_taken_away() {
    let mut unit = ReservationTable(Reservations::default());
    let register = Action::Register;
    unit.fails("a", register, 0, A, A, CommandRefusal::Conflict);
    unit.ok("a", register, 0, 0, 0);
    assert_eq!(unit.0.summary().0, 0);
    unit.ok("a", register, 0, 0, A);
    unit.fails("a", register, 0, 0, B, CommandRefusal::Conflict);
    unit.fails("a", register, 0, B, 0, CommandRefusal::Conflict);
    unit.ok("a", register, 0, A, B);
    assert_eq!(unit.0.key_of(&nexus("a")), Some(B));
    unit.ok("a", Action::RegisterAndIgnore, 0, 77, C);
    assert_eq!(unit.0.key_of(&nexus("a")), Some(C));
    unit.ok("a", Action::RegisterAndIgnore, 0, 0, 0);
    assert_eq!(unit.0.summary().0, 0);
    // Five of them did something or nothing, and none failed.
    assert_eq!(unit.0.generation, 5);
    // Another session of the same initiator is another nexus.
    unit.ok("a", register, 0, 0, A);
    let mut other = nexus("a");
    other.isid[5] = 2;
    assert!(unit.0.is_registered(&nexus("a")) && !unit.0.is_registered(&other));
}

#[test]
fn registrations_have_a_limit() {
    let mut unit = ReservationTable(Reservations::default());
    let long = "n".repeat(200);
    let mut count = 0;
    let failed = loop {
        let name = format!("{long}{count}");
        match unit.say(&name, Action::Register, 0, 0, A) {
            Ok(_) => count += 1,
            Err(failed) => break failed,
        }
    };
    assert_eq!(failed, Sense::NO_REGISTRATIONS.into());
    assert!((30..40).contains(&count));
    assert!(unit.0.to_text().len() <= 8000);
}

#[test]
fn a_reservation_needs_a_key_and_has_one_type() {
    let (reserve, ea) = (Action::Reserve, Kind::ExclusiveAccess as u8);
    let mut unit = ReservationTable::new(None);
    unit.fails("x", reserve, ea, 0, 0, CommandRefusal::Conflict);
    unit.fails("a", reserve, ea, B, 0, CommandRefusal::Conflict);
    for wrong in [0, 2, 4, 9, 0x13] {
        unit.fails("a", reserve, wrong, A, 0, Sense::FIELD_IN_CDB);
    }
    let generation = unit.0.generation;
    unit.ok("a", reserve, ea, A, 0);
    unit.ok("a", reserve, ea, A, 0);
    unit.fails("a", reserve, 1, A, 0, CommandRefusal::Conflict);
    unit.fails("b", reserve, ea, B, 0, CommandRefusal::Conflict);
    assert_eq!(unit.0.generation, generation);
    for all in [Kind::WriteExclusiveAll, Kind::ExclusiveAccessAll] {
        let mut unit = ReservationTable::new(Some(all));
        unit.ok("b", reserve, all as u8, B, 0);
        assert_eq!(unit.holders(), ["a", "b"]);
        unit.fails("b", reserve, 1, B, 0, CommandRefusal::Conflict);
    }
}

#[test]
fn a_release_is_of_the_holder_and_of_the_type() {
    for kind in Kind::ALL {
        let release = Action::Release;
        let mut unit = ReservationTable::new(Some(kind));
        unit.fails("x", release, kind as u8, 0, 0, CommandRefusal::Conflict);
        unit.fails("a", release, kind as u8, B, 0, CommandRefusal::Conflict);
        let wrong = if kind as u8 == 1 { 3 } else { 1 };
        unit.fails("a", release, wrong, A, 0, Sense::WRONG_RELEASE);
        if !kind.is_held_by_all() {
            unit.ok("b", release, kind as u8, B, 0);
            assert_eq!(unit.holders(), ["a"]);
        }
        let effects = unit.ok("a", release, kind as u8, A, 0);
        let others = match kind.is_for_registrants() {
            true => told("b", Sense::RESERVATIONS_RELEASED),
            false => Vec::new(),
        };
        assert_eq!(effects.told, others, "{kind:?}");
        assert!(unit.holders().is_empty());
        unit.ok("a", release, kind as u8, A, 0);
    }
}

#[test]
fn a_reservation_goes_with_its_holder() {
    for kind in Kind::ALL {
        let mut unit = ReservationTable::new(Some(kind));
        let effects = unit.ok("a", Action::Register, 0, A, 0);
        let only = kind.is_for_registrants() && !kind.is_held_by_all();
        let others = match only {
            true => told("b", Sense::RESERVATIONS_RELEASED),
            false => Vec::new(),
        };
        assert_eq!(effects.told, others, "{kind:?}");
        let rest: &[&str] = if kind.is_held_by_all() { &["b"] } else { &[] };
        assert_eq!(unit.holders(), rest, "{kind:?}");
        unit.ok("b", Action::Register, 0, B, 0);
        assert!(unit.holders().is_empty());
    }
}

#[test]
fn clearing_takes_all_away() {
    for kind in Kind::ALL {
        let mut unit = ReservationTable::new(Some(kind));
        unit.fails("x", Action::Clear, 0, 0, 0, CommandRefusal::Conflict);
        unit.fails("b", Action::Clear, 0, A, 0, CommandRefusal::Conflict);
        let effects = unit.ok("b", Action::Clear, 0, B, 0);
        assert_eq!(effects.told, told("a", Sense::RESERVATIONS_PREEMPTED));
        assert_eq!(unit.0.summary(), (0, None));
    }
}

#[test]
fn a_reservation_of_one_is_preempted_by_its_key() {
    use Kind as K;
    let (preempt, abort) = (
        Action::Preempt { abort: false },
        Action::Preempt { abort: true },
    );
    let ones = [
        K::WriteExclusive,
        K::ExclusiveAccess,
        K::WriteExclusiveRegistrants,
        K::ExclusiveAccessRegistrants,
    ];
    for kind in ones {
        for action in [preempt, abort] {
            let mut unit = ReservationTable::new(Some(kind));
            unit.ok("c", Action::Register, 0, 0, C);
            unit.fails("x", action, 5, 0, A, CommandRefusal::Conflict);
            unit.fails("b", action, 5, B, 99, CommandRefusal::Conflict);
            unit.fails("b", action, 5, B, 0, Sense::FIELD_IN_LIST);
            unit.fails("b", action, 2, B, A, Sense::FIELD_IN_CDB);
            let effects = unit.ok("b", action, 5, B, A);
            let mut others = told("a", Sense::REGISTRATIONS_PREEMPTED);
            if kind as u8 != 5 {
                others.extend(told("c", Sense::RESERVATIONS_RELEASED));
            }
            assert_eq!(effects.told, others, "{kind:?}");
            let aborted = if action == abort {
                vec![nexus("a")]
            } else {
                vec![]
            };
            assert_eq!(effects.aborted, aborted);
            assert_eq!(unit.holders(), ["b"]);
            assert!(!unit.allows("a", Need::Write) && unit.allows("c", Need::Write));
        }
    }
    // The holder gives its reservation another type, and stays registered.
    let mut unit = ReservationTable::new(Some(K::WriteExclusive));
    unit.ok("a", preempt, 3, A, A);
    assert_eq!(unit.holders(), ["a"]);
    assert!(!unit.allows("b", Need::Read));
}

#[test]
fn what_all_hold_is_preempted_by_zero() {
    let preempt = Action::Preempt { abort: false };
    for kind in [Kind::WriteExclusiveAll, Kind::ExclusiveAccessAll] {
        let mut unit = ReservationTable::new(Some(kind));
        let effects = unit.ok("b", preempt, 1, B, 0);
        assert_eq!(effects.told, told("a", Sense::REGISTRATIONS_PREEMPTED));
        assert_eq!((unit.holders(), unit.0.summary().0), (vec!["b"], 1));
        // With a key only registrations go.
        let mut unit = ReservationTable::new(Some(kind));
        unit.ok("b", preempt, 1, B, A);
        assert_eq!(unit.0.summary().0, 1);
        assert_eq!(unit.holders(), ["b"]);
        assert!(
            unit.0
                .reservation
                .as_ref()
                .is_some_and(|it| it.kind == kind)
        );
        unit.ok("b", preempt, 1, B, B);
        assert_eq!(unit.0.summary(), (0, None));
    }
}

#[test]
fn a_key_without_reservation_is_preempted() {
    let mut unit = ReservationTable::new(None);
    let preempt = Action::Preempt { abort: true };
    unit.fails("a", preempt, 0, A, 0, Sense::FIELD_IN_LIST);
    let effects = unit.ok("a", preempt, 0, A, B);
    assert_eq!(effects.told, told("b", Sense::REGISTRATIONS_PREEMPTED));
    assert_eq!(unit.0.summary(), (1, None));
}

#[test]
fn simple_reservations_and_keys_exclude_each_other() {
    let mut unit = ReservationTable(Reservations::default());
    let (a, b) = (nexus("a"), nexus("b"));
    assert_eq!(unit.0.simply(&a, true), Ok(()));
    assert_eq!(unit.0.simply(&b, true), Err(CommandRefusal::Conflict));
    assert_eq!(unit.0.simply(&b, false), Ok(()));
    for need in [Need::Presence, Need::Read, Need::Write] {
        assert!(unit.allows("a", need) && !unit.allows("b", need));
    }
    assert!(unit.allows("b", Need::Nothing));
    unit.fails("a", Action::Register, 0, 0, A, CommandRefusal::Conflict);
    assert_eq!(unit.0.simply(&a, false), Ok(()));
    assert!(unit.allows("b", Need::Write));
    assert_eq!(unit.0.simply(&b, true), Ok(()));
    unit.0.forget_simple(Some(&a));
    assert!(unit.0.is_simple());
    unit.0.forget_simple(Some(&b));
    assert!(!unit.0.is_simple());

    // SPC-4, section 5.13.3: no effect, and GOOD for those who may use the unit.
    for (kind, allowed) in [
        (1, false),
        (3, false),
        (5, true),
        (6, true),
        (7, true),
        (8, true),
    ] {
        let mut unit = ReservationTable::new(Kind::from_code(kind));
        for reserve in [true, false] {
            assert_eq!(unit.0.simply(&a, reserve), Ok(()));
            assert_eq!(unit.0.simply(&b, reserve).is_ok(), allowed, "{kind}");
            assert_eq!(
                unit.0.simply(&nexus("x"), reserve),
                Err(CommandRefusal::Conflict)
            );
        }
        assert!(!unit.0.is_simple());
    }
    let mut unit = ReservationTable::new(None);
    assert_eq!(unit.0.simply(&a, true), Err(CommandRefusal::Conflict));
}

#[test]
fn kept_reservations_are_read_again() {
    for kind in Kind::ALL {
        let mut unit = ReservationTable::new(Some(kind));
        assert!(!unit.0.is_kept);
        let mut keep = order(Action::RegisterAndIgnore, 0, 0, C);
        (keep.keep, keep.all_ports) = (true, true);
        let (new, _) = unit.0.after(&nexus("c"), &keep).expect("it is done");
        assert!(new.is_kept);
        let again = Reservations::from_text(&new.to_text()).expect("it is one");
        assert_eq!((again.generation, again.is_kept), (0, true));
        assert_eq!(again.registrations, new.registrations);
        assert_eq!(again.reservation, new.reservation);
        unit.0 = new;
        // The last registration says whether they are kept.
        unit.ok("b", Action::Register, 0, B, B);
        assert!(!unit.0.is_kept);
    }
    let golden =
        "1 5 1\n000000000000000a 00023d000001 0 iqn.x:a\n000000000000000b 00023d000001 0 iqn.x:b";
    let mut unit = ReservationTable::new(None);
    unit.ok("b", Action::Reserve, 5, B, 0);
    assert_eq!(unit.0.to_text(), golden);
}

#[test]
fn what_is_no_text_of_reservations_is_refused() {
    let line = "\n000000000000000a 00023d000001 0 iqn.x:a";
    let good = [
        "1 0 -".to_owned(),
        format!("1 0 -{line}"),
        format!("1 8 -{line}"),
        format!("1 3 0{line} with spaces"),
    ];
    for text in good {
        let read = Reservations::from_text(&text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(read.to_text(), text);
    }
    let wrong = [
        String::new(),
        "2 0 -".into(),
        "1 0".into(),
        "1 0 - ".into(),
        "1 0 0".into(),
        "1 2 -".into(),
        "1 7 -".into(),
        "1 1 0".into(),
        "1 300 0".into(),
        format!("1 1 1{line}"),
        format!("1 7 0{line}"),
        format!("1 1 -{line}"),
        format!("1 0 -{line}{line}"),
        format!("1 0 -{line}\n"),
        format!("1 0 -{}", line.replace("0a ", "00 ")),
        format!("1 0 -{}", line.replace("00023d000001", "+0023d000001")),
        format!("1 0 -{}", line.replace(" 0 iqn.x:a", " 2 iqn.x:a")),
        format!("1 0 -{}", line.replace("iqn.x:a", "")),
        format!("1 0 -{line}{}", "x".repeat(8000)),
    ];
    for text in wrong {
        assert_eq!(Reservations::from_text(&text), None, "{text}");
    }
}

#[test]
fn no_more_initiators_register_than_can_be_kept() {
    let mut held = Reservations::default();
    let mut ask = |number: usize| {
        let order = ReserveOutCommand {
            keep: true,
            ..order(Action::Register, 0, 0, A)
        };
        let name = format!("{number:0>200}");
        let before = held.clone();
        match held.after(&nexus(&name), &order) {
            Ok((new, _)) => held = new,
            Err(refused) => {
                assert_eq!(refused, Sense::NO_REGISTRATIONS.into());
                assert_eq!(held, before);
                return Err(name);
            }
        }
        Ok(())
    };
    let refused = (0..1000).find_map(|number| ask(number).err());
    let refused = refused.expect("there is a limit");
    let last = held.registrations.last().unwrap().nexus.clone();
    // A change of a key, and a reservation, fit still.
    for (action, key, other) in [(Action::Register, A, B), (Action::Reserve, B, 0)] {
        let kind = Kind::WriteExclusive as u8;
        let order = ReserveOutCommand {
            keep: action == Action::Register,
            ..order(action, kind, key, other)
        };
        held = held.after(&last, &order).expect("it fits").0;
    }
    assert!(held.is_kept && held.to_text().len() <= KEPT_MAX);
    let read = Reservations::from_text(&held.to_text()).expect("it is read");
    assert_eq!(read.reservation, held.reservation);
    assert!(
        held.registrations
            .iter()
            .all(|it| it.nexus != nexus(&refused))
    );
}

#[test]
fn answers_have_the_bytes_of_the_standard() {
    let mut unit = ReservationTable::new(Some(Kind::WriteExclusiveRegistrants));
    let keys = [
        0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 11,
    ];
    assert_eq!(wire::keys(&unit.0), keys);
    let held = [
        0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 5, 0, 0,
    ];
    assert_eq!(wire::reservation(&unit.0), held);
    let can = [0, 8, 0x15, 0x80, 0xea, 0x01, 0, 0];
    assert_eq!(wire::capabilities(&unit.0, true), can);
    let full = wire::full_status(&unit.0);
    assert_eq!(full[4..8], (2 * (24 + 32) as u32).to_be_bytes());
    assert_eq!(
        full[8..32],
        [
            0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 32
        ]
    );
    assert_eq!(
        full[32..64],
        *b"\x45\0\0\x1ciqn.x:a,i,0x00023d000001\0\0\0\0"
    );
    assert_eq!(full[64 + 12..64 + 14], [0, 0]);
    unit.ok("a", Action::Clear, 0, A, 0);
    assert_eq!(wire::reservation(&unit.0), [0, 0, 0, 3, 0, 0, 0, 0]);

    let mut list = [0; 24];
    (list[7], list[15], list[20]) = (1, 2, 0x05);
    let read = wire::order(Action::Register, 0, &list).expect("it is one");
    assert_eq!(
        (read.key, read.other, read.keep, read.all_ports),
        (1, 2, true, true)
    );
    assert_eq!(
        wire::order(Action::Register, 0, &list[..23]),
        Err(Sense::LIST_LENGTH)
    );
    list[20] = 0x08;
    assert_eq!(
        wire::order(Action::Register, 0, &list),
        Err(Sense::FIELD_IN_LIST)
    );
    assert!(wire::order(Action::Clear, 0, &list).is_ok());
}
