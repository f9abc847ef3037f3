//! The CSI driver: `csi-sanity` judges it, and what that does not look at.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::BytesMut;
use common::machine::run_in_machine;
use common::*;

const INVALID_ARGUMENT: u32 = 3;
const UNKNOWN_VOLUME: u32 = 5;
const ALREADY_EXISTS: u32 = 6;
const RESOURCE_EXHAUSTED: u32 = 8;
const FAILED_PRECONDITION: u32 = 9;
const OUT_OF_RANGE: u32 = 11;
const UNIMPLEMENTED: u32 = 12;

/// A daemon with an encrypted parent of volumes, and the driver for it.
struct Cluster {
    driver: Child,
    place: Place,
}

impl Cluster {
    /// None where nothing can be mounted.
    fn start() -> Option<Cluster> {
        if !can_mount() || !rustix::process::geteuid().is_root() {
            eprintln!("skipped: volumes are mounted by root, with FUSE");
            return None;
        }
        let place = Place::new();
        let image = place.pool("tank");
        fs::write(place.path("key"), [7; 32]).unwrap();
        fs::set_permissions(place.path("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let key = place.arg("key");
        place.ok(&format!(
            "create -o encryption=on -o keysource=raw,file://{key} -o mountpoint=none tank/csi"
        ));
        assert!(image.exists());
        fs::create_dir(place.path("kubelet")).unwrap();
        let driver = Cluster::driver(&place);
        Some(Cluster { driver, place })
    }

    fn driver(place: &Place) -> Child {
        let mut driver = place
            .command()
            .args([
                "csi",
                "--parent",
                "tank/csi",
                "--node-id",
                "node-1",
                "--single-node",
            ])
            .arg(format!("--endpoint=unix://{}", place.arg("csi.sock")))
            .arg(format!("--kubelet-dir={}", place.arg("kubelet")))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program");
        let mut line = String::new();
        let stdout = driver.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line.trim_end(), place.arg("csi.sock"));
        driver
    }

    /// A path of the kubelet.
    fn target(&self, name: &str) -> PathBuf {
        self.place.path("kubelet").join(name)
    }

    /// Makes a call, and returns its code and the reason.
    fn call(&self, method: &str, message: &[u8]) -> (u32, String) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let socket = self.place.path("csi.sock");
        runtime.block_on(async {
            let stream = tokio::net::UnixStream::connect(socket)
                .await
                .expect("it listens");
            let (client, connection) = h2::client::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let request = http::Request::post(format!("http://localhost/csi.v1.{method}"))
                .header("content-type", "application/grpc")
                .body(())
                .unwrap();
            let mut client = client.ready().await.unwrap();
            let (answer, mut stream) = client.send_request(request, false).unwrap();
            let mut body = BytesMut::from(&[0][..]);
            body.extend_from_slice(&(message.len() as u32).to_be_bytes());
            body.extend_from_slice(message);
            stream.send_data(body.freeze(), true).unwrap();
            let mut body = answer.await.expect("an answer").into_body();
            while body.data().await.transpose().unwrap_or_default().is_some() {}
            let trailers = body
                .trailers()
                .await
                .expect("a connection")
                .expect("trailers");
            let text = |name| {
                trailers
                    .get(name)
                    .map_or("", |it| it.to_str().unwrap())
                    .to_owned()
            };
            (text("grpc-status").parse().unwrap(), text("grpc-message"))
        })
    }

    fn does(&self, method: &str, message: &[u8]) {
        let (code, why) = self.call(method, message);
        assert_eq!(code, 0, "{method}: {why}");
    }

    fn refuses(&self, code: u32, method: &str, message: &[u8]) -> String {
        let (is, why) = self.call(method, message);
        assert_eq!(is, code, "{method}: {why}");
        why
    }

    /// Has a volume at the target path of its name.
    fn publish(&self, volume: &str) -> PathBuf {
        let staging = self.target(&format!("{volume}.staging"));
        let target = self.target(volume);
        fs::create_dir_all(&staging).unwrap();
        let staging = staging.to_str().unwrap();
        self.does(
            "Node/NodeStageVolume",
            &all(&[(1, volume), (3, staging)], &[(4, &mounted())]),
        );
        let message = publishing(volume, staging, target.to_str().unwrap());
        self.does("Node/NodePublishVolume", &message);
        target
    }

    fn unpublish(&self, volume: &str) {
        let (staging, target) = (
            self.target(&format!("{volume}.staging")),
            self.target(volume),
        );
        let path = |path: &PathBuf| all(&[(1, volume), (2, path.to_str().unwrap())], &[]);
        self.does("Node/NodeUnpublishVolume", &path(&target));
        assert!(!target.exists());
        self.does("Node/NodeUnstageVolume", &path(&staging));
        fs::remove_dir(&staging).unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// A protobuf message of texts and of messages, by number.
fn all(texts: &[(u8, &str)], messages: &[(u8, &[u8])]) -> Vec<u8> {
    let texts = texts
        .iter()
        .map(|(number, text)| (*number, text.as_bytes()));
    let mut out = Vec::new();
    for (number, bytes) in texts.chain(messages.iter().copied()) {
        out.push(number << 3 | 2);
        let len = u16::try_from(bytes.len()).expect("a short one");
        out.extend([len as u8 & 0x7f | 0x80, (len >> 7) as u8]);
        out.extend(bytes);
    }
    out
}

/// The capability to be mounted for one writer, and that to be a block device.
fn mounted() -> Vec<u8> {
    all(&[], &[(2, &[]), (3, &[8, 1])])
}

fn block() -> Vec<u8> {
    all(&[], &[(1, &[]), (3, &[8, 1])])
}

/// A request for a volume of 8 MiB.
fn creating(name: &str, capability: &[u8]) -> Vec<u8> {
    all(
        &[(1, name)],
        &[(2, &[8, 0x80, 0x80, 0x80, 4]), (3, capability)],
    )
}

/// A range of sizes from so many MiB on.
fn range_of(mib: u64) -> Vec<u8> {
    let (mut range, mut rest) = (vec![8], mib << 20);
    while rest >= 0x80 {
        range.push(rest as u8 & 0x7f | 0x80);
        rest >>= 7;
    }
    range.push(rest as u8);
    range
}

/// The same, that begins as a snapshot or a volume.
fn beginning_as(name: &str, is_volume: bool, source: &str) -> Vec<u8> {
    let source = all(&[(1, source)], &[]);
    let source = all(&[], &[(if is_volume { 2 } else { 1 }, &source)]);
    [creating(name, &mounted()), all(&[], &[(6, &source)])].concat()
}

fn publishing(volume: &str, staging: &str, target: &str) -> Vec<u8> {
    all(
        &[(1, volume), (3, staging), (4, target)],
        &[(5, &mounted())],
    )
}

fn id(volume: &str) -> Vec<u8> {
    all(&[(1, volume)], &[])
}

/// Whether a program is installed that `./test` does not install; says how to if it is not.
fn is_there(program: &str, how: &str) -> bool {
    let is_there = Command::new(program).arg("--help").output().is_ok();
    if !is_there {
        eprintln!("skipped: {program} is not installed: {how}");
    }
    is_there
}

#[test]
fn csi_sanity_finds_no_fault() {
    if !is_there(
        "csi-sanity",
        "go install github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.4.0",
    ) {
        return;
    }
    let Some(cluster) = Cluster::start() else {
        return;
    };
    // Block devices need a kernel with nbd, so only their controller is judged.
    for (kind, skipped) in [("mount", "^$"), ("block", "Node Service|ExpandVolume")] {
        let judged = Command::new("csi-sanity")
            .arg(format!(
                "--csi.endpoint=unix://{}",
                cluster.place.arg("csi.sock")
            ))
            .arg(format!(
                "--csi.mountdir={}",
                cluster.target("mount").display()
            ))
            .arg(format!(
                "--csi.stagingdir={}",
                cluster.target("staging").display()
            ))
            .args([
                "--csi.testvolumesize=16777216",
                "--csi.testvolumeexpandsize=33554432",
            ])
            .arg(format!("--csi.testvolumeaccesstype={kind}"))
            .args(["--ginkgo.no-color", "--ginkgo.skip", skipped])
            .output()
            .expect("csi-sanity");
        let said = String::from_utf8_lossy(&judged.stdout);
        assert!(judged.status.success(), "{said}");
    }
    assert_eq!(
        cluster.place.ok("list -H -o name -r -t all tank"),
        "tank\ntank/csi\n"
    );
}

#[test]
fn volumes_outlive_what_they_began_as() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.does("Controller/CreateVolume", &creating("a", &mounted()));
    let a = cluster.publish("a");
    fs::write(a.join("file"), "kept").unwrap();
    let too_much = fs::write(a.join("large"), contents(1, 9 << 20));
    assert!(too_much.is_err());
    fs::remove_file(a.join("large")).unwrap();
    // Of the volume, of a snapshot that is then deleted; a call may be repeated.
    for _ in 0..2 {
        cluster.does("Controller/CreateVolume", &beginning_as("b", true, "a"));
        cluster.does(
            "Controller/CreateSnapshot",
            &all(&[(1, "a"), (2, "s")], &[]),
        );
        cluster.does("Controller/CreateVolume", &beginning_as("c", false, "a@s"));
    }
    let busy = cluster.refuses(FAILED_PRECONDITION, "Controller/DeleteVolume", &id("a"));
    has(&busy, "in use");
    cluster.unpublish("a");
    let kept = cluster.refuses(FAILED_PRECONDITION, "Controller/DeleteVolume", &id("a"));
    has(&kept, "delete them first");
    for _ in 0..2 {
        cluster.does("Controller/DeleteSnapshot", &id("a@s"));
        cluster.does("Controller/DeleteVolume", &id("a"));
    }
    cluster.refuses(
        UNKNOWN_VOLUME,
        "Controller/CreateVolume",
        &beginning_as("d", false, "a@s"),
    );
    for volume in ["b", "c"] {
        let target = cluster.publish(volume);
        assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "kept");
        cluster.unpublish(volume);
        cluster.does("Controller/DeleteVolume", &id(volume));
    }
    assert_eq!(
        cluster.place.ok("list -H -o name -r -t all tank"),
        "tank\ntank/csi\n"
    );
}

#[test]
fn calls_that_could_do_harm_are_refused() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let place = &cluster.place;
    let mode = fs::metadata(place.path("csi.sock"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let long = "a".repeat(129);
    for name in ["../a", "a/b", "a@b", "-f", " ", &long] {
        let message = creating(name, &mounted());
        cluster.refuses(INVALID_ARGUMENT, "Controller/CreateVolume", &message);
    }
    let parameter = all(&[(1, "mountpoint"), (2, "/etc")], &[]);
    let message = [creating("a", &mounted()), all(&[], &[(4, &parameter)])].concat();
    has(
        &cluster.refuses(INVALID_ARGUMENT, "Controller/CreateVolume", &message),
        "mountpoint",
    );
    let node = all(&[(1, "csi.strongroom/node"), (2, "node-2")], &[]);
    let elsewhere = all(&[], &[(1, &all(&[], &[(1, &node)]))]);
    let message = [creating("a", &mounted()), all(&[], &[(7, &elsewhere)])].concat();
    cluster.refuses(RESOURCE_EXHAUSTED, "Controller/CreateVolume", &message);
    cluster.refuses(UNIMPLEMENTED, "Controller/Nothing", &[]);

    // Datasets of others.
    place.ok("create tank/csi/other");
    cluster.refuses(FAILED_PRECONDITION, "Controller/DeleteVolume", &id("other"));
    cluster.does("Controller/DeleteVolume", &id("../other"));
    place.ok("list tank/csi/other");
    // A volume of a pool that is away is not gone.
    cluster.does("Controller/CreateVolume", &creating("a", &mounted()));
    place.ok("pool export tank");
    let away = cluster.call("Controller/DeleteVolume", &id("a"));
    assert_eq!(away.0, 14, "{}", away.1);
    place.ok(&format!(
        "pool import -d {} -l tank",
        place.root().display()
    ));

    // Paths that lead elsewhere.
    cluster.publish("a");
    let staging = cluster.target("a.staging");
    let staging = staging.to_str().unwrap();
    fs::create_dir(place.path("etc")).unwrap();
    symlink(place.path("etc"), cluster.target("link")).unwrap();
    let inside = cluster.target("link/a");
    let outside = place.path("etc/a");
    let above = cluster.target("../etc/a");
    for target in [inside, outside, above, cluster.target("link")] {
        let message = publishing("a", staging, target.to_str().unwrap());
        let (code, why) = cluster.call("Node/NodePublishVolume", &message);
        assert_ne!(code, 0, "{}: {why}", target.display());
    }
    assert_eq!(fs::read_dir(place.path("etc")).unwrap().count(), 0);
    // The volume at a path is another one.
    cluster.does("Controller/CreateVolume", &creating("b", &mounted()));
    let target = cluster.target("a");
    let message = all(&[(1, "b"), (2, target.to_str().unwrap())], &[]);
    cluster.refuses(FAILED_PRECONDITION, "Node/NodeUnpublishVolume", &message);
    cluster.unpublish("a");

    if !PathBuf::from("/sys/module/nbd").exists() {
        cluster.does("Controller/CreateVolume", &creating("disk", &block()));
        let message = all(&[(1, "disk"), (3, staging)], &[(4, &block())]);
        let why = cluster.refuses(FAILED_PRECONDITION, "Node/NodeStageVolume", &message);
        has(&why, "cannot be a block device on this node");
    }
}

/// A call that fails has done nothing, and a call that needs another one does not do its work.
#[test]
fn a_failed_stage_leaves_nothing_and_publish_needs_stage() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    cluster.does("Controller/CreateVolume", &creating("a", &mounted()));
    let is_mounted = || cluster.place.ok("mount").contains("tank/csi/a");
    let staging = cluster.target("a.staging");
    let path = staging.to_str().unwrap();
    let stage = all(&[(1, "a"), (3, path)], &[(4, &mounted())]);
    let target = cluster.target("a");
    let publish = publishing("a", path, target.to_str().unwrap());

    // The volume cannot be shown at a file.
    fs::write(&staging, "").unwrap();
    let (code, why) = cluster.call("Node/NodeStageVolume", &stage);
    assert_ne!(code, 0, "{why}");
    assert!(!is_mounted());
    has(
        &cluster.refuses(FAILED_PRECONDITION, "Node/NodePublishVolume", &publish),
        "is not staged",
    );
    assert!(!is_mounted() && !target.exists());
    fs::remove_file(&staging).unwrap();
    fs::create_dir(&staging).unwrap();
    cluster.refuses(FAILED_PRECONDITION, "Node/NodePublishVolume", &publish);
    assert!(!is_mounted() && !target.exists());
    // Staged elsewhere.
    cluster.does("Node/NodeStageVolume", &stage);
    let other = cluster.target("other");
    fs::create_dir(&other).unwrap();
    let elsewhere = publishing("a", other.to_str().unwrap(), target.to_str().unwrap());
    cluster.refuses(FAILED_PRECONDITION, "Node/NodePublishVolume", &elsewhere);
    cluster.does("Node/NodePublishVolume", &publish);
    cluster.unpublish("a");
    assert!(!is_mounted());
    cluster.refuses(FAILED_PRECONDITION, "Node/NodePublishVolume", &publish);
}

/// A volume that could never be filled is not promised, and neither is space that is not there.
#[test]
fn a_volume_is_not_larger_than_what_its_pool_can_promise() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let sized = |name: &str, mib: u64, capability: &[u8], reserve: bool| {
        let class = all(
            &[(1, "reserve"), (2, if reserve { "true" } else { "false" })],
            &[],
        );
        all(
            &[(1, name)],
            &[(2, &range_of(mib)), (3, capability), (4, &class)],
        )
    };
    let create = "Controller/CreateVolume";
    for capability in [mounted(), block()] {
        let message = sized("huge", 1 << 20, &capability, false);
        has(
            &cluster.refuses(OUT_OF_RANGE, create, &message),
            "can store",
        );
        cluster.refuses(
            OUT_OF_RANGE,
            create,
            &sized("huge", 1 << 20, &capability, true),
        );
    }
    // Without a reservation volumes together may be larger than the pool; with one they may not.
    let space = cluster.place.ok("get -H -p -o value available tank/csi");
    let half = (space.trim().parse::<u64>().unwrap() >> 20) / 2 + 4;
    cluster.does(create, &sized("thin-1", half, &mounted(), false));
    cluster.does(create, &sized("thin-2", half, &mounted(), false));
    cluster.does(create, &sized("thick-1", half, &mounted(), true));
    cluster.refuses(
        RESOURCE_EXHAUSTED,
        create,
        &sized("thick-2", half, &mounted(), true),
    );
    cluster.place.fails("list tank/csi/thick-2", NOT_FOUND);
    // Nor does a volume grow beyond it.
    let message = all(&[(1, "thin-1")], &[(2, &range_of(1 << 20))]);
    cluster.refuses(OUT_OF_RANGE, "Controller/ControllerExpandVolume", &message);
}

/// The mounts of a daemon that was killed are taken away, and volumes are mounted again.
#[test]
fn dead_mounts_are_replaced() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    cluster.does("Controller/CreateVolume", &creating("a", &mounted()));
    let target = cluster.publish("a");
    write_synced(&target.join("file"), b"kept").unwrap();
    cluster.place.kill();
    assert!(fs::read(target.join("file")).is_err());
    cluster.place.start();
    // The new daemon has cleared the paths. Nothing is written there in the clear.
    if set_immutable(&cluster.target(""), false).is_ok() {
        assert!(fs::write(target.join("file"), "secret").is_err());
    }
    // The same calls again.
    cluster.publish("a");
    assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "kept");
    cluster.place.kill();
    cluster.place.start();
    cluster.unpublish("a");
    cluster.does("Controller/DeleteVolume", &id("a"));
}

/// Another daemon may have volumes of the same names. Neither driver counts the mounts of the other, nor takes them away.
#[test]
fn mounts_of_another_daemon_are_not_taken_for_own_ones() {
    let (Some(one), Some(other)) = (Cluster::start(), Cluster::start()) else {
        return;
    };
    for cluster in [&one, &other] {
        cluster.does("Controller/CreateVolume", &creating("a", &mounted()));
        // May be at one path only.
        cluster.publish("a");
    }
    fs::write(other.target("a").join("file"), "kept").unwrap();
    one.unpublish("a");
    let kept = || fs::read_to_string(other.target("a").join("file")).unwrap();
    assert_eq!(kept(), "kept");

    // At the paths of the first driver are the files of the other daemon.
    let (staging, target) = (one.target("a.staging"), one.target("a"));
    for path in [&staging, &target] {
        fs::create_dir(path).unwrap();
        rustix::mount::mount_bind(other.target("a"), path).unwrap();
    }
    let path = |path: &PathBuf| all(&[(1, "a"), (2, path.to_str().unwrap())], &[]);
    let (staged, published) = (path(&staging), path(&target));
    let stage = all(
        &[(1, "a"), (3, staging.to_str().unwrap())],
        &[(4, &mounted())],
    );
    let why = one.refuses(ALREADY_EXISTS, "Node/NodeStageVolume", &stage);
    has(&why, "something else");
    one.refuses(FAILED_PRECONDITION, "Node/NodeUnstageVolume", &staged);
    one.refuses(FAILED_PRECONDITION, "Node/NodeUnpublishVolume", &published);
    one.refuses(UNKNOWN_VOLUME, "Node/NodeGetVolumeStats", &published);
    for path in [&staging, &target] {
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "kept");
        rustix::mount::unmount(path, rustix::mount::UnmountFlags::empty()).unwrap();
    }
    other.unpublish("a");
}

/// Block devices need a kernel with nbd: this program runs [`block_volumes`] in a machine that has it.
#[test]
fn block_volumes_are_devices_of_a_kernel() {
    let own = std::env::current_exe().unwrap();
    let (own, dir) = (
        own.to_str().unwrap(),
        Path::new(PROGRAM).parent().unwrap().display(),
    );
    let name = own.rsplit('/').next().unwrap();
    let job = format!(
        "set -e; mkdir -p {dir}; ln -s /sbin/strongroom {PROGRAM}
         TMPDIR=/run /in/{name} --ignored --exact --nocapture block_volumes"
    );
    if let Some(told) = run_in_machine(&job, &[], &[own], &["nbd"]) {
        has(&told, "1 passed");
    }
}

#[test]
#[ignore = "block_volumes_are_devices_of_a_kernel runs it, in a machine with nbd"]
fn block_volumes() {
    let mut cluster = Cluster::start().expect("root and FUSE");
    let staging = cluster.target("staging");
    fs::create_dir(&staging).unwrap();
    let staging = staging.to_str().unwrap().to_owned();
    let stage = |volume: &str| all(&[(1, volume), (3, &staging)], &[(4, &block())]);
    let path = |name: &str| cluster_path(&cluster, name);
    let (pod, second, of_clone) = (path("pod"), path("second"), path("clone"));
    let publish = |volume: &str, target: &str, mode: u8| {
        let single = all(&[], &[(1, &[]), (3, &[8, mode])]);
        all(&[(1, volume), (3, &staging), (4, target)], &[(5, &single)])
    };
    cluster.does("Controller/CreateVolume", &creating("disk", &block()));
    cluster.does("Controller/CreateVolume", &creating("files", &mounted()));
    for _ in 0..2 {
        cluster.does("Node/NodeStageVolume", &stage("disk"));
        cluster.does("Node/NodePublishVolume", &publish("disk", &pod, ONE_WRITER));
    }
    assert_eq!(size_of_device(&pod), 8 << 20);
    let data = contents(3, 1 << 20);
    write_synced(Path::new(&pod), &data).unwrap();

    // A second path, if the mode allows one; neither for reading alone nor as files.
    let message = publish("disk", &second, ONE_WRITER);
    let why = cluster.refuses(FAILED_PRECONDITION, "Node/NodePublishVolume", &message);
    has(&why, "is at");
    let message = publish("disk", &second, WRITERS);
    cluster.does("Node/NodePublishVolume", &message);
    let read_only = [publish("disk", &second, WRITERS), vec![6 << 3, 1]].concat();
    cluster.refuses(INVALID_ARGUMENT, "Node/NodePublishVolume", &read_only);
    let message = publishing("disk", &staging, &path("files"));
    cluster.refuses(INVALID_ARGUMENT, "Node/NodePublishVolume", &message);
    assert_eq!(read_device(&second, data.len()), data);

    // Statistics are those of its own paths.
    let grown = all(&[(1, "disk"), (2, &pod)], &[(3, &SIXTEEN_MIB)]);
    cluster.does("Node/NodeExpandVolume", &grown);
    let stats = |volume: &str, target: &str| all(&[(1, volume), (2, target)], &[]);
    cluster.does("Node/NodeGetVolumeStats", &stats("disk", &second));

    // A clone of a snapshot, while the volume is in use.
    let snapshot = all(&[(1, "disk"), (2, "s")], &[]);
    cluster.does("Controller/CreateSnapshot", &snapshot);
    write_synced(Path::new(&pod), &contents(4, 1 << 20)).unwrap();
    let source = all(&[], &[(1, &all(&[(1, "disk@s")], &[]))]);
    let clone = all(
        &[(1, "clone")],
        &[(2, &SIXTEEN_MIB), (3, &block()), (6, &source)],
    );
    cluster.does("Controller/CreateVolume", &clone);
    cluster.does("Node/NodeStageVolume", &stage("clone"));
    let message = publish("clone", &of_clone, ONE_WRITER);
    cluster.does("Node/NodePublishVolume", &message);
    assert_eq!(read_device(&of_clone, data.len()), data);
    let message = stats("disk", &of_clone);
    cluster.refuses(UNKNOWN_VOLUME, "Node/NodeGetVolumeStats", &message);

    // Another daemon goes on with the devices, and knows that one has grown.
    assert!(cluster.place.terminate());
    cluster.place.start();
    cluster.place.ok("nbd list");
    assert_eq!(size_of_device(&pod), 16 << 20);
    assert_eq!(read_device(&pod, data.len()), contents(4, 1 << 20));

    cluster.refuses(FAILED_PRECONDITION, "Controller/DeleteVolume", &id("clone"));
    let message = all(&[(1, "disk"), (2, &staging)], &[]);
    let why = cluster.refuses(FAILED_PRECONDITION, "Node/NodeUnstageVolume", &message);
    has(&why, "still published");
    for (volume, targets) in [("disk", vec![&pod, &second]), ("clone", vec![&of_clone])] {
        for target in targets {
            let message = all(&[(1, volume), (2, target)], &[]);
            cluster.does("Node/NodeUnpublishVolume", &message);
            assert!(!Path::new(target).exists());
        }
        let message = all(&[(1, volume), (2, &staging)], &[]);
        cluster.does("Node/NodeUnstageVolume", &message);
    }
    cluster.does("Controller/DeleteSnapshot", &id("disk@s"));
    for volume in ["disk", "clone", "files"] {
        cluster.does("Controller/DeleteVolume", &id(volume));
    }
    let left = cluster.place.ok("list -H -o name -r -t all tank");
    assert_eq!(left, "tank\ntank/csi\n");
    assert_eq!(cluster.place.ok("nbd list -H"), "");
}

/// A size, as part of a message.
const SIXTEEN_MIB: [u8; 5] = [8, 0x80, 0x80, 0x80, 8];
/// The modes of access of one pod, and of several on this node.
const ONE_WRITER: u8 = 6;
const WRITERS: u8 = 7;

fn cluster_path(cluster: &Cluster, name: &str) -> String {
    cluster.target(name).to_str().unwrap().to_owned()
}

fn size_of_device(path: &str) -> u64 {
    let mut device = fs::File::open(path).unwrap();
    assert!(device.metadata().unwrap().file_type().is_block_device());
    device.seek(SeekFrom::End(0)).unwrap()
}

fn read_device(path: &str, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    fs::File::open(path).unwrap().read_exact(&mut data).unwrap();
    data
}

/// The files for Kubernetes are what its schemas want.
#[test]
fn manifests_are_valid() {
    if !is_there("kubernetes-validate", "pip install kubernetes-validate") {
        return;
    }
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/kubernetes");
    for file in ["driver.yaml", "classes.yaml"] {
        // The kinds for snapshots are not Kubernetes' own, so they have no schema there.
        let text = fs::read_to_string(format!("{dir}/{file}")).unwrap();
        let own: Vec<&str> = text
            .split("\n---\n")
            .filter(|it| !it.contains("apiVersion: snapshot."))
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join(file);
        fs::write(&copy, own.join("\n---\n")).unwrap();
        let checked = Command::new("kubernetes-validate")
            .args(["--strict"])
            .arg(&copy)
            .output();
        let checked = checked.expect("kubernetes-validate");
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success(), "{said}");
    }
}
