//! Logins and discovery: what is told to initiators that prove their secret, and to those that do not.

use super::tests::{heads, pdu, ready};
use super::*;
use crate::targets::portal::LoginRedirect;
use crate::wire::pdu::{FINAL, NO_TAG, PduHeader, common, login, request, response, sent};

#[test]
fn a_login_needs_names_and_an_end() {
    let login = |text: &str, flags: u8| {
        let mut head = PduHeader::new(request::LOGIN | 0x40, flags);
        head.set(sent::COMMAND_NUMBER, 1);
        connection(&pdu(head, text.as_bytes()))
    };
    let status = |told: &[u8]| {
        let head = heads(told).remove(0).0;
        let [class, detail] = head.get(login::STATUS);
        (class, detail)
    };
    let to_end = 0x87;
    let good = format!("InitiatorName=iqn.x:y\0TargetName={TARGET}\0");
    assert_eq!(status(&login(&good, to_end)), (0, 0));
    assert_eq!(status(&login("TargetName=a\0", to_end)), (2, 7));
    // As of a target whose secret is not known.
    assert_eq!(
        status(&login("InitiatorName=iqn.x:y\0TargetName=a\0", to_end)),
        (2, 1)
    );
    assert_eq!(status(&login("InitiatorName=iqn.x:y\0", to_end)), (2, 7));
    let chap = format!("{good}AuthMethod=CHAP\0");
    assert_eq!(status(&login(&chap, 0x81)), (2, 1));
    let twice = format!("{good}InitialR2T=No\0InitialR2T=No\0");
    assert_eq!(status(&login(&twice, to_end)), (2, 0));
    // A command is no login.
    assert_eq!(connection(&ready()), []);
}

/// Requests of a login, in these stages, and what was said at last: the status, and the keys.
fn log_in(requests: &[(u8, &str)]) -> Option<(u8, u8, String)> {
    let (head, data) = heads(&connection(&login_of(0, requests))).pop()?;
    let text = String::from_utf8(data).unwrap();
    let [class, detail] = head.get(login::STATUS);
    Some((class, detail, text.replace('\0', " ")))
}

const NAMES: &str = "InitiatorName=iqn.x:y TargetName=iqn.2026-01.org.example:closed ";
const REFUSED: Option<(u8, u8, String)> = Some((2, 1, String::new()));
/// To the operational stage, and to the full feature phase.
const LEAVE: u8 = 0x81;
const ENTER: u8 = 0x87;

fn prove(last: &str) -> Option<(u8, u8, String)> {
    let names = format!("{NAMES}AuthMethod=CHAP,None ");
    log_in(&[
        (0, &names),
        (0, "CHAP_A=9,6,5 "),
        (LEAVE, last),
        (ENTER, ""),
    ])
}

/// The answer to the challenge, which is 16 times 7 with the identifier 7.
fn right() -> String {
    format!("CHAP_N=user CHAP_R=0x{} ", "76".repeat(16))
}

#[test]
fn a_secret_is_proved() {
    let asked = log_in(&[
        (0, &format!("{NAMES}AuthMethod=CHAP ")),
        (LEAVE, "CHAP_A=9,6,5 "),
    ]);
    let challenge = format!("CHAP_A=6 CHAP_I=7 CHAP_C=0x{} ", "07".repeat(16));
    assert_eq!(asked, Some((0, 0, challenge)));
    let done = prove(&right()).unwrap();
    assert_eq!((done.0, done.1), (0, 0));
    assert!(done.2.contains("MaxRecvDataSegmentLength"));
    let both = format!("{}CHAP_I=1 CHAP_C=0x05 ", right());
    let names = format!("{NAMES}AuthMethod=CHAP ");
    let back = log_in(&[(0, &names), (0, "CHAP_A=5 "), (LEAVE, &both)]);
    let answer = format!("CHAP_N=target CHAP_R=0x{} ", "06".repeat(16));
    assert_eq!(back, Some((0, 0, answer)));
}

/// Logins to a target, in all ways that come to its existence. Returns all that is said.
fn tries(targets: &Targets, name: &str) -> Vec<Vec<u8>> {
    let names = format!("InitiatorName=iqn.x:y TargetName={name} ");
    let offer = format!("{names}AuthMethod=CHAP,None ");
    let wrong = right().replace("76", "77");
    let both = format!("{wrong}CHAP_I=1 CHAP_C=0x05 ");
    let ways: Vec<Vec<(u8, &str)>> = vec![
        vec![(ENTER, &names)],
        vec![(LEAVE, &names), (ENTER, "")],
        vec![(LEAVE, &offer), (LEAVE, "CHAP_A=9,6,5 ")],
        vec![(0, &offer), (0, "CHAP_A=9 ")],
        vec![(0, &offer), (0, "CHAP_A=5 "), (LEAVE, &wrong)],
        vec![(0, &offer), (0, "CHAP_A=5 "), (LEAVE, &both)],
        vec![(0, &offer), (0, "CHAP_A=5 "), (ENTER, "")],
    ];
    let mut told = Vec::new();
    for session in [0, 1, 9] {
        for way in &ways {
            told.push(connection_to(targets, &login_of(session, way)));
        }
    }
    told
}

fn login_of(session: u16, requests: &[(u8, &str)]) -> Vec<u8> {
    let mut said = Vec::new();
    for (stages, text) in requests {
        let mut head = PduHeader::new(request::LOGIN | 0x40, *stages);
        head.set(login::SESSION, session);
        head.set(sent::COMMAND_NUMBER, 1);
        said.extend(pdu(head, text.replace(' ', "\0").as_bytes()));
    }
    said
}

#[test]
fn a_hidden_target_is_like_a_missing_one() {
    let targets = targets(false);
    let missing = tries(&targets, "iqn.2026-01.org.example:missing");
    assert_eq!(tries(&targets, HIDDEN), missing);
    assert_eq!(tries(&targets, CLOSED), missing);
    // A portal that redirects logins tells no stranger of the target.
    let moved = LoginRedirect {
        to: vec!["192.0.2.9:3260".into()],
        permanently: false,
    };
    for name in [CLOSED, HIDDEN] {
        let target = targets.find(name).unwrap();
        targets.set_moved(&target, Some(moved.clone()));
        assert_eq!(tries(&targets, name), missing);
    }
    // Without a target that asks for a secret, nothing asks for one.
    targets.remove(CLOSED, true).unwrap();
    let missing = tries(&targets, "iqn.2026-01.org.example:missing");
    assert_eq!(tries(&targets, HIDDEN), missing);
    assert_eq!((missing[0][36], missing[0][37]), (2, 3));
}

#[test]
fn an_initiator_is_redirected_once_it_has_proved_its_secret() {
    let targets = targets(false);
    let moved = LoginRedirect {
        to: vec!["192.0.2.9:3260".into()],
        permanently: false,
    };
    targets.set_moved(&targets.find(CLOSED).unwrap(), Some(moved));
    let offer = format!("{NAMES}AuthMethod=CHAP ");
    let both = format!("{}CHAP_I=1 CHAP_C=0x05 ", right());
    let login = login_of(0, &[(0, &offer), (0, "CHAP_A=5 "), (LEAVE, &both)]);
    let (head, data) = heads(&connection_to(&targets, &login)).pop().unwrap();
    assert_eq!(head.get(login::STATUS), [1, 1]);
    let proof = format!("CHAP_N=target\0CHAP_R=0x{}\0", "06".repeat(16));
    let told = format!("{proof}TargetAddress=192.0.2.9:3260\0");
    assert_eq!(String::from_utf8(data).unwrap(), told);
}

#[test]
fn what_proves_nothing_is_refused() {
    let right = right();
    assert_eq!(prove(&right.replace("76", "77")), REFUSED);
    assert_eq!(prove(&right.replace("user", "User")), REFUSED);
    assert_eq!(prove("CHAP_N=user "), REFUSED);
    // The challenge of the target, which is to answer it itself.
    let reflected = format!("{right}CHAP_I=1 CHAP_C=0x{} ", "07".repeat(16));
    assert_eq!(prove(&reflected), REFUSED);
    for back in [
        "CHAP_I=1 ",
        "CHAP_C=0x05 ",
        "CHAP_I=1 CHAP_C=0x ",
        "CHAP_I=256 CHAP_C=0x05 ",
    ] {
        assert_eq!(prove(&format!("{right}{back}")), REFUSED, "{back}");
    }
    let long = format!("{right}CHAP_I=1 CHAP_C=0x{} ", "05".repeat(1025));
    assert_eq!(prove(&long), REFUSED);
    let long = format!("CHAP_N=user CHAP_R=0x{} ", "76".repeat(1025));
    assert_eq!(prove(&long), REFUSED);
    assert_eq!(prove(""), REFUSED);
}

#[test]
fn the_proof_cannot_be_left_out() {
    let offer = format!("{NAMES}AuthMethod=CHAP ");
    assert_eq!(log_in(&[(ENTER, NAMES)]), REFUSED);
    assert_eq!(log_in(&[(LEAVE, NAMES)]), REFUSED);
    assert_eq!(log_in(&[(0x83, NAMES)]), REFUSED);
    assert_eq!(log_in(&[(0, &format!("{NAMES}AuthMethod=None "))]), REFUSED);
    assert_eq!(log_in(&[(0, &offer), (0, "CHAP_A=4,9 ")]), REFUSED);
    assert_eq!(log_in(&[(0, &offer), (0, &right())]), REFUSED);
    // In the middle of it, another stage is not entered.
    let middle = [(0, &*offer), (0, "CHAP_A=5 "), (ENTER, "")];
    assert_eq!(log_in(&middle), Some((2, 0, String::new())));
    let only = log_in(&[(LEAVE, &offer), (LEAVE, "CHAP_A=5 ")]).unwrap();
    assert!(only.2.starts_with("CHAP_A=5"), "{only:?}");
    // It does not go on for ever.
    let mut endless = vec![(0, NAMES)];
    endless.resize(100, (0, ""));
    let told = log_in(&endless).unwrap();
    assert_eq!((told.0, told.1), (0, 0));
    let half = vec![(0x40, NAMES); 3000];
    assert!(log_in(&half).is_some());
}

#[test]
fn a_login_says_a_limited_number_of_keys() {
    let offer = format!("{NAMES}AuthMethod=CHAP ");
    let keys = |from: usize| -> String { (from..from + 60).map(|n| format!("X-{n}=1 ")).collect() };
    let more: Vec<String> = (0..10).map(|n| keys(60 * n)).collect();
    let mut said = vec![(0, offer.as_str()), (0, "CHAP_A=5 ")];
    let right = right();
    said.push((LEAVE, &right));
    said.extend(more.iter().map(|keys| (0x04, keys.as_str())));
    assert_eq!(log_in(&said), Some((2, 0, String::new())));
    assert_eq!(log_in(&said[..6]).unwrap().0, 0);
}

/// Returns the targets that discovery finds after these requests.
fn discovered(requests: &[(u8, &str)]) -> String {
    let (head, data) = asked(requests, b"SendTargets=All\0");
    assert_eq!(head.opcode(), response::TEXT);
    String::from_utf8(data).unwrap()
}

/// Returns the response to a text request after these requests.
fn asked(requests: &[(u8, &str)], text: &[u8]) -> (PduHeader, Vec<u8>) {
    let mut said = login_of(0, requests);
    let mut ask = PduHeader::new(request::TEXT, FINAL);
    ask.set(common::TRANSFER_TAG, NO_TAG);
    ask.set(sent::COMMAND_NUMBER, 1);
    said.extend(pdu(ask, text));
    heads(&connection(&said)).pop().unwrap()
}

#[test]
fn one_request_asks_for_one_list() {
    let who = [(ENTER, "InitiatorName=iqn.x:y SessionType=Discovery ")];
    let (head, data) = asked(&who, &b"SendTargets=All\0".repeat(2));
    // With the head of the request, and no list.
    assert_eq!((head.opcode(), data.len()), (response::REJECT, 48));
}

#[test]
fn a_closed_target_is_shown_to_those_who_know_its_secret() {
    let who = "InitiatorName=iqn.x:y SessionType=Discovery ";
    let (none, chap) = (
        format!("{who}AuthMethod=None "),
        format!("{who}AuthMethod=CHAP,None "),
    );
    let shown = discovered(&[(ENTER, who)]);
    assert!(shown.contains(TARGET) && !shown.contains(CLOSED));
    let shown = discovered(&[(LEAVE, &none), (ENTER, "")]);
    assert!(shown.contains(TARGET) && !shown.contains(CLOSED));
    let right = right();
    let proof = [(0, &*chap), (0, "CHAP_A=5 "), (LEAVE, &right), (ENTER, "")];
    let shown = discovered(&proof);
    assert!(shown.contains(TARGET) && shown.contains(CLOSED));
}
