//! The HTTP API and the dashboard: serving them, and tokens.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Serve the HTTP API and the dashboard
///
/// Listens at the socket web.sock beside the socket of the daemon. A request has the rights of the user who
/// connects, as with the command line: root may do everything, other users what `strongroom allow` permits.
/// Each connection is served by a process of its own, with the rights of that user.
///
/// With --listen it also listens on the network, with TLS only. There a request shows a token, and has the
/// rights of the user of the token. `strongroom web token create` makes one. A renewed certificate is used
/// without a restart.
///
/// docs/WEB.md describes the API. `/v1/openapi.json` has all requests and replies.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
EXAMPLES
  Serve at the socket; show pools:
    strongroom web &
    curl --unix-socket /run/strongroom/web.sock http://localhost/v1/pools

  The dashboard in a browser on this machine:
    strongroom web open

  The dashboard in a browser on another machine, by SSH, at http://localhost:8080/ there:
    ssh -L 8080:/run/strongroom/web.sock root@nas

  Serve on the network too, with a token for 30 days:
    strongroom web --listen 0.0.0.0:8443 --tls-cert nas.pem --tls-key nas.key --name nas.example
    strongroom web token create --expires 30d phone

EXIT CODES
  2 if the address is malformed; 4 if it is served already; 5 if the address is in use; 13 if the
  daemon cannot be reached."
)]
pub(crate) struct Web {
    /// The socket to listen at; default: web.sock beside the socket of the daemon
    #[arg(long, value_name = "PATH")]
    pub(crate) at: Option<PathBuf>,
    /// The address to listen at on the network, as ADDRESS:PORT; port 0 is any free port
    #[arg(long, value_name = "ADDRESS", requires_all = ["tls_cert", "tls_key"])]
    pub(crate) listen: Option<String>,
    /// The certificate for the network and those that lead to its authority, as PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The authorities of clients' certificates, as PEM: a client without a certificate of one is refused
    ///
    /// The certificate is needed besides the token.
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// A name by which clients reach this machine, besides its host name and addresses; repeatable
    #[arg(long = "name", value_name = "NAME", requires = "listen")]
    pub(crate) names: Vec<String>,
    #[command(subcommand)]
    pub(crate) command: Option<WebCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WebCommand {
    Open(PageLink),
    #[command(subcommand)]
    Token(Token),
    /// Serve one connection, or the network
    ///
    /// `strongroom web` starts a process like this for each connection at the socket, and one for the network.
    /// It ends with the process that started it.
    #[command(
        hide = true,
        after_help = "\
EXAMPLES
  For a connection that is the standard input, started by the process 1234:
    strongroom web serve connection 1234"
    )]
    Serve {
        /// Service of the process
        what: String,
        /// The process that started it
        parent: u32,
    },
    /// Send one request to the site of another host
    ///
    /// A job of `strongroom replicate` with a target by https starts a process like this for each request, as the user
    /// of the job.
    #[command(
        hide = true,
        after_help = "\
EXAMPLES
  List the datasets of a token:
    strongroom web call --token /root/nas.token nas.example:8443 get \\
      '/v1/datasets?properties=guid'"
    )]
    Call(SiteCall),
}

#[derive(Args, Debug)]
pub(crate) struct SiteCall {
    /// The file with the token
    #[arg(long, value_name = "FILE")]
    pub(crate) token: PathBuf,
    /// The authorities of the certificate, as PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The address of the site, as HOST:PORT
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
    /// The request: get PATH, post COMMAND BODY, or receive QUERY with the stream as input
    #[arg(value_name = "REQUEST", required = true, num_args = 2..=3)]
    pub(crate) request: Vec<String>,
}

/// Open the dashboard in a browser on this machine
///
/// Prints a link. The first browser that opens it has your rights, until you log out, or for 30 minutes without
/// use. The link can be opened once, within 60 seconds. This command serves the page, and ends with it.
///
/// Connections of other users of the machine are closed at once. Your own are accepted, and those of the user who
/// called sudo. `strongroom web` need not run.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  With your own rights; with those of root, in your own browser:
    strongroom web open
    sudo strongroom web open

  Root's page in the browser of ann:
    strongroom web open --user ann

JSON
  {\"url\"}

EXIT CODES
  1 if the link is not opened in time; 3 if there is no such user; 6 if you name a user and are not
  root; 13 if the daemon cannot be reached.")]
pub(crate) struct PageLink {
    /// The user whose browser may open root's link too; default: the one who called sudo
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
}

/// Create, list and revoke tokens for the network
///
/// A request on the network that shows a token has the rights of the user of the token. The daemon keeps a
/// hash of it only. Everyone who can read the token has these rights until it ends or is revoked. So keep it like a
/// password.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
EXAMPLES
  Make a token, use it, and revoke it:
    strongroom web token create --user ann --expires 1d backup > token
    curl -H \"Authorization: Bearer $(cat token)\" https://nas.example:8443/v1/datasets
    strongroom web token list
    strongroom web token revoke 1a2b3c4d")]
pub(crate) enum Token {
    Create(TokenCreate),
    List(TokenList),
    /// Revoke a token
    ///
    /// The next request that shows it is refused. A stream of events ends within ten minutes.
    #[command(after_help = "\
EXAMPLES
  Revoke one; `token list` shows the ids:
    strongroom web token revoke 1a2b3c4d

EXIT CODES
  3 if there is no such token, or it is of another user.")]
    Revoke {
        /// The id of the token
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Create a token, and print it
///
/// It is printed once. Users other than root create tokens for themselves only, and a token cannot create
/// tokens.
///
/// A token has the rights of its user. --read-only, --dataset and --commands take rights away, and never give any.
/// With --dataset, a token of root does what a user with all permissions on the dataset does, except for keysource,
/// mountpoint, setuid, devices, multihost, reservations and permissions of others.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  A token of your own, for 90 days; one for the tenant of a zone that never ends:
    strongroom web token create phone
    strongroom web token create --zone web --expires never container

  A token that only looks; one that sends backups of a dataset:
    strongroom web token create --read-only dashboard
    strongroom web token create --dataset tank/home --commands get,send backup

  One for the jobs of another host that copy to this one:
    strongroom web token create --dataset backup/nas --receive-only --expires never nas

JSON
  {\"id\", \"token\"}

EXIT CODES
  2 if there is no such command; 3 if there is no such user, zone or dataset; 6 if the token is for
  another user, and you are not root.")]
pub(crate) struct TokenCreate {
    /// The user whose rights it gives; default: you
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// The zone that it leads into: then its user is a tenant there
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Refuse commands that change something
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Reach this dataset and those below it; the token keeps it when it is renamed
    #[arg(long, value_name = "DATASET", conflicts_with = "zone")]
    pub(crate) dataset: Option<String>,
    /// Receive sealed streams into --dataset and below, and change nothing else
    ///
    /// The token is for a host that sends copies by itself. A thief of it can add snapshots, and destroys, renames and
    /// reads nothing.
    #[arg(long, requires = "dataset", conflicts_with_all = ["read_only", "commands"])]
    pub(crate) receive_only: bool,
    /// Accept these commands, by their names in the HTTP API, such as `get,send`
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) commands: Vec<String>,
    /// Time that it is accepted: a number with s, m, h or d, or `never`
    #[arg(long, value_name = "TIME", default_value = "90d")]
    pub(crate) expires: String,
    /// Purpose of the token, to recognize it in the list
    #[arg(value_name = "LABEL")]
    pub(crate) label: String,
}

/// List tokens
///
/// Shows your tokens, or with root's rights those of all users. The tokens themselves are not known.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES
  All tokens:
    strongroom web token list

JSON
  [{\"id\", \"user\", \"label\", \"zone\": NAME|null, \"scope\": {\"read_only\", \"dataset\": NAME|null,
  \"commands\": [NAME, ...], \"receive_only\"}, \"created\", \"expires\": SECONDS|null,
  \"last_used\": SECONDS|null}, ...]; last_used is since the daemon started.")]
pub(crate) struct TokenList {
    /// Print no header, and tabs between columns
    #[arg(short = 'H')]
    pub(crate) script: bool,
}
