//! Serving the HTTP API, and tokens for it.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use console::outcome::{Outcome, Result, call_quiet};
use console::session::{Session, absolute, answer, other, usage};
use console::show::table::Column;
use console::show::{json, time};
use console::values;
use protocol::accounts::uid_of;
use protocol::api::{Command, Failure, FailureKind, TokenRow, TokenScope, command};

use crate::cmd::web::args::{PageLink, SiteCall, Token, TokenCreate, TokenList, Web, WebCommand};

pub(crate) fn run(args: Web, session: &mut Session) -> Result {
    match args.command {
        None => serve(&args, session),
        Some(WebCommand::Open(args)) => open(&args, session),
        Some(WebCommand::Token(Token::Create(args))) => create(args, session),
        Some(WebCommand::Token(Token::List(args))) => list(&args, session),
        Some(WebCommand::Token(Token::Revoke { id })) => {
            call_quiet(session, command::TokenRevoke { id })
        }
        Some(WebCommand::Serve { what, parent }) => {
            match what.as_str() {
                web::CONNECTION => web::serve_connection(&session.socket, parent)?,
                web::NETWORK => web::serve_network(&session.socket, parent)?,
                _ => return Err(usage(format!("'{what}' cannot be served"))),
            }
            Ok(Outcome::done())
        }
        Some(WebCommand::Call(args)) => call(args),
    }
}

/// Sends a request to the site of another host.
fn call(args: SiteCall) -> Result {
    let wrong = || usage(format!("'{}' is not HOST:PORT", args.address));
    let (host, port) = args.address.rsplit_once(':').ok_or_else(wrong)?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let site = web::RemoteSite {
        host: bare.unwrap_or(host).to_owned(),
        port: port.parse().map_err(|_| wrong())?,
        token: args.token,
        authorities: args.ca,
    };
    let words: Vec<&str> = args.request.iter().map(String::as_str).collect();
    let answer = match words[..] {
        ["get", path] => site.get(path)?,
        ["post", name, body] => site.command(name, body)?,
        ["receive", query] => {
            site.receive(query, &mut std::io::stdin().lock())?;
            return Ok(Outcome::done());
        }
        _ => {
            return Err(usage(
                "a request is get PATH, post COMMAND BODY or receive QUERY",
            ));
        }
    };
    let text = String::from_utf8(answer).map_err(|_| other("the answer is not text"))?;
    Ok(Outcome::text(text))
}

fn serve(args: &Web, session: &mut Session) -> Result {
    let at = match &args.at {
        Some(at) => absolute(at)?,
        None => web::default_socket(&session.socket),
    };
    // The daemon is there before the first request is.
    session.call(Command::Whoami)?;
    if UnixStream::connect(&at).is_ok() {
        let message = format!("{} is served already", at.display());
        return Err(Failure::new(FailureKind::Exists, message));
    }
    let (listener, _socket) = daemon::listen_beside(&at, "--at")?;
    if rustix::process::geteuid().is_root() {
        // Each connection has the rights of its user.
        let open = std::fs::set_permissions(&at, Permissions::from_mode(0o666));
        open.map_err(|error| other(format!("{}: {error}", at.display())))?;
    }
    let site = site(args)?;
    web::run(&session.socket, &listener, site.as_ref(), || {
        let _ = writeln!(std::io::stdout(), "{}", at.display());
    })?;
    Ok(Outcome::done())
}

fn open(args: &PageLink, session: &mut Session) -> Result {
    let own = rustix::process::geteuid();
    let browser = match &args.user {
        // The page of one user in the browser of another would get the passphrases that are typed there.
        Some(_) if !own.is_root() => {
            let why = "only root can open a page in the browser of another user; leave out --user";
            return Err(Failure::new(FailureKind::Permission, why));
        }
        Some(name) => Some(named_user(name)?),
        None if own.is_root() => sudo_user(),
        None => None,
    };
    // The daemon is there before the link is.
    session.call(Command::Whoami)?;
    let users = [Some(own.as_raw()), browser];
    web::serve_link(
        &session.socket,
        users.into_iter().flatten().collect(),
        |url| {
            let text = match session.json {
                true => json::show(&serde_json::json!({ "url": url })),
                false => format!("{url}\n"),
            };
            let mut out = std::io::stdout();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        },
    )?;
    Ok(Outcome::done())
}

fn named_user(name: &str) -> Result<u32> {
    uid_of(name).ok_or_else(|| {
        let why = format!("there is no user '{name}' on this machine");
        Failure::new(FailureKind::NotFound, why)
    })
}

/// The user who called sudo, which tells it.
fn sudo_user() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// The addresses that are served on the network.
fn site(args: &Web) -> Result<Option<web::Network>> {
    let (Some(listen), Some(certificate), Some(key)) =
        (&args.listen, &args.tls_cert, &args.tls_key)
    else {
        return Ok(None);
    };
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let mut names = args.names.clone();
    names.push(host);
    Ok(Some(web::Network {
        listen: listen.clone(),
        identity: web::IdentityFiles {
            certificate: absolute(certificate)?,
            key: absolute(key)?,
            client_authorities: args.tls_client_ca.as_deref().map(absolute).transpose()?,
        },
        names,
    }))
}

fn create(args: TokenCreate, session: &mut Session) -> Result {
    let new = command::TokenCreate {
        expires: seconds(&args.expires)?,
        user: args.user,
        label: args.label,
        zone: args.zone,
        scope: TokenScope {
            read_only: args.read_only,
            dataset: args.dataset,
            commands: args.commands,
            receive_only: args.receive_only,
        },
    };
    let made = answer!(session.call(new)?, Token)?;
    match session.json {
        true => Ok(Outcome::text(json::show(&made))),
        false => Ok(Outcome::text(format!("{}\n", made.token))),
    }
}

/// The seconds in `90d`; none for `never`.
fn seconds(text: &str) -> Result<Option<u64>> {
    if text == "never" {
        return Ok(None);
    }
    let wrong = || {
        usage(format!(
            "--expires {text}: use a number with s, m, h or d, such as 90d, or 'never'"
        ))
    };
    values::seconds(text).map(Some).ok_or_else(wrong)
}

fn list(args: &TokenList, session: &mut Session) -> Result {
    let rows = answer!(session.call(Command::Tokens)?, Tokens)?;
    let heads = [
        "ID",
        "USER",
        "LABEL",
        "ZONE",
        "SCOPE",
        "EXPIRES",
        "LAST USED",
    ]
    .map(Column::left);
    let cells = |row: TokenRow| {
        let moment = |seconds: Option<u64>| seconds.map_or_else(|| "-".to_owned(), time::history);
        vec![
            row.id,
            row.user,
            row.label,
            row.zone.unwrap_or_else(|| "-".into()),
            scope(&row.scope),
            row.expires.map_or_else(|| "never".into(), time::history),
            moment(row.last_used),
        ]
    };
    Ok(Outcome::rows(
        rows,
        session.json,
        &heads,
        args.script,
        cells,
    ))
}

/// The limits of a token, as the options that make them.
fn scope(scope: &TokenScope) -> String {
    let mut parts = Vec::new();
    if scope.read_only {
        parts.push("--read-only".to_owned());
    }
    if let Some(dataset) = &scope.dataset {
        parts.push(format!("--dataset {dataset}"));
    }
    if scope.receive_only {
        parts.push("--receive-only".to_owned());
    }
    if !scope.commands.is_empty() {
        parts.push(format!("--commands {}", scope.commands.join(",")));
    }
    match parts.is_empty() {
        true => "-".into(),
        false => parts.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(seconds("90d").unwrap(), Some(7_776_000));
        assert_eq!(seconds("15m").unwrap(), Some(900));
        assert_eq!(seconds("never").unwrap(), None);
        for wrong in [
            "",
            "d",
            "9",
            "0d",
            "-1d",
            "9w",
            "1é",
            "99999999999999999999d",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
