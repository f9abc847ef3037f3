//! Completion of what is typed in a shell: commands and options from the definition of the command line, properties
//! from their table, and names of pools, datasets and snapshots from the daemon.
//!
//! A shell calls the program with [`VARIABLE`] set. A daemon that does not answer at once is left alone, and none
//! is started. Nothing is printed but candidates.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, Command};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{EnvCompleter, Fish, Zsh};
use protocol::api::{Ask, Failure, Reply, command};
use protocol::client::{DaemonConnection, Terminal, default_socket};
use protocol::pages::{ExitCode, PAGES};
use protocol::property::{Applies, PROPERTIES, Property, Settable};
use secret::Secret;

/// Set to the name of the shell by its script.
const VARIABLE: &str = "STRONGROOM_COMPLETE";

/// A user waits no longer for names.
const PATIENCE: Duration = Duration::from_millis(1000);

/// Bash splits words at `@`, `=` and `:` by itself, and does not look at quotes. This function takes the words as they
/// are typed. It returns the rest after the last of these characters, quoted unless a quote is open.
const BASH: &str = r#"_strongroom() {
    local line=${COMP_LINE:0:COMP_POINT} word= quote= quoted= letter
    local -a words=()
    local -i at
    for (( at = 0; at < ${#line}; at++ )); do
        letter=${line:at:1}
        if [[ $letter == '\' && $quote != "'" ]]; then
            at+=1
            word+=${line:at:1}
        elif [[ $quote && $letter == "$quote" ]]; then
            quote=
        elif [[ $quote ]]; then
            word+=$letter
        elif [[ $letter == [\'\"] ]]; then
            quote=$letter quoted=1
        elif [[ $letter == [[:space:]] ]]; then
            [[ $word || $quoted ]] && words+=("$word")
            word= quoted=
        else
            word+=$letter
        fi
    done
    words+=("$word")
    local typed=${2//\\/} IFS=$'\n'
    typed=${typed#[\'\"]}
    local kept=${word%"$typed"}
    COMPREPLY=( $(_CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$(( ${#words[@]} - 1 )) STRONGROOM_COMPLETE=bash \
        strongroom -- "${words[@]}" 2> /dev/null) )
    COMPREPLY=( "${COMPREPLY[@]#"$kept"}" )
    [[ $quote ]] || COMPREPLY=( "${COMPREPLY[@]// /\\ }" )
    [[ ${COMPREPLY[0]-} == *[=@:/] ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -o bashdefault -o default -F _strongroom strongroom
"#;

/// The completions of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pools,
    Datasets,
    /// Datasets, and after `@` snapshots.
    Snapshots,
    /// Names of properties, several with commas between them.
    Properties,
    /// `PROPERTY=VALUE`.
    Settings,
    /// The same, of a pool.
    PoolSettings,
    /// The same, or a dataset.
    SettingsOrDatasets,
    /// Pages and exit codes that `explain` knows.
    Topics,
}

/// Answers a shell that asks what could be typed on the command line that `program` defines. False if none does.
pub(crate) fn answer(program: fn() -> Command) -> bool {
    if std::env::var_os(VARIABLE).is_none_or(|shell| shell.is_empty()) {
        return false;
    }
    let completing = CompleteEnv::with_factory(|| with_names(program(), false)).var(VARIABLE);
    // A shell shows errors in the middle of what the user types.
    let _ = completing.try_complete(std::env::args_os(), None);
    true
}

/// The script that has a shell ask.
pub(crate) fn script(shell: clap_complete::Shell) -> std::io::Result<String> {
    let mut script = Vec::new();
    let name = "strongroom";
    match shell {
        clap_complete::Shell::Zsh => {
            Zsh.write_registration(VARIABLE, name, name, name, &mut script)?;
        }
        clap_complete::Shell::Fish => {
            Fish.write_registration(VARIABLE, name, name, name, &mut script)?;
        }
        _ => script.extend(BASH.bytes()),
    }
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Gives arguments what completes them. They are known by what the help calls their values.
fn with_names(command: Command, is_of_pools: bool) -> Command {
    let name = command.get_name().to_owned();
    let is_of_pools = is_of_pools || name == "pool";
    let command = command.mut_args(|arg| match kind(&arg, &name, is_of_pools) {
        None => arg,
        Some(kind) => arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
            let typed = unquoted(typed.to_str().unwrap_or_default());
            let candidates = candidates(kind, &typed).into_iter();
            let wanted = candidates.filter(|candidate| candidate.starts_with(&typed));
            wanted.map(CompletionCandidate::new).collect()
        })),
    });
    command.mut_subcommands(|below| with_names(below, is_of_pools))
}

/// A word without the quotes that some shells leave in it. No name contains any.
fn unquoted(typed: &str) -> String {
    typed.replace(['\\', '\'', '"'], "")
}

fn kind(arg: &Arg, command: &str, is_of_pools: bool) -> Option<Kind> {
    let shown = arg.get_value_names()?.first()?.as_str();
    match shown {
        "COLUMN,..." if command == "list" && !is_of_pools => Some(Kind::Properties),
        "PROPERTY" | "all|PROPERTY,..." if !is_of_pools => Some(Kind::Properties),
        "PROPERTY=VALUE" if !is_of_pools || arg.get_id() == "props" => Some(Kind::Settings),
        "PROPERTY=VALUE" => Some(Kind::PoolSettings),
        "PROPERTY=VALUE|DATASET" => Some(Kind::SettingsOrDatasets),
        "TOPIC" => Some(Kind::Topics),
        "NAME" if ["list", "get"].contains(&command) => Some(Kind::Snapshots),
        "OLD" if command == "rename" => Some(Kind::Snapshots),
        "FROM" if ["diff", "send"].contains(&command) => Some(Kind::Snapshots),
        _ => {
            let has = |word| shown.split(['|', '@']).any(|part| part == word);
            match () {
                () if has("SNAPSHOT") => Some(Kind::Snapshots),
                () if has("DATASET") => Some(Kind::Datasets),
                () if has("POOL") => Some(Kind::Pools),
                () => None,
            }
        }
    }
}

fn candidates(kind: Kind, typed: &str) -> Vec<String> {
    match kind {
        Kind::Pools => names(Vec::new(), Some(0), false),
        Kind::Datasets => names(Vec::new(), None, false),
        Kind::Snapshots => match typed.split_once('@') {
            None => names(Vec::new(), None, false),
            Some((dataset, _)) => names(vec![dataset.into()], Some(1), true),
        },
        Kind::Properties => {
            let before = &typed[..typed.rfind(',').map_or(0, |at| at + 1)];
            let all = PROPERTIES.iter().map(|property| property.name);
            all.map(|name| format!("{before}{name}")).collect()
        }
        Kind::Settings => settings(typed, |property| property.applies != Applies::Pools),
        Kind::PoolSettings => settings(typed, |property| property.applies == Applies::Pools),
        Kind::Topics => {
            let codes = ExitCode::all().map(|code| code.code.to_string());
            codes
                .chain(PAGES.iter().map(|page| page.name.into()))
                .collect()
        }
        Kind::SettingsOrDatasets => {
            let mut all = settings(typed, |property| property.applies != Applies::Pools);
            if !typed.contains('=') {
                all.extend(names(Vec::new(), None, false));
            }
            all
        }
    }
}

/// Properties with their values, or before `=` their names.
fn settings(typed: &str, is_meant: impl Fn(&Property) -> bool) -> Vec<String> {
    let settable = |property: &&Property| property.settable != Settable::Never;
    let Some((name, _)) = typed.split_once('=') else {
        let all = PROPERTIES.iter().filter(settable);
        let meant = all.filter(|property| is_meant(property));
        return meant
            .map(|property| format!("{}=", property.name))
            .collect();
    };
    let found = Property::find(name).filter(settable);
    let values = found.map_or_else(Vec::new, |property| property.values.offered());
    let whole = values.iter().map(|value| format!("{name}={value}"));
    whole.collect()
}

/// Names from the daemon that runs; none if it does not answer soon.
fn names(of: Vec<String>, depth: Option<u32>, snapshots: bool) -> Vec<String> {
    let socket = socket(std::env::args());
    let (tell, told) = mpsc::channel();
    let command = command::Get {
        names: of,
        depth,
        snapshots,
        bookmarks: false,
        // None would mean all; this one needs no device.
        props: vec!["guid".into()],
    };
    let asked = threads::start("completion", move || {
        let client = DaemonConnection::connect(&socket);
        let _ = tell.send(client.and_then(|client| client.call(command, &mut Silent)));
    });
    if asked.is_err() {
        return Vec::new();
    }
    match told.recv_timeout(PATIENCE) {
        Ok(Ok(Reply::Datasets(rows))) => rows.into_iter().map(|row| row.name).collect(),
        _ => Vec::new(),
    }
}

/// The socket that is typed, or the usual one.
fn socket(mut words: impl Iterator<Item = String>) -> PathBuf {
    while let Some(word) = words.next() {
        if let Some(path) = word.strip_prefix("--socket=") {
            return path.into();
        }
        if word == "--socket" {
            return words.next().map_or_else(default_socket, PathBuf::from);
        }
    }
    default_socket()
}

/// Asks nobody anything.
struct Silent;

impl Terminal for Silent {
    fn ask(&mut self, _: &Ask) -> Result<Option<Secret>, Failure> {
        Ok(None)
    }

    fn notice(&mut self, _: &str) {}
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cmd::cli::Cli;

    #[test]
    fn arguments_are_known_by_their_values() {
        fn count(command: &Command, path: &str, found: &mut Vec<String>) {
            for arg in command.get_arguments() {
                if arg.get::<ArgValueCompleter>().is_some() {
                    found.push(format!("{path} {}", arg.get_id()));
                }
            }
            for below in command.get_subcommands() {
                count(below, &format!("{path} {}", below.get_name()), found);
            }
        }
        let mut found = Vec::new();
        count(&with_names(Cli::command(), false), "", &mut found);
        for wanted in [
            " destroy name",
            " list names",
            " list columns",
            " get props",
            " set words",
            " pool status words",
            " snapshot names",
            " rollback name",
            " key load names",
            " explain topic",
        ] {
            assert!(found.iter().any(|one| one == wanted), "{wanted}: {found:?}");
        }
        for foreign in [" pool get props", " get fields", " pefs mount from"] {
            assert!(!found.iter().any(|one| one == foreign), "{foreign}");
        }
    }

    #[test]
    fn properties_and_values_need_no_daemon() {
        let has = |kind, typed: &str, wanted: &str| {
            candidates(kind, typed).iter().any(|one| one == wanted)
        };
        assert!(has(Kind::Topics, "pool-", "pool-full"));
        assert!(has(Kind::Properties, "us", "used"));
        assert!(has(Kind::Properties, "used,re", "used,referenced"));
        assert!(has(Kind::Settings, "compr", "compression="));
        assert!(!has(Kind::Settings, "us", "used="));
        assert!(has(Kind::Settings, "atime=", "atime=off"));
        assert!(candidates(Kind::Settings, "nonsense=").is_empty());
        assert!(candidates(Kind::Settings, "used=").is_empty());
        for offered in ["compression=zstd-3", "compression=lz4"] {
            assert!(has(Kind::Settings, "compression=", offered), "{offered}");
        }
        assert!(has(
            Kind::Settings,
            "encryption=a",
            "encryption=aes-256-gcm"
        ));
        assert!(has(Kind::Settings, "recordsize=", "recordsize=128K"));
        assert!(has(Kind::PoolSettings, "multi", "multihost="));
        assert!(!has(Kind::Settings, "multi", "multihost="));
    }

    #[test]
    fn the_socket_is_the_one_that_is_typed() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        for line in [
            "x --socket /a list",
            "x list --socket=/a",
            "x -- --json --socket /a",
        ] {
            assert_eq!(
                socket(words(line).into_iter()),
                PathBuf::from("/a"),
                "{line}"
            );
        }
    }
}
