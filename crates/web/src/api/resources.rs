//! The resources of the API: the JSON that the commands print.

use protocol::api::{Command, DatasetRow, OwnerKind, Reply, command};
use protocol::json;
use protocol::property::{PROPERTIES, PropertyFacts};
use serde_json::Value as Json;

use super::daemon::ApiCaller;
use super::{health, jobs};
use crate::http::{Problem, UrlQuery};

/// A resource.
pub(super) struct Resource {
    pub(super) path: &'static str,
    pub(super) about: &'static str,
    pub(super) parameters: &'static [&'static str],
    get: fn(&UrlQuery, &ApiCaller) -> Result<Json, Problem>,
    /// The kind of reply that it shows, as in `enum Reply`; if empty, something of its own.
    pub(super) reply: &'static str,
}

macro_rules! resources {
    ($($path:literal $about:literal $parameters:expr, $reply:literal, $get:expr;)*) => {
        /// All of them.
        pub(super) const RESOURCES: &[Resource] = &[$(Resource {
            path: $path,
            about: $about,
            parameters: &$parameters,
            reply: $reply,
            get: $get,
        }),*];
    };
}

resources! {
    "/v1/daemon" "The daemon" [], "daemon", |_, caller| shown(caller, Command::DaemonStatus);
    "/v1/pools" "The state of pools" ["name"], "pools", |query, caller| {
        let pools = query.all("name");
        shown(caller, command::PoolStatus { pools, names_files: false })
    };
    "/v1/io" "What devices did since they were opened" ["name"], "io", |query, caller| {
        let pools = query.all("name");
        shown(caller, command::PoolIo { pools })
    };
    "/v1/features" "Features of pools" ["name"], "features", |query, caller| {
        let pools = query.all("name");
        shown(caller, command::PoolFeatures { pools })
    };
    "/v1/history" "What was done to a pool" ["name", "internal"], "history", |query, caller| {
        let (pool, internal) = (query.needed("name")?, query.flag("internal")?);
        shown(caller, command::PoolHistory { pool, internal })
    };
    "/v1/events" "What happened to pools lately" ["after"], "events", |query, caller| {
        let after = query.number("after")?.unwrap_or(0);
        shown(caller, command::PoolEvents { after, clear: false })
    };
    "/v1/datasets" "Datasets with their properties" ["name", "depth", "properties", "snapshots", "bookmarks"], "datasets", |query, caller| {
        let rows = datasets(query, caller, query.flag("snapshots")?)?;
        Ok(json::datasets(&rows))
    };
    "/v1/snapshots" "Snapshots with their properties" ["name", "depth", "properties"], "datasets", |query, caller| {
        let mut rows = datasets(query, caller, true)?;
        rows.retain(|row| row.kind == "snapshot");
        Ok(json::datasets(&rows))
    };
    "/v1/keys" "Whether keys are loaded" ["name"], "keys", |query, caller| {
        let names = query.all("name");
        shown(caller, command::KeyStatus { names })
    };
    "/v1/slots" "The slots of a key" ["name"], "slots", |query, caller| {
        let name = query.needed("name")?;
        shown(caller, command::KeySlots { name })
    };
    "/v1/generations" "The data keys of a dataset" ["name"], "generations", |query, caller| {
        let name = query.needed("name")?;
        shown(caller, command::KeyGenerations { name })
    };
    "/v1/mounts" "What is mounted" [], "mounts", |_, caller| shown(caller, Command::Mounts);
    "/v1/zones" "Zones" [], "zones", |_, caller| shown(caller, Command::Zones);
    "/v1/tokens" "Tokens" [], "tokens", |_, caller| shown(caller, Command::Tokens);
    "/v1/exports/nbd" "Exports" [], "exports", |_, caller| shown(caller, Command::NbdExports);
    "/v1/exports/ublk" "Devices of the kernel by ublk" [], "exports", |_, caller| shown(caller, Command::UblkDevices);
    "/v1/exports/iscsi" "Targets of iSCSI" [], "exports", |_, caller| shown(caller, Command::IscsiExports);
    "/v1/sessions" "Sessions of initiators" [], "sessions", |_, caller| shown(caller, Command::IscsiSessions);
    "/v1/mappings" "Open LUKS containers" ["name"], "mappings", |query, caller| {
        let names = query.all("name");
        shown(caller, command::LuksStatus { names })
    };
    "/v1/replications" "Jobs that copy datasets" ["name"], "replications", |query, caller| {
        let names = query.all("name");
        shown(caller, command::ReplicateList { names })
    };
    "/v1/holds" "Tags on snapshots" ["name", "recursive"], "holds", |query, caller| {
        let (names, recursive) = (query.all("name"), query.flag("recursive")?);
        shown(caller, command::Holds { names, recursive })
    };
    "/v1/permissions" "Who may do what to a dataset" ["name"], "permissions", |query, caller| {
        let name = query.needed("name")?;
        shown(caller, command::Permissions { name })
    };
    "/v1/users" "What users have in a dataset" ["name"], "accounts", |query, caller| accounts(query, caller, OwnerKind::User);
    "/v1/groups" "What groups have in a dataset" ["name"], "accounts", |query, caller| accounts(query, caller, OwnerKind::Group);
    "/v1/diff" "What differs between two states of a dataset" ["name", "to"], "diff", |query, caller| {
        let (from, to) = (query.needed("name")?, query.one("to")?);
        shown(caller, command::Diff { from, to })
    };
    "/v1/properties" "The properties that datasets can have" [], "", |_, _| {
        let rows: Vec<PropertyFacts> = PROPERTIES.iter().map(PropertyFacts::of).collect();
        Ok(json::value(&rows))
    };
    "/v1/jobs" "Long work: what runs, and what ran last" [], "", |_, caller| jobs::list(caller);
    "/v1/health" "What needs attention" [], "", |_, caller| health::report(caller);
}

impl Resource {
    /// Returns whether the parameter `name` has to be given, once. Other resources take any number of names.
    pub(super) fn needs_one_name(&self) -> bool {
        let path = self.path.trim_start_matches("/v1/");
        let ones = [
            "history",
            "slots",
            "generations",
            "permissions",
            "users",
            "groups",
            "diff",
        ];
        ones.contains(&path)
    }
}

/// Returns whether there is a resource at this path.
pub(super) fn exists(path: &str) -> bool {
    RESOURCES.iter().any(|resource| resource.path == path)
}

/// The resource at a path.
pub(super) fn get(path: &str, query: &UrlQuery, caller: &ApiCaller) -> Result<Json, Problem> {
    let found = RESOURCES.iter().find(|resource| resource.path == path);
    let resource = found.ok_or_else(|| Problem::no_such(path))?;
    query.only(resource.parameters)?;
    (resource.get)(query, caller)
}

fn shown(caller: &ApiCaller, command: impl Into<Command>) -> Result<Json, Problem> {
    let reply = caller.ask(command)?;
    Ok(json::reply(&reply).1)
}

fn accounts(query: &UrlQuery, caller: &ApiCaller, kind: OwnerKind) -> Result<Json, Problem> {
    let (name, check) = (query.needed("name")?, false);
    shown(caller, command::Userspace { name, kind, check })
}

fn datasets(
    query: &UrlQuery,
    caller: &ApiCaller,
    snapshots: bool,
) -> Result<Vec<DatasetRow>, Problem> {
    let bookmarks = query.flag("bookmarks")?;
    let props = query.one("properties")?.unwrap_or_default();
    let props = props.split(',').filter(|name| !name.is_empty());
    let get = command::Get {
        names: query.all("name"),
        depth: query.number("depth")?,
        snapshots,
        bookmarks,
        props: props.map(str::to_owned).collect(),
    };
    match caller.ask(get)? {
        Reply::Datasets(rows) => Ok(rows),
        _ => Ok(Vec::new()),
    }
}
