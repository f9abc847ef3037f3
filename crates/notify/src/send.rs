//! Sends a message to a target.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::config::{MailTarget, NotifyTarget, ProgramTarget};
use crate::message::{NoticeToPeople, SendResult, folded};
use crate::webhook;

/// The time that a program may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks at a program that runs.
const LOOK: Duration = Duration::from_millis(50);
/// The longest line of mail, in bytes. Some servers refuse lines of more than 998 (RFC 5322, 2.1.1).
const LINE_MAX: usize = 900;
const SENDMAIL: &str = "/usr/sbin/sendmail";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Sends a message.
pub(crate) fn send(target: &NotifyTarget, notice: &NoticeToPeople) -> SendResult {
    match target {
        NotifyTarget::Mail(mail) => send_mail(Path::new(SENDMAIL), mail, notice),
        NotifyTarget::Program(program) => {
            let json = serde_json::to_vec(notice).map_err(|error| error.to_string())?;
            run(program, &json)
        }
        NotifyTarget::Webhook(webhook) => webhook::send(webhook, notice),
    }
}

fn send_mail(sendmail: &Path, mail: &MailTarget, notice: &NoticeToPeople) -> SendResult {
    let priority = if notice.is_critical {
        "X-Priority: 1\n"
    } else {
        ""
    };
    let message = format!(
        "To: {}\nSubject: {}\nAuto-Submitted: auto-generated\n{priority}MIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{}",
        mail.to,
        notice.title,
        folded(&notice.text, LINE_MAX)
    );
    let program = ProgramTarget {
        path: sendmail.to_owned(),
        // A line with a dot alone does not end the message.
        args: vec!["-oi".into(), "--".into(), mail.to.clone()],
    };
    run(&program, message.as_bytes())
}

/// Runs a program with an input. It has no variables of the environment but `PATH`.
fn run(program: &ProgramTarget, input: &[u8]) -> SendResult {
    let shown = program.path.display();
    let started = Command::new(&program.path)
        .args(&program.args)
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = started.map_err(|error| format!("cannot start {shown}: {error}"))?;
    let mut stdin = child.stdin.take();
    let input = input.to_vec();
    // A program that reads nothing must not hold this one up.
    let written = threads::start("notify-input", move || {
        stdin
            .as_mut()
            .map_or(Ok(()), |stdin| stdin.write_all(&input))
    });
    let Ok(written) = written else {
        let _ = child.kill();
        let _ = child.wait();
        return Err("no thread can be started".into());
    };
    let ended = wait(&mut child);
    // A child of the program may hold the input open.
    drop(written);
    match ended? {
        status if status.success() => Ok(()),
        status => Err(format!("{shown} ended with {status}")),
    }
}

fn wait(child: &mut Child) -> Result<std::process::ExitStatus, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} s", PATIENCE.as_secs()));
            }
            Err(error) => return Err(format!("it cannot be waited for: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::problem::CurrentProblem;
    use crate::record::News;

    #[test]
    fn a_mail_has_a_head_and_short_lines() {
        let dir = tempfile::tempdir().unwrap();
        let (program, got) = (dir.path().join("sendmail"), dir.path().join("got"));
        let script = format!("#!/bin/sh\necho \"$@\" > {0}\ncat >> {0}\n", got.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let news = News {
            new: vec![CurrentProblem {
                pool: Some("tank".into()),
                subject: "damage".into(),
                is_critical: true,
                text: format!("damaged: {}", "\u{e4}\r\nBcc: all ".repeat(200)),
                action: None,
            }],
            ..News::default()
        };
        let notice = NoticeToPeople::of_news("vault", news).unwrap();
        let mail = MailTarget { to: "root".into() };
        send_mail(&program, &mail, &notice).unwrap();
        let text = fs::read_to_string(&got).unwrap();
        assert!(
            text.starts_with(
                "-oi -- root\nTo: root\nSubject: strongroom on vault: CRITICAL: tank needs"
            ),
            "{text}"
        );
        assert!(
            text.lines()
                .all(|line| line.len() <= LINE_MAX && !line.starts_with("Bcc"))
        );
        fs::write(&program, "#!/bin/sh\nexit 75\n").unwrap();
        let why = send_mail(&program, &mail, &notice).unwrap_err();
        assert!(why.contains("exit status: 75"), "{why}");
    }
}
