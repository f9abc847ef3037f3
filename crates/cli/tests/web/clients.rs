//! Clients that generators make from the OpenAPI document, each used for six jobs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::*;
use crate::site::{Web, get};
use serde_json::Value as Json;

/// A program in `PATH`.
fn in_path(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&dirs).map(|dir| dir.join(name));
    found.find(|path| path.is_file())
}

/// The generator for Python, and the interpreter that has its libraries.
fn python_generator() -> Option<(PathBuf, PathBuf)> {
    let generator = in_path("openapi-python-client")?;
    // The first line of a script that pip installs names its interpreter.
    let script = fs::read_to_string(&generator).ok()?;
    let interpreter = script.lines().next()?.strip_prefix("#!")?.into();
    Some((generator, interpreter))
}

/// The packages for TypeScript: a folder `node_modules`.
fn node_modules() -> Option<PathBuf> {
    let generator = in_path("openapi-typescript")?.canonicalize().ok()?;
    let is_it = |dir: &&Path| dir.ends_with("node_modules");
    let modules = generator.ancestors().find(is_it)?.to_owned();
    let has = |name: &str| modules.join(name).exists();
    (has(".bin/tsc") && has("openapi-fetch") && has("@types/node")).then_some(modules)
}

/// A site on the network, with its document and a token of root.
struct Site {
    place: Place,
    web: Web,
    document: String,
    token: String,
}

impl Site {
    fn new() -> Site {
        let place = Place::new();
        place.pool("tank");
        let token = place.ok("web token create client").trim_end().to_owned();
        let (web, _) = Web::on_network(&place);
        let (status, document) = web.raw(&get("/v1/openapi.json", ""));
        assert_eq!(status, 200);
        fs::write(place.path("openapi.json"), &document).unwrap();
        Site {
            place,
            web,
            document,
            token,
        }
    }

    /// The address that the certificate is for.
    fn address(&self) -> String {
        let port = self.web.address.rsplit_once(':').unwrap().1;
        format!("https://localhost:{port}")
    }

    /// Runs a program in the directory of the test, and returns its output.
    fn run(&self, command: &mut Command) -> String {
        command.current_dir(self.place.path(""));
        let done = command.stdin(Stdio::null()).output().expect("a program");
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command:?}: {said}{errors}");
        said
    }
}

/// The number of operations in a document.
fn operations(document: &str) -> usize {
    let document: Json = serde_json::from_str(document).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.values().map(|item| item.as_object().unwrap().len());
    operations.sum()
}

/// The number of modules below a directory.
fn modules(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let count = |path: PathBuf| match path.is_dir() {
        true => modules(&path),
        false => usize::from(!path.ends_with("__init__.py")),
    };
    entries.map(|entry| count(entry.path())).sum()
}

/// A file beside this one.
fn script(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    tests.join("clients").join(name)
}

#[test]
fn a_generated_client_in_python_does_six_jobs() {
    let (generator, python) = needs!(
        python_generator(),
        "needs openapi-python-client (pip install openapi-python-client)"
    );
    let site = Site::new();
    // Without programs that format what it makes.
    fs::write(site.place.path("config.json"), r#"{"post_hooks": []}"#).unwrap();
    let made = site.run(
        Command::new(generator)
            .args([
                "generate",
                "--path",
                "openapi.json",
                "--config",
                "config.json",
            ])
            .args(["--meta", "none", "--output-path", "strongroom_client"])
            .arg("--fail-on-warning"),
    );
    // Nothing is left out: there is a module for each operation.
    let made_modules = modules(&site.place.path("strongroom_client/api"));
    assert_eq!(made_modules, operations(&site.document), "{made}");
    let said = site.run(
        Command::new(python)
            .env("PYTHONPATH", site.place.path(""))
            .arg(script("six_jobs.py"))
            .args([&site.address(), "authority.pem", &site.token]),
    );
    assert_eq!(said.lines().count(), 6, "{said}");
    site.place.ok("get name tank/copy@one");
}

#[test]
fn a_generated_client_in_typescript_does_six_jobs() {
    let modules = needs!(
        node_modules(),
        "needs openapi-typescript, openapi-fetch, typescript, @types/node (npm)"
    );
    let site = Site::new();
    fs::copy(script("six_jobs.ts"), site.place.path("six_jobs.ts")).unwrap();
    fs::write(site.place.path("package.json"), r#"{"type": "module"}"#).unwrap();
    std::os::unix::fs::symlink(&modules, site.place.path("node_modules")).unwrap();
    let program = |name: &str| Command::new(modules.join(".bin").join(name));
    site.run(program("openapi-typescript").args(["openapi.json", "-o", "api.d.ts"]));
    // It compiles only if the types are those that the jobs expect.
    let strict = ["--strict", "--noEmitOnError", "--skipLibCheck"];
    site.run(
        program("tsc")
            .args(strict)
            .args(["--target", "es2022", "--module", "nodenext"])
            .arg("six_jobs.ts"),
    );
    let said = site.run(
        Command::new("node")
            .env("NODE_EXTRA_CA_CERTS", site.place.path("authority.pem"))
            .args(["six_jobs.js", &site.address(), &site.token]),
    );
    assert_eq!(said.lines().count(), 6, "{said}");
    site.place.ok("get name tank/typed@one");
}
