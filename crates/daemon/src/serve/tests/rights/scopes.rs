//! Tokens with a scope: each kind of scope takes rights away for each command, and gives none.

use std::collections::BTreeSet;

use protocol::api::{CommandDefinition, Effect, TokenScope};
use secret::Secret;

use super::site::ZONES;
use super::*;
use crate::host::callers::scope::PeerToken;
use crate::host::callers::users::Peer;
use crate::state::callers::tokens::AcceptedToken;

/// A caller with a new token of root.
fn root_with(site: &Site, scope: TokenScope) -> Peer {
    let new = request!({"token-create": {"label": "", "scope": scope}});
    let root = Peer {
        uid: 0,
        is_admin: true,
        ..site.delegate(|_| false)
    };
    let Ok(Reply::Token(made)) = site.ask_as(&root, &new) else {
        panic!("no token");
    };
    let shown = Secret::from_slice(made.token.as_bytes()).unwrap();
    let AcceptedToken { id, token, account } = site.daemon.tokens.shown(&shown).unwrap();
    Peer::of_token(0, account, &id, token.scope)
}

fn of_dataset(name: &str) -> TokenScope {
    TokenScope {
        dataset: Some(name.into()),
        ..TokenScope::default()
    }
}

/// A delegate with the token of another caller.
fn with_token(delegate: Peer, other: &Peer) -> Peer {
    let token = other.token.clone().map(|token| PeerToken {
        is_of_admin: false,
        ..token
    });
    Peer { token, ..delegate }
}

fn get(names: &[&str]) -> Command {
    request!({"get": {"names": names, "props": ["guid"]}})
}

fn names_in(reply: Result<Reply>) -> Vec<String> {
    match reply {
        Ok(Reply::Datasets(rows)) => rows.into_iter().map(|row| row.name).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_has_the_name_that_requests_have() {
    let all = command::names();
    for (command, _) in requests() {
        let name = match serde_json::to_value(&command).unwrap() {
            serde_json::Value::Object(one) => one.keys().next().unwrap().clone(),
            name => name.as_str().unwrap().to_owned(),
        };
        assert_eq!(command.name(), name);
        assert!(all.contains(&name));
    }
}

#[test]
fn a_token_that_reads_changes_nothing() {
    let site = Site::new(&ZONES[..1]);
    let scope = TokenScope {
        read_only: true,
        ..TokenScope::default()
    };
    let peer = root_with(&site, scope);
    let before = site.state();
    for (command, _) in requests() {
        let outcome = site.ask_as(&peer, &command);
        match command.effect() {
            Effect::Changes => assert!(is_refused(&outcome), "{command:?}: {outcome:?}"),
            Effect::Reads => assert!(!is_refused(&outcome), "{command:?}: {outcome:?}"),
        }
        assert_eq!(site.state(), before, "{command:?}");
    }
}

#[test]
fn a_token_for_commands_is_for_no_others() {
    let site = Site::new(&ZONES[..1]);
    let commands = vec!["get".to_owned(), "pool-status".to_owned()];
    let scope = TokenScope {
        commands: commands.clone(),
        ..TokenScope::default()
    };
    let peer = root_with(&site, scope);
    let before = site.state();
    for (command, _) in requests() {
        let name = command.name();
        let outcome = site.ask_as(&peer, &command);
        let may = commands.contains(&name) || name == "whoami";
        assert_eq!(is_refused(&outcome), !may, "{command:?}: {outcome:?}");
    }
    assert_eq!(site.state(), before);
    // What it is for, it does as its user.
    assert!(site.ask_as(&peer, &get(&[])).is_ok());
}

/// Root's token for a dataset: others are as if they were not there, in every command.
#[test]
fn a_token_for_a_dataset_reaches_no_other() {
    let site = Site::new(&ZONES);
    let peer = root_with(&site, of_dataset("tank/web/fs"));
    let before = site.state();
    let listed = names_in(site.ask_as(&peer, &get(&[])));
    assert!(listed.contains(&"tank/web/fs".into()) && listed.len() > 2);
    for name in &listed {
        assert!(name.starts_with("tank/web/fs"), "{name}");
    }
    let mut compared = 0;
    for there in ["tank/other", "tank/web/sub", "tank"] {
        let of = |at: &str| samples::about(&format!("{at}/fs"), &format!("{at}/to"));
        for (command, other) in of(there).into_iter().zip(of("tank/absent")) {
            // It names no dataset.
            if format!("{command:?}") == format!("{other:?}") {
                continue;
            }
            let found = site.ask_as(&peer, &command);
            assert!(is_refused(&found), "{command:?}: {found:?}");
            let told = |outcome: Result<Reply>| outcome.err().map(|failure| failure.message);
            let missing = told(site.ask_as(&peer, &other));
            let missing = missing.map(|message| message.replace("tank/absent", there));
            assert_eq!(told(found), missing, "{command:?}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
    for command in samples::of_the_machine() {
        let outcome = site.ask_as(&peer, &command);
        let is_of_caller = matches!(command, Command::Whoami);
        assert_eq!(
            is_refused(&outcome),
            !is_of_caller,
            "{command:?}: {outcome:?}"
        );
    }
    assert_eq!(site.state(), before);
}

#[test]
fn a_token_for_a_dataset_does_what_its_user_may_there() {
    let site = Site::new(&ZONES[..1]);
    let root = root_with(&site, of_dataset("tank/web/fs"));
    let snapshot = request!({"snapshot": {"names": ["tank/web/fs@9"], "recursive": true}});
    site.ask_as(&root, &snapshot).unwrap();
    site.ask_as(&root, &samples::create("tank/web/fs/new".into(), &[]))
        .unwrap();
    let set = |prop: &str, value: &str| request!({"set": {"names": ["tank/web/fs/new"], "props": [[prop, value]]}});
    site.ask_as(&root, &set("compression", "off")).unwrap();
    // What concerns the machine, and the rights of others.
    let before = site.state();
    for (prop, value) in [("mountpoint", "/etc"), ("setuid", "on"), ("devices", "on")] {
        assert!(is_refused(&site.ask_as(&root, &set(prop, value))), "{prop}");
    }
    let allow = request!({"change-permissions": {"name": "tank/web/fs/new", "who": ["12346"], "kind": "user",
                                                     "permissions": ["hold"], "local": true}});
    assert!(is_refused(&site.ask_as(&root, &allow)));
    assert_eq!(site.state(), before);
    // The token of a delegate has the rights of the delegate there, and nowhere else.
    let has = |right: &Right| right.permission == "snapshot";
    let delegate = with_token(site.delegate(has), &root);
    let take = |name: &str| request!({"snapshot": {"names": [format!("{name}@10")]}});
    assert!(site.ask_as(&delegate, &take("tank/web/fs/x")).is_ok());
    assert!(
        site.ask_as(&site.delegate(has), &take("tank/web/to"))
            .is_ok()
    );
    assert!(is_refused(&site.ask_as(&delegate, &take("tank/web/to"))));
    let outcome = site.ask_as(&delegate, &set("compression", "on"));
    assert!(is_refused(&outcome), "{outcome:?}");
}

/// Another dataset with the name is another one, and the dataset with another name is the same.
#[test]
fn a_token_keeps_its_dataset_by_guid() {
    let site = Site::new(&ZONES[..1]);
    let peer = root_with(&site, of_dataset("tank/web/fs"));
    let rename = |from: &str, to: &str| request!({"rename": {"from": from, "to": to}});
    site.root(rename("tank/web/fs", "tank/web/moved"));
    site.root(samples::create(
        "tank/web/fs".into(),
        &[("encryption", "off")],
    ));
    assert!(site.ask_as(&peer, &get(&["tank/web/moved"])).is_ok());
    assert!(is_refused(&site.ask_as(&peer, &get(&["tank/web/fs"]))));
}

fn receiver(site: &Site) -> Peer {
    let scope = TokenScope {
        receive_only: true,
        ..of_dataset("tank/web/fs")
    };
    root_with(site, scope)
}

/// The requests of an intruder who has everything of the host that sends copies: about the dataset of the token, about its
/// neighbours, and about the machine.
#[test]
fn a_token_that_receives_does_nothing_else() {
    let site = Site::new(&ZONES[..1]);
    let peer = receiver(&site);
    let before = site.state();
    let all = samples::about("tank/web/fs", "tank/web/to");
    let within = samples::about("tank/web/fs", "tank/web/fs");
    let all = all.into_iter().chain(within);
    let mut accepted = BTreeSet::new();
    for command in all.chain(samples::of_the_machine()) {
        let outcome = site.ask_as(&peer, &command);
        if !is_refused(&outcome) {
            accepted.insert(command.name());
        }
        assert_eq!(site.state(), before, "{command:?}");
    }
    let expected = ["get", "receive-abandon", "verify", "whoami"].map(String::from);
    assert_eq!(accepted, BTreeSet::from(expected));
}

#[test]
fn a_token_that_receives_lists_copies_and_adds_to_them() {
    let site = Site::new(&ZONES[..1]);
    let peer = receiver(&site);
    let listing = |props: &[&str]| request!({"get": {"names": ["tank/web/fs"], "snapshots": true, "bookmarks": true, "props": props}});
    let sees = [
        "type",
        "guid",
        "createtxg",
        "receive_resume_token",
        "origin",
    ];
    let listed = names_in(site.ask_as(&peer, &listing(&sees)));
    assert!(listed.iter().all(|name| name.starts_with("tank/web/fs")));
    for props in [&[][..], &["used"], &["guid", "keysource"], &["all"]] {
        assert!(
            is_refused(&site.ask_as(&peer, &listing(props))),
            "{props:?}"
        );
    }
    let receive = |change: serde_json::Value| {
        let mut fields = serde_json::json!({"target": "tank/web/fs/new", "naming": "exact", "props": [], "exclude": [], "no_mount": true, "resumable": true});
        for (name, value) in change.as_object().unwrap() {
            fields[name] = value.clone();
        }
        let command = request!({ "receive": fields });
        is_refused(&site.ask_as(&peer, &command))
    };
    assert!(!receive(serde_json::json!({})));
    for more in [
        serde_json::json!({"target": "tank/web/to/new"}),
        serde_json::json!({"force": true}),
        serde_json::json!({"no_mount": false}),
        serde_json::json!({"naming": "path"}),
        serde_json::json!({"props": [["readonly", "off"]]}),
        serde_json::json!({"exclude": ["canmount"]}),
    ] {
        assert!(receive(more.clone()), "{more}");
    }
    for wrong in [
        serde_json::json!({"receive_only": true}),
        serde_json::json!({"receive_only": true, "dataset": "tank/web/fs", "read_only": true}),
        serde_json::json!({"receive_only": true, "dataset": "tank/web/fs", "commands": ["get"]}),
    ] {
        let root = Peer {
            uid: 0,
            is_admin: true,
            ..site.delegate(|_| false)
        };
        let new = request!({"token-create": {"label": "", "scope": wrong}});
        let failure = site.ask_as(&root, &new).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Usage);
    }
}
