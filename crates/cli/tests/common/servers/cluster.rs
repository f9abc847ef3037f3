//! A daemon with its CSI driver, called as Kubernetes calls it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::*;
use bytes::BytesMut;

pub(crate) const INVALID_ARGUMENT: u32 = 3;
pub(crate) const UNKNOWN_VOLUME: u32 = 5;
pub(crate) const ALREADY_EXISTS: u32 = 6;
pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
pub(crate) const FAILED_PRECONDITION: u32 = 9;
pub(crate) const OUT_OF_RANGE: u32 = 11;
pub(crate) const UNIMPLEMENTED: u32 = 12;

/// A daemon with an encrypted parent of volumes, and the driver for it.
pub(crate) struct Cluster {
    pub(crate) driver: Child,
    pub(crate) place: Place,
}

impl Cluster {
    /// None where nothing can be mounted.
    pub(crate) fn start() -> Option<Cluster> {
        needs!(
            can_mount() && is_root(),
            "volumes are mounted by root, with FUSE"
        );
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

    pub(crate) fn driver(place: &Place) -> Child {
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
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        self.place.path("kubelet").join(name)
    }

    /// Makes a call, and returns its code and the reason.
    pub(crate) fn call(&self, method: &str, message: &[u8]) -> (u32, String) {
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

    pub(crate) fn does(&self, method: &str, message: &[u8]) {
        let (code, why) = self.call(method, message);
        assert_eq!(code, 0, "{method}: {why}");
    }

    pub(crate) fn refuses(&self, code: u32, method: &str, message: &[u8]) -> String {
        let (is, why) = self.call(method, message);
        assert_eq!(is, code, "{method}: {why}");
        why
    }

    /// Has a volume at the target path of its name.
    pub(crate) fn publish(&self, volume: &str) -> PathBuf {
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

    pub(crate) fn unpublish(&self, volume: &str) {
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
pub(crate) fn all(texts: &[(u8, &str)], messages: &[(u8, &[u8])]) -> Vec<u8> {
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
pub(crate) fn mounted() -> Vec<u8> {
    all(&[], &[(2, &[]), (3, &[8, 1])])
}

pub(crate) fn block() -> Vec<u8> {
    all(&[], &[(1, &[]), (3, &[8, 1])])
}

/// A request for a volume of 8 MiB.
pub(crate) fn creating(name: &str, capability: &[u8]) -> Vec<u8> {
    all(
        &[(1, name)],
        &[(2, &[8, 0x80, 0x80, 0x80, 4]), (3, capability)],
    )
}

/// A range of sizes from so many MiB on.
pub(crate) fn range_of(mib: u64) -> Vec<u8> {
    let (mut range, mut rest) = (vec![8], mib << 20);
    while rest >= 0x80 {
        range.push(rest as u8 & 0x7f | 0x80);
        rest >>= 7;
    }
    range.push(rest as u8);
    range
}

/// The same, that begins as a snapshot or a volume.
pub(crate) fn beginning_as(name: &str, is_volume: bool, source: &str) -> Vec<u8> {
    let source = all(&[(1, source)], &[]);
    let source = all(&[], &[(if is_volume { 2 } else { 1 }, &source)]);
    [creating(name, &mounted()), all(&[], &[(6, &source)])].concat()
}

pub(crate) fn publishing(volume: &str, staging: &str, target: &str) -> Vec<u8> {
    all(
        &[(1, volume), (3, staging), (4, target)],
        &[(5, &mounted())],
    )
}

pub(crate) fn id(volume: &str) -> Vec<u8> {
    all(&[(1, volume)], &[])
}

/// Returns whether a program is installed that `./test` does not install. Prints how to install it if it is not.
pub(crate) fn is_there(program: &str, how: &str) -> bool {
    let is_there = Command::new(program).arg("--help").output().is_ok();
    if !is_there {
        eprintln!("skipped: {program} is not installed: {how}");
    }
    is_there
}

/// A size, as part of a message.
pub(crate) const SIXTEEN_MIB: [u8; 5] = [8, 0x80, 0x80, 0x80, 8];
/// The modes of access of one pod, and of several on this node.
pub(crate) const ONE_WRITER: u8 = 6;
pub(crate) const WRITERS: u8 = 7;

pub(crate) fn cluster_path(cluster: &Cluster, name: &str) -> String {
    cluster.target(name).to_str().unwrap().to_owned()
}

pub(crate) fn size_of_device(path: &str) -> u64 {
    let mut device = fs::File::open(path).unwrap();
    assert!(device.metadata().unwrap().file_type().is_block_device());
    device.seek(SeekFrom::End(0)).unwrap()
}

pub(crate) fn read_device(path: &str, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    fs::File::open(path).unwrap().read_exact(&mut data).unwrap();
    data
}
