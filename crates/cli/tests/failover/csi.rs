//! The CSI driver: `csi-sanity` judges it, and what that does not look at.

#[path = "../common/servers/cluster.rs"]
mod cluster;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::machine::run_in_machine;
use crate::common::*;
use cluster::*;

#[test]
fn csi_sanity_finds_no_fault() {
    needs!(is_there(
        "csi-sanity",
        "go install github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.4.0",
    ));
    let cluster = needs!(Cluster::start());
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
    cluster
        .place
        .prints("list -H -o name -r -t all tank", "tank\ntank/csi\n");
}

#[test]
fn volumes_outlive_what_they_began_as() {
    let cluster = needs!(Cluster::start());
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
    cluster
        .place
        .prints("list -H -o name -r -t all tank", "tank\ntank/csi\n");
}

#[test]
fn calls_that_could_do_harm_are_refused() {
    let cluster = needs!(Cluster::start());
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
    let cluster = needs!(Cluster::start());
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
    let cluster = needs!(Cluster::start());
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
    let mut cluster = needs!(Cluster::start());
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
         TMPDIR=/run /in/{name} --ignored --exact --nocapture csi::block_volumes"
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
    cluster
        .place
        .prints("list -H -o name -r -t all tank", "tank\ntank/csi\n");
    assert_eq!(cluster.place.ok("nbd list -H"), "");
}

/// The files for Kubernetes are what its schemas want.
#[test]
fn manifests_are_valid() {
    needs!(is_there(
        "kubernetes-validate",
        "pip install kubernetes-validate"
    ));
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
