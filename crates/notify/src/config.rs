//! The file with the targets.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use console::outcome::Result;
use console::session::usage;
use protocol::api::{Failure, FailureKind};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::Deserialize;

/// The greatest length of the file.
const LEN_MAX: u64 = 64 << 10;
/// The greatest number of targets.
const TARGETS_MAX: usize = 32;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifyConfig {
    /// The day of the weekly report.
    pub(crate) weekly: Option<Day>,
    #[serde(default)]
    mail: Vec<MailTarget>,
    #[serde(default)]
    webhook: Vec<WebhookTarget>,
    #[serde(default)]
    program: Vec<ProgramTarget>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// An address of mail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MailTarget {
    pub(crate) to: String,
}

/// A server that takes messages by HTTP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct WebhookTarget {
    pub(crate) url: String,
    pub(crate) form: WebhookForm,
    pub(crate) token_file: Option<PathBuf>,
}

/// The form of the request to a webhook.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WebhookForm {
    Ntfy,
    Slack,
    Matrix,
    Json,
}

/// A program of this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramTarget {
    pub(crate) path: PathBuf,
    #[serde(default)]
    pub(crate) args: Vec<String>,
}

/// A target that is told of problems.
#[derive(Clone, Debug)]
pub(crate) enum NotifyTarget {
    Mail(MailTarget),
    Webhook(WebhookTarget),
    Program(ProgramTarget),
}

impl NotifyTarget {
    /// The name of the target in the record, which only the owner of the file may read.
    pub(crate) fn key(&self) -> String {
        match self {
            NotifyTarget::Mail(mail) => format!("mail {}", mail.to),
            NotifyTarget::Webhook(webhook) => format!("webhook {}", webhook.url),
            NotifyTarget::Program(program) => {
                format!(
                    "program {} {}",
                    program.path.display(),
                    program.args.join(" ")
                )
            }
        }
    }

    /// The name of the target in messages. The path of a webhook may be a secret.
    pub(crate) fn shown(&self) -> String {
        match self {
            NotifyTarget::Mail(mail) => format!("mail to {}", mail.to),
            NotifyTarget::Webhook(webhook) => format!("webhook {}", host(&webhook.url)),
            NotifyTarget::Program(program) => format!("program {}", program.path.display()),
        }
    }
}

/// The scheme and the host of a URL, without a user.
fn host(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}")
}

impl NotifyConfig {
    /// Reads the file. The programs in it run as this user, so no other user may write it; tokens may be in it, so no
    /// other user may read it.
    pub(crate) fn read(path: &Path) -> Result<NotifyConfig> {
        let shown = path.display();
        let file = open_private(path).map_err(|failure| match failure.kind {
            FailureKind::NotFound => Failure {
                message: format!(
                    "{}; 'strongroom notify -h' shows an example",
                    failure.message
                ),
                ..failure
            },
            _ => failure,
        })?;
        let mut text = String::new();
        file.take(LEN_MAX + 1)
            .read_to_string(&mut text)
            .map_err(|error| Failure::other(format!("cannot read '{shown}': {error}")))?;
        if text.len() as u64 > LEN_MAX {
            return Err(usage(format!("'{shown}' is longer than {LEN_MAX} bytes")));
        }
        NotifyConfig::parse(&text).map_err(|why| usage(format!("'{shown}': {why}")))
    }

    /// Reads the text of the file.
    pub(crate) fn parse(text: &str) -> std::result::Result<NotifyConfig, String> {
        let config: NotifyConfig = toml_edit::de::from_str(text).map_err(|error| {
            let line = error.span().and_then(|span| text.get(..span.start));
            let line = line.map_or(1, |before| before.matches('\n').count() + 1);
            format!("line {line}: {}", without_values(error.message()))
        })?;
        let targets = config.targets();
        if targets.is_empty() {
            return Err("it names no target: [[mail]], [[webhook]] or [[program]]".into());
        }
        if targets.len() > TARGETS_MAX {
            return Err(format!("it names more than {TARGETS_MAX} targets"));
        }
        for target in &targets {
            check(target)?;
        }
        Ok(config)
    }

    pub(crate) fn targets(&self) -> Vec<NotifyTarget> {
        let mails = self.mail.iter().cloned().map(NotifyTarget::Mail);
        let webhooks = self.webhook.iter().cloned().map(NotifyTarget::Webhook);
        let programs = self.program.iter().cloned().map(NotifyTarget::Program);
        mails.chain(webhooks).chain(programs).collect()
    }
}

/// Opens a file of root or of this user that no other user may read.
pub(crate) fn open_private(path: &Path) -> Result<File> {
    let shown = path.display();
    // A FIFO must not hold the command up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|error| {
        let kind = match error {
            Errno::NOENT => FailureKind::NotFound,
            _ => FailureKind::Other,
        };
        Failure::new(kind, format!("cannot open '{shown}': {error}"))
    })?);
    let meta = file.metadata();
    let meta = meta.map_err(|error| Failure::other(format!("cannot read '{shown}': {error}")))?;
    let is_owned = [0, rustix::process::geteuid().as_raw()].contains(&meta.uid());
    match meta.is_file() && is_owned && meta.mode() & 0o077 == 0 {
        true => Ok(file),
        false => Err(usage(format!(
            "'{shown}' has to be a file of root or of this user, with mode 600"
        ))),
    }
}

/// The message of the parser without values of the file, which may be secrets. Names of fields are none.
fn without_values(message: &str) -> String {
    let message = message.trim().replace('\n', "; ");
    match message.starts_with("unknown field") {
        true => message,
        false => {
            let end = message.find(['`', '"']).unwrap_or(message.len());
            message[..end].trim_end().to_owned()
        }
    }
}

fn check(target: &NotifyTarget) -> std::result::Result<(), String> {
    let is_printable = |text: &str| text.chars().all(|c| c.is_ascii_graphic());
    match target {
        NotifyTarget::Mail(mail) => {
            match is_printable(&mail.to) && !mail.to.is_empty() && !mail.to.starts_with('-') {
                true => Ok(()),
                false => Err(format!("'{}' is not an address of mail", mail.to)),
            }
        }
        NotifyTarget::Webhook(webhook) => {
            let shown = host(&webhook.url);
            let is_here = ["http://127.0.0.1", "http://[::1]", "http://localhost"]
                .iter()
                .any(|here| {
                    let rest = webhook.url.strip_prefix(here);
                    rest.is_some_and(|rest| rest.starts_with([':', '/']))
                });
            let has_user = webhook
                .url
                .split('/')
                .nth(2)
                .is_some_and(|host| host.contains('@'));
            if has_user {
                return Err(format!("the webhook {shown} has a user; use token-file"));
            }
            if !is_printable(&webhook.url) || !(webhook.url.starts_with("https://") || is_here) {
                return Err(format!(
                    "the webhook {shown} has to begin with https://; http:// is for this machine only"
                ));
            }
            Ok(())
        }
        NotifyTarget::Program(program) => match program.path.is_absolute() {
            true => Ok(()),
            false => Err(format!(
                "'{}' has to be the whole path of a program",
                program.path.display()
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_understood_or_refused_with_their_line() {
        let good = "weekly = \"mon\"\n[[mail]]\nto = \"root\"\n\n[[webhook]]\nurl = \"https://hooks.example/T/secret\"\nform = \"slack\"\n";
        let config = NotifyConfig::parse(good).unwrap();
        assert_eq!(config.weekly, Some(Day::Mon));
        let shown: Vec<String> = config.targets().iter().map(NotifyTarget::shown).collect();
        assert_eq!(shown, ["mail to root", "webhook https://hooks.example"]);
        let refused = [
            ("", "names no target"),
            ("[[mail]]\nto = 1\n", "line 2"),
            ("[[mail]]\nto = \"root\"\nfrom = \"x\"\n", "line 3"),
            ("[[mail]]\nto = \"-oQ/tmp root\"\n", "not an address"),
            (
                "[[webhook]]\nform = \"json\"\nurl = \"http://other.example/\"\n",
                "https://",
            ),
            (
                "[[webhook]]\nform = \"json\"\nurl = \"http://127.0.0.1.other.example/\"\n",
                "https://",
            ),
            (
                "[[webhook]]\nform = \"smoke\"\nurl = \"https://a/\"\n",
                "line 2",
            ),
            ("[[program]]\npath = \"tell\"\n", "whole path"),
            (
                "[[webhook]]\nform = \"json\"\nurl = \"http://localhost:80@other.example/\"\n",
                "has a user",
            ),
            ("weekly = \"monday\"\n", "line 1"),
        ];
        for (text, why) in refused {
            let said = NotifyConfig::parse(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
        for text in [
            "[[webhook]]\nurl = \"https://a/\"\nform = \"SECRET\"\n",
            "[[program]]\npath = \"/a\"\nargs = \"SECRET\"\n",
            "[[mail]]\nto = SECRET\n",
        ] {
            let said = NotifyConfig::parse(text).unwrap_err();
            assert!(!said.contains("SECRET"), "{said}");
        }
        assert_eq!(
            host("https://user:word@a.example:8443/x?y"),
            "https://a.example:8443"
        );
    }
}
