//! The target of a job on another host, by its HTTPS API.
//!
//! This program is started as the owner of the job, and sends one request each time (`strongroom web call`). So the owner's
//! rights decide which token it reads, and the process that has the keys reads nothing that the other host says but the
//! rows of a listing, in the same way as with `ssh`. The token is named by its file and never passed on.

use std::process::Command;
use std::sync::Arc;

use protocol::api::{DatasetRow, VerifiedSnapshot};

use crate::failure::{Failure, Result};
use crate::serve::replication::listing::PROPS;
use crate::serve::replication::remote::program::OwnerPrograms;
use crate::serve::replication::remote::rows::rows_of;
use crate::serve::replication::verification::remote::answered_of;
use crate::state::callers::channel::DataChannel;
use crate::state::replication::job::ReplicationJob;
use crate::state::replication::progress::RunProgress;
use crate::state::replication::target::HttpsTarget;

/// The path of this program, also if its file was replaced by a newer one.
const PROGRAM: &str = "/proc/self/exe";

/// The site of another host, with a token for it.
pub(crate) struct HttpsSite {
    target: HttpsTarget,
    token: String,
    authorities: Option<String>,
    programs: OwnerPrograms,
}

impl HttpsSite {
    pub(crate) fn new(
        target: &HttpsTarget,
        job: &ReplicationJob,
        progress: &Arc<RunProgress>,
    ) -> Result<HttpsSite> {
        let files = job.files()?;
        Ok(HttpsSite {
            target: target.clone(),
            token: files.token,
            authorities: files.authorities,
            programs: OwnerPrograms::new(&target.host, job, progress)?,
        })
    }

    /// The rows of a listing of the other host.
    pub(crate) fn list(&self, name: &str, recursive: bool) -> Result<Vec<DatasetRow>> {
        let depth = if recursive { "" } else { "&depth=1" };
        let path = format!(
            "/v1/datasets?name={}{depth}&snapshots=true&bookmarks=true&properties={}",
            encoded(name),
            PROPS.join(",")
        );
        let text = self.programs.ask(self.call(&["get", &path]))?;
        let failed = || self.programs.failed("its listing is not understood");
        rows_of(&text).ok_or_else(failed)
    }

    /// Throws away what an interrupted receive left.
    pub(crate) fn abandon(&self, name: &str) -> Result<()> {
        let body = serde_json::json!({ "target": name }).to_string();
        let call = self.call(&["post", "receive-abandon", &body]);
        self.programs.ask(call).map(drop)
    }

    /// Refuses a change that a token does not allow that only receives. `how` is the command that does it there. The owner
    /// of the job has lost no right, so the job goes on.
    pub(crate) fn refuse(&self, what: &str, how: &str) -> Result<()> {
        let why = format!(
            "{}: {what}, and a job by https only adds to its target; do it there: {how}",
            self.target.host
        );
        Err(Failure::usage(why))
    }

    /// Has the other host receive a stream that `send` writes.
    pub(crate) fn receive(
        &self,
        name: &str,
        said: String,
        limit: Option<u64>,
        send: impl FnOnce(Arc<dyn DataChannel>) -> Result<()>,
    ) -> Result<()> {
        let query = format!("target={}&resumable=true&no_mount=true", encoded(name));
        let command = self.call(&["receive", &query]);
        self.programs.receive(command, said, limit, send)
    }

    /// Has the other host read snapshots.
    pub(crate) fn verify(
        &self,
        names: &[String],
        challenge: &str,
    ) -> Result<Vec<VerifiedSnapshot>> {
        let body = serde_json::json!({ "names": names, "challenge": challenge }).to_string();
        let text = self.programs.ask(self.call(&["post", "verify", &body]))?;
        let failed = || self.programs.failed("its verification is not understood");
        answered_of(&text, names).ok_or_else(failed)
    }

    /// The command for one request.
    fn call(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["web", "call", "--token", &self.token]);
        if let Some(authorities) = &self.authorities {
            command.args(["--ca", authorities]);
        }
        command.args(["--", &self.target.place()]).args(words);
        command
    }
}

/// A name as a part of an address.
fn encoded(name: &str) -> String {
    let one = |byte: u8| match byte {
        b'/' | b'-' | b'_' | b'.' | b':' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_an_address() {
        assert_eq!(encoded("backup/a-b_1.2:x"), "backup/a-b_1.2:x");
        assert_eq!(encoded("a b&c=d%#?+é"), "a%20b%26c%3Dd%25%23%3F%2B%C3%A9");
    }
}
