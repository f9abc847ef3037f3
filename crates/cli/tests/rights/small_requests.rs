//! Small request, large work: each command, as a delegate and as a tenant, with as much as fits into a request. What it
//! takes of the daemon has a limit. `STRONGROOM_SEEDS` (FIRST+COUNT) makes other and more requests.

use crate::site as web;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::common::*;
use crate::site::Web;
use rustix::process::{Gid, Uid};
use serde_json::{Map, Value as Json, json};

/// The largest request of a user other than root, in bytes.
const REQUEST_MAX: usize = 1 << 20;
/// The snapshots of each dataset.
const SNAPSHOTS: usize = 30;
/// The longest list in a request.
const NAMES_MAX: usize = 10_000;
/// The most memory that the daemon may take for one request, in KiB.
const MEMORY_MAX: u64 = 48 << 10;
/// The largest answer to one request, in bytes.
const ANSWER_MAX: u64 = 65 << 20;
/// The most that one request may write to the log, in bytes.
const LOG_MAX: u64 = 16 << 10;
/// The most processor time for one request, in ticks of 10 ms.
const TICKS_MAX: u64 = 1000;

/// The contents that make a request large.
#[derive(Clone, Copy, Debug)]
enum Style {
    /// Lists with many equal entries.
    Equal,
    /// Lists with many different entries.
    Different,
    /// Long texts.
    Long,
    /// A little of everything.
    Mixed,
}

const STYLES: [Style; 4] = [Style::Equal, Style::Different, Style::Long, Style::Mixed];

/// A caller that makes requests, and the names that this caller may use.
struct Role {
    uid: u32,
    socket: PathBuf,
    names: Vec<String>,
}

/// A generator of numbers: xorshift64*.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn one_of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}

/// Makes a value that a schema allows.
struct Generator<'a> {
    numbers: Numbers,
    style: Style,
    role: &'a Role,
    /// The bytes that are left of the request.
    left: usize,
}

impl Generator<'_> {
    fn value(&mut self, schema: &Json, field: &str) -> Json {
        for any in ["anyOf", "oneOf"] {
            if let Some(choices) = schema[any].as_array() {
                let choice = self.numbers.below(choices.len());
                return self.value(&choices[choice], field);
            }
        }
        if let Some(words) = schema["enum"].as_array() {
            return self.numbers.one_of(words).clone();
        }
        match schema["type"].as_str() {
            Some("boolean") => (self.numbers.below(2) == 1).into(),
            Some("integer") => (*self
                .numbers
                .one_of(&[0, 1, 60, 1 << 20, u64::from(u32::MAX)]))
            .into(),
            Some("number") => 1.into(),
            Some("string") => self.text(field).into(),
            Some("array") => self.list(schema, field),
            Some("object") => self.object(schema),
            _ => Json::Null,
        }
    }

    fn object(&mut self, schema: &Json) -> Json {
        let mut object = Map::new();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            object.insert(name.clone(), self.value(member, name));
        }
        object.into()
    }

    fn list(&mut self, schema: &Json, field: &str) -> Json {
        if let Some(members) = schema["prefixItems"].as_array() {
            let members = members.iter().enumerate();
            let field = |at| if at == 0 { "prop" } else { "value" };
            return members
                .map(|(at, member)| self.value(member, field(at)))
                .collect();
        }
        let len = match self.style {
            Style::Equal | Style::Different => NAMES_MAX,
            Style::Long => 1,
            Style::Mixed => self.numbers.below(50),
        };
        let mut list = Vec::new();
        while list.len() < len && self.left > 4096 {
            let before = self.left;
            let item = match (self.style, list.first()) {
                (Style::Equal, Some(first)) => Json::clone(first),
                _ => self.value(&schema["items"], field),
            };
            self.left = before.saturating_sub(item.to_string().len() + 1);
            list.push(item);
        }
        list.into()
    }

    fn text(&mut self, field: &str) -> String {
        if matches!(self.style, Style::Long) && self.left > 4096 {
            let long = "long/".repeat(self.left / 10);
            self.left /= 2;
            return match self.numbers.below(2) {
                0 => long,
                _ => format!("{}/{long}", self.role.names[0]),
            };
        }
        let number = self.numbers.next();
        match field {
            "prop" | "props" => match self.numbers.below(8) {
                0 => format!("org.example:{number:x}"),
                1 => format!("userused@{}", number % 1_000_000),
                2 => "written@1".into(),
                _ => (*self.numbers.one_of(&[
                    "all",
                    "used",
                    "compression",
                    "quota",
                    "origin",
                    "clones",
                ]))
                .into(),
            },
            "keysource" => "hex,prompt".into(),
            "tag" | "label" | "value" => format!("{number:x}"),
            _ => match (self.style, self.numbers.below(16)) {
                // Of a missing name nothing is done for the others.
                (Style::Mixed, 0) => format!("{}/{number:x}", self.role.names[0]),
                (Style::Mixed, 1) => format!("{}@{number:x}", self.role.names[0]),
                _ => self.numbers.one_of(&self.role.names).clone(),
            },
        }
    }
}

/// The resources that the daemon spends on a request.
#[derive(Debug)]
struct Cost {
    memory_kib: u64,
    answer_bytes: u64,
    log_bytes: u64,
    /// Processor time, in units of 10 ms.
    ticks: u64,
}

impl Cost {
    fn is_within_budget(&self) -> bool {
        self.memory_kib <= MEMORY_MAX
            && self.answer_bytes <= ANSWER_MAX
            && self.log_bytes <= LOG_MAX
            && self.ticks <= TICKS_MAX
    }
}

/// Has a request answered. Returns its cost and the last answer.
fn measure(place: &Place, role: &Role, request: &str) -> (Cost, String) {
    let pid = place.pid();
    let log_bytes = || fs::metadata(place.path("state/daemon.log")).map_or(0, |log| log.len());
    // The peak begins anew.
    fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
    let (ticks, log, resident) = (ticks(pid), log_bytes(), memory(pid, "VmRSS"));
    let (answer_bytes, answer) = send(role, request.as_bytes());
    let cost = Cost {
        memory_kib: memory(pid, "VmHWM").saturating_sub(resident),
        answer_bytes,
        log_bytes: log_bytes().saturating_sub(log),
        ticks: self::ticks(pid) - ticks,
    };
    (cost, answer)
}

/// The processor time of the daemon so far.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the daemon runs");
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let field = |at: usize| fields[at].parse::<u64>().unwrap();
    field(11) + field(12)
}

/// A line of the status of the daemon, in KiB.
fn memory(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends a request as a user, without secrets and data. Returns the number of bytes of the answers, and the last answer.
fn send(role: &Role, request: &[u8]) -> (u64, String) {
    let ask = || {
        // Of this thread only.
        rustix::thread::set_thread_gid(Gid::from_raw(role.uid)).unwrap();
        rustix::thread::set_thread_uid(Uid::from_raw(role.uid)).unwrap();
        let mut stream = UnixStream::connect(&role.socket).expect("a socket");
        let frame = |kind: u8, bytes: &[u8]| {
            let len = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            [&[kind], &len[..], bytes].concat()
        };
        // One that is refused at once may close the connection before it has read all.
        let _ = stream.write_all(&frame(b'J', request));
        let mut read = 0;
        let mut last = Vec::new();
        let mut head = [0; 5];
        while stream.read_exact(&mut head).is_ok() {
            let len = u32::from_le_bytes(head[1..].try_into().unwrap());
            read += 5 + u64::from(len);
            let mut answer = vec![0; len as usize];
            if stream.read_exact(&mut answer).is_err() {
                break;
            }
            let reply = match answer.get(..8) {
                _ if head[0] != b'J' => continue,
                Some(start) if start.starts_with(b"{\"ask\"") => frame(b'C', &[]),
                Some(start) if start.starts_with(b"\"ready\"") => frame(b'D', &[]),
                _ => {
                    last = answer;
                    continue;
                }
            };
            let _ = stream.write_all(&reply);
        }
        last.truncate(300);
        (read, String::from_utf8_lossy(&last).into_owned())
    };
    std::thread::scope(|scope| scope.spawn(ask).join().unwrap())
}

/// The schema of each command, by its name; none for a command without contents.
fn commands(place: &Place) -> Vec<(String, Option<Json>)> {
    let web = Web::start(place, &place.socket(), &[]);
    let (status, document) = web.raw(&web::get("/v1/openapi.json", ""));
    assert_eq!(status, 200, "{document}");
    let document: Json = serde_json::from_str(&document).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let schema = |path: &Json| {
        let mut body = path["post"]["requestBody"]["content"]["application/json"]["schema"].clone();
        let properties = body.get_mut("properties")?.as_object_mut()?;
        // On the site these are beside the command.
        properties.retain(|name, _| name != "hash_memory" && name != "secrets");
        (!properties.is_empty()).then_some(body)
    };
    let name = |path: &str| path.strip_prefix("/v1/commands/").map(str::to_owned);
    let all = paths
        .iter()
        .filter_map(|(path, of)| Some((name(path)?, schema(of))));
    all.collect()
}

fn roles(place: &Place) -> [Role; 2] {
    place.pool("tank");
    for root in ["ann", "zone"] {
        place.ok(&format!("create -u tank/{root}"));
        place.ok(&format!("create -u tank/{root}/fs"));
        for snapshot in 1..=SNAPSHOTS {
            place.ok(&format!("snapshot -r tank/{root}@{snapshot}"));
        }
    }
    let permissions = "create,destroy,mount,snapshot,rollback,clone,promote,rename,send,receive,hold,release,bookmark,\
                       diff,allow,key,keychange,userprop,compression,quota,userused,userquota";
    place.ok(&format!("allow -u {ANN} {permissions} tank/ann"));
    place.ok(&format!(
        "zone create --owner {BOB} --dataset tank/zone web"
    ));
    let names = |root: &str| {
        let of = |at: &str| format!("{root}{at}");
        ["", "/fs", "@1", "@2", "/fs@1", "@1%30", "/fs@%", "#1"]
            .map(of)
            .to_vec()
    };
    [
        Role {
            uid: ANN,
            socket: place.socket(),
            names: names("tank/ann"),
        },
        Role {
            uid: BOB,
            socket: place.path("zones/web"),
            names: names("zone"),
        },
    ]
}

fn seeds() -> std::ops::Range<u64> {
    let seeds = std::env::var("STRONGROOM_SEEDS").unwrap_or_default();
    let (first, count) = seeds.split_once('+').unwrap_or(("1", "1"));
    let first: u64 = first.parse().unwrap_or(1);
    // The seeds of other tests are quick ones.
    first..first + count.parse::<u64>().unwrap_or(1).min(100)
}

#[test]
fn no_small_request_does_large_work() {
    let place = needs!(shared_place());
    let roles = roles(&place);
    let commands = commands(&place);
    assert!(commands.len() > 70, "{}", commands.len());
    let cases = commands.iter().flat_map(|command| {
        let styles = roles
            .iter()
            .flat_map(|role| STYLES.map(|style| (role, style)));
        styles.map(move |(role, style)| (command, role, style))
    });
    let (mut above, mut sent, mut understood) = (Vec::new(), 0, 0);
    for (((name, schema), role, style), seed) in
        cases.flat_map(|case| seeds().map(move |seed| (case, seed)))
    {
        let mut generator = Generator {
            numbers: Numbers(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            style,
            role,
            left: REQUEST_MAX - 8192,
        };
        let command = match schema {
            Some(schema) => json!({ name: generator.value(schema, name) }),
            None => json!(name),
        };
        let request = json!({"version": protocol::api::API_VERSION, "command": command});
        let request = request.to_string();
        let (cost, answer) = measure(&place, role, &request);
        sent += 1;
        understood += usize::from(!answer.contains("cannot be understood"));
        if !cost.is_within_budget() {
            let begin = &request[..request.len().min(300)];
            above.push(format!(
                "{name} of {} ({style:?}, seed {seed}): {cost:?}: {begin}",
                role.uid
            ));
        }
    }
    assert!(above.is_empty(), "{}", above.join("\n"));
    assert!(
        understood * 10 > sent * 9,
        "{understood} of {sent} requests"
    );
    place.says("list", "tank/ann");
}
