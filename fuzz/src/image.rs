//! A small valid pool, made once, and what an attacker without keys does to it: changes bytes
//! anywhere, and makes every checksum and every node's hash right again, since none has a key.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use block::{BlockDevice, MemoryDevice};
use cipher::{SeededRandom, Suite};
use dataset::{Dataset, Engine, EngineOptions, Settings};
use keys::{Argon2Params, DataKeys, KeyGeneration, KeyMaterial, Keyring, WrappingKeyAccess};
use pool::{DatasetKind, NewDataset, Origin, Pool};
use secret::Key;
use store::layout::{BLOCK, Label};
use store::{CreateOptions, Store};
use vfs::{Caller, FileSystem, Kind, NewNode, ROOT, SetXattr};

use crate::device::CowDevice;

const SIZE: usize = 12 << 20;
const POINTER: usize = 128;
/// The most that one pointer can name.
const RECORD_MAX: usize = 1 << 20;

/// Time and numbers that are the same in each run.
pub struct Fixed(AtomicU64);

impl pool::Env for Fixed {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn guid(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl dataset::Clock for Fixed {
    fn now(&self) -> vfs::Time {
        let secs = self.0.fetch_add(1, Ordering::Relaxed) as i64;
        vfs::Time { secs, nanos: 0 }
    }
}

pub fn fixed() -> Arc<Fixed> {
    Arc::new(Fixed(AtomicU64::new(1_700_000_000)))
}

pub fn origin() -> Origin {
    Origin {
        who: "fuzz".into(),
        text: "fuzz".into(),
        uid: None,
    }
}

pub const ROOT_USER: Caller = Caller { uid: 0, gid: 0 };

/// A small engine that does everything on the caller's thread.
pub fn engine() -> Arc<Engine> {
    let options = EngineOptions {
        cache_bytes: 4 << 20,
        dirty_bytes: 4 << 20,
        seal_threads: 0,
    };
    let random = Arc::new(SeededRandom::new(7));
    Engine::new(options, random, fixed(), || {})
}

/// The keys of the encrypted dataset.
pub fn data_keys() -> Vec<DataKeys> {
    keyring().1
}

fn keyring() -> (Keyring, Vec<DataKeys>) {
    let random = SeededRandom::new(99);
    let material = KeyMaterial::Key(Key::from_bytes(&[1; 32]).unwrap());
    let params = Argon2Params::insecure_for_tests();
    let (wrapping, key) = WrappingKeyAccess::create(&material, &params, 0, &random).unwrap();
    let (generation, keys) =
        KeyGeneration::create(&key, 3, 1, 1, Suite::Xaes256Gcm, 0, &random).unwrap();
    let keyring = Keyring::new(3, wrapping, vec![generation]).unwrap();
    (keyring, vec![keys])
}

fn new_dataset(guid: u64, suite: u8) -> NewDataset {
    NewDataset {
        kind: DatasetKind::FileSystem,
        guid,
        suite,
        keyring: (suite != 0).then(|| {
            let make = |_| Ok(keyring().0.encode());
            Box::new(make) as pool::MakeKeyring
        }),
        is_key_root: suite != 0,
        props: BTreeMap::from([("compression".into(), "lz4".into())]),
    }
}

fn node(kind: Kind) -> NewNode {
    NewNode::new(kind, 0o755)
}

fn fill(files: &Dataset) {
    let dir = files
        .mkdir(&ROOT_USER, ROOT, b"dir", &node(Kind::Directory))
        .unwrap();
    let file = |name: &[u8], len: usize, offset: u64| {
        let attr = files
            .create(&ROOT_USER, dir.ino, name, &node(Kind::File))
            .unwrap();
        let bytes: Vec<u8> = (0..len).map(|i| (i / 9) as u8 ^ (i as u8)).collect();
        files.write(attr.ino, offset, &bytes, false).unwrap();
        attr.ino
    };
    let small = file(b"small", 100, 0);
    let large = file(b"large", 40_000, 0);
    let sparse = file(b"sparse", 20_000, 1 << 20);
    let how = SetXattr::default();
    files
        .setxattr(small, b"user.note", b"a value", how)
        .unwrap();
    files
        .setxattr(large, b"user.large", &[5; 9000], how)
        .unwrap();
    files
        .symlink(&ROOT_USER, ROOT, b"link", b"dir/small")
        .unwrap();
    files.link(large, ROOT, b"hard").unwrap();
    files.copy_range(large, 0, sparse, 0, 16_384).unwrap();
    for i in 0..150 {
        let name = format!("a file with a long name, of which there are many, number {i}");
        files
            .create(&ROOT_USER, dir.ino, name.as_bytes(), &node(Kind::File))
            .unwrap();
    }
    files.sync_all().unwrap();
}

fn build() -> Vec<u8> {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let options = CreateOptions {
        pool_guid: 1,
        device_guids: vec![10],
        created: 1,
        force: false,
    };
    let devices = vec![Arc::clone(&device) as Arc<dyn BlockDevice>];
    let store = Arc::new(Store::create(devices, &options).unwrap());
    let pool = Pool::create(Arc::clone(&store), fixed(), "tank", new_dataset(2, 0)).unwrap();
    store.commit_labels().unwrap();
    pool.create_dataset(
        "tank/sealed",
        new_dataset(3, Suite::Xaes256Gcm.id()),
        &origin(),
    )
    .unwrap();
    pool.create_dataset("tank/gone", new_dataset(4, 0), &origin())
        .unwrap();
    let settings = Settings {
        record_size: 8192,
        // So that changed bytes are what is read.
        compression: dataset::Compression::Off,
        ..Settings::default()
    };
    let engine = engine();
    let open = |name: &str, keys| {
        let id = pool.find(name).unwrap().id;
        Dataset::open(&engine, &pool, id, keys, settings, &ROOT_USER).unwrap()
    };
    let sealed = open("tank/sealed", Some(data_keys()));
    let attr = sealed
        .create(&ROOT_USER, ROOT, b"secret", &node(Kind::File))
        .unwrap();
    sealed.write(attr.ino, 0, &[9; 30_000], false).unwrap();
    sealed.sync_all().unwrap();
    sealed.close().unwrap();
    drop(sealed);
    let files = open("tank", None);
    fill(&files);
    pool.snapshot(&["tank@one".into()], false, &origin())
        .unwrap();
    let large = files.lookup(ROOT, b"hard").unwrap();
    files.write(large.ino, 0, &[3; 9000], false).unwrap();
    files.unlink(ROOT, b"link").unwrap();
    files.forget_all();
    files.sync_all().unwrap();
    pool.snapshot(&["tank@two".into()], false, &origin())
        .unwrap();
    files.write(large.ino, 0, &[4; 9000], false).unwrap();
    files.sync_all().unwrap();
    files.close().unwrap();
    drop(files);
    // Waits in the free queue when the image is taken.
    let gone = open("tank/gone", None);
    fill(&gone);
    gone.close().unwrap();
    drop(gone);
    pool.scrubber().start().unwrap();
    pool.scrubber().step(4096).unwrap();
    pool.destroy_dataset("tank/gone", true, &origin()).unwrap();
    drop(pool);
    device.to_bytes()
}

/// A piece of the image that is live.
#[derive(Clone, Debug)]
struct Object {
    /// Where its copies are.
    copies: Vec<usize>,
    len: usize,
    /// Offsets of pointers in it.
    pointers: Vec<usize>,
    /// Whether it is a block with a checksum at its end.
    is_framed: bool,
    /// The family and array of clear pages and data; their pointers carry a tag that anyone can make.
    clear: Option<(u64, u8)>,
    is_node: bool,
}

/// The image and its map.
pub struct Image {
    bytes: &'static [u8],
    /// The same bytes, to be changed and changed back.
    scratch: Mutex<Vec<u8>>,
    first_segment: usize,
    segment_size: usize,
    objects: Vec<Object>,
    /// Indexes of clear records that are pages or contents.
    plain: Vec<usize>,
    /// Children before parents.
    order: Vec<usize>,
}

static IMAGE: LazyLock<Image> = LazyLock::new(|| Image::map(build().leak()));

/// The image.
pub fn image() -> &'static Image {
    &IMAGE
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Image {
    fn map(bytes: &'static [u8]) -> Image {
        let label = Label::decode(bytes[..BLOCK].try_into().unwrap()).unwrap();
        let mut image = Image {
            bytes,
            scratch: Mutex::new(bytes.to_vec()),
            first_segment: label.header_size.get() as usize,
            segment_size: label.segment_size.get() as usize,
            objects: Vec::new(),
            plain: Vec::new(),
            order: Vec::new(),
        };
        let framed = |copies| Object {
            copies,
            len: BLOCK,
            pointers: Vec::new(),
            is_framed: true,
            clear: None,
            is_node: false,
        };
        image.objects.push(framed(vec![0, bytes.len() - BLOCK]));
        image.add_header_blocks(&framed);
        image.find_records();
        let plain = |object: &Object| object.clear.is_some() && !object.is_node;
        image.plain = (0..image.objects.len())
            .filter(|i| plain(&image.objects[*i]))
            .collect();
        assert!(image.plain.len() > 8 && image.objects.len() > 60);
        image
    }

    /// The newest superblock, and the key blocks in use.
    fn add_header_blocks(&mut self, framed: &dyn Fn(Vec<usize>) -> Object) {
        let mut newest: HashMap<(Vec<u8>, Vec<u8>), (u64, Vec<usize>)> = HashMap::new();
        for at in (BLOCK..self.bytes.len() - BLOCK).step_by(BLOCK) {
            let magic = &self.bytes[at..at + 8];
            let is_super = magic == store::layout::SUPERBLOCK_MAGIC;
            if !is_super && magic != store::layout::KEY_BLOCK_MAGIC {
                continue;
            }
            let txg = u64_at(self.bytes, at + 16);
            let which = if is_super {
                Vec::new()
            } else {
                self.bytes[at..at + BLOCK].to_vec()
            };
            let entry = newest.entry((magic.to_vec(), which)).or_default();
            if txg > entry.0 {
                *entry = (txg, Vec::new());
            }
            if txg == entry.0 {
                entry.1.push(at);
            }
        }
        let mut blocks: Vec<_> = newest.into_iter().collect();
        blocks.sort_by_key(|((magic, _), _)| *magic != store::layout::SUPERBLOCK_MAGIC);
        for (_, (_, copies)) in blocks {
            self.objects.push(framed(copies));
        }
    }

    /// The device offset and length that an address of 16 bytes names.
    fn locate(&self, image: &[u8], addr: &[u8]) -> Option<(usize, usize)> {
        let segment = usize::try_from(u64_at(addr, 0)).ok()?;
        let (offset, len) = (u32_at(addr, 8), u32_at(addr, 12));
        if len == 0 || !len.is_multiple_of(BLOCK) || len > RECORD_MAX {
            return None;
        }
        let at = segment
            .checked_mul(self.segment_size)?
            .checked_add(self.first_segment + offset)?;
        (offset.is_multiple_of(BLOCK) && at.checked_add(len)? <= image.len()).then_some((at, len))
    }

    /// Finds pointers by their checksums: what looks like one and has the hash of what it names is
    /// one.
    fn find_records(&mut self) {
        let mut known: HashMap<usize, usize> = HashMap::new();
        let mut parents: Vec<Vec<usize>> = vec![Vec::new(); self.objects.len()];
        let mut queue: VecDeque<usize> = [1].into();
        while let Some(index) = queue.pop_front() {
            let object = self.objects[index].clone();
            let start = object.copies[0];
            let bytes = &self.bytes[start..start + object.len];
            let step = if object.is_node { POINTER } else { 1 };
            let mut at = 0;
            while at + POINTER <= bytes.len() {
                let pointer = &bytes[at..at + POINTER];
                let Some((copies, len)) = self.pointer(pointer) else {
                    at += step;
                    continue;
                };
                self.objects[index].pointers.push(at);
                let child = *known.entry(copies[0]).or_insert_with(|| {
                    let is_node = pointer[64 + 47] > 0;
                    let data = &self.bytes[copies[0]..copies[0] + len];
                    self.objects.push(Object {
                        clear: object.clear.or_else(|| clear_root(bytes, at)),
                        copies,
                        len,
                        pointers: Vec::new(),
                        is_framed: false,
                        is_node,
                    });
                    parents.push(Vec::new());
                    if is_node || data.len() == BLOCK {
                        queue.push_back(self.objects.len() - 1);
                    }
                    self.objects.len() - 1
                });
                parents[child].push(index);
                at += POINTER;
            }
            if object.is_node {
                // Empty children are places for pointers too.
                self.objects[index].pointers = (0..BLOCK).step_by(POINTER).collect();
            }
        }
        // The longest way from the top decides.
        let mut depth = vec![0; self.objects.len()];
        for _ in 0..40 {
            for child in 0..depth.len() {
                let above = parents[child].iter().map(|p| depth[*p] + 1).max();
                depth[child] = above.unwrap_or(0);
            }
        }
        self.order = (0..depth.len()).collect();
        self.order.sort_by_key(|i| std::cmp::Reverse(depth[*i]));
    }

    fn pointer(&self, pointer: &[u8]) -> Option<(Vec<usize>, usize)> {
        let (at, len) = self.locate(self.bytes, &pointer[..16])?;
        let hash = blake3::hash(&self.bytes[at..at + len]);
        if hash.as_bytes()[..16] != pointer[40..56] {
            return None;
        }
        let mut copies = vec![at];
        copies.extend(self.locate(self.bytes, &pointer[16..32]).map(|(at, _)| at));
        Some((copies, len))
    }

    /// Makes the pointers in an object true of what they point to now.
    fn fix_pointers(&self, image: &mut [u8], object: &Object) {
        for offset in &object.pointers {
            let at = object.copies[0] + offset;
            let mut pointer: [u8; POINTER] = image[at..at + POINTER].try_into().unwrap();
            let Some((child, len)) = self.locate(image, &pointer[..16]) else {
                continue;
            };
            let bytes = &image[child..child + len];
            pointer[40..56].copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
            let level = pointer[64 + 47];
            if level > 0 && len == BLOCK {
                let mut text = Vec::with_capacity(32 * 64 + 1);
                for child in bytes.chunks_exact(POINTER) {
                    text.extend_from_slice(&child[64..]);
                }
                text.push(level);
                let hash = blake3::hash(&text);
                pointer[64..96].copy_from_slice(hash.as_bytes());
                pointer[96..104].fill(0);
            } else if let (0, Some((family, array))) =
                (level, object.clear.or(self.clear_at(object, *offset)))
            {
                let tag = dataset::fuzzing::clear_tag(
                    family,
                    array,
                    pointer[64 + 45],
                    u32_at(&pointer, 64 + 48) as u32,
                    bytes,
                );
                pointer[88..104].copy_from_slice(&tag);
            }
            if image[at..at + POINTER] != pointer {
                for copy in &object.copies {
                    image[copy + offset..copy + offset + POINTER].copy_from_slice(&pointer);
                }
            }
        }
    }

    fn clear_at(&self, object: &Object, offset: usize) -> Option<(u64, u8)> {
        let start = object.copies[0];
        clear_root(&self.bytes[start..start + object.len], offset)
    }

    /// A device with the image as `script` changes it.
    pub fn change(&self, script: &[u8], only_plain: bool) -> CowDevice {
        let mut image = self.scratch.lock().unwrap();
        let image = &mut image[..];
        let mut script = Script(script);
        // One in eight leaves the checksums as they are.
        let fix = only_plain || script.u8().unwrap_or(0) % 8 != 7;
        for _ in 0..24 {
            if self.step(image, &mut script, only_plain).is_none() {
                break;
            }
        }
        if fix {
            for index in &self.order {
                self.fix_pointers(image, &self.objects[*index]);
            }
            for object in self.objects.iter().filter(|object| object.is_framed) {
                for at in &object.copies {
                    let (body, sum) = image[*at..at + BLOCK].split_at_mut(BLOCK - 32);
                    sum.copy_from_slice(blake3::hash(body).as_bytes());
                }
            }
        }
        let device = CowDevice::new(self.bytes);
        for object in &self.objects {
            for at in &object.copies {
                let range = *at..at + object.len;
                if image[range.clone()] != self.bytes[range.clone()] {
                    let new = IoSlice::new(&image[range.clone()]);
                    device.write_at(*at as u64, &[new]).unwrap();
                    image[range.clone()].copy_from_slice(&self.bytes[range]);
                }
            }
        }
        device
    }

    fn step(&self, image: &mut [u8], script: &mut Script<'_>, only_plain: bool) -> Option<()> {
        let kind = script.u8()?;
        let which = usize::from(script.u8()?);
        if only_plain || kind % 4 == 3 {
            let index = self.plain[which % self.plain.len()];
            return self.change_plain(image, index, script);
        }
        let object = &self.objects[which % self.objects.len()];
        match kind % 4 {
            // Other bytes at an offset.
            0 | 1 => {
                let offset = usize::from(script.u16()?) % object.len;
                let bytes = script.bytes()?;
                put(image, object, offset, bytes);
            }
            // A pointer from somewhere else, once or in every place.
            _ => {
                let from = &self.objects[usize::from(script.u8()?) % self.objects.len()];
                let (i, j) = (usize::from(script.u8()?), usize::from(script.u8()?));
                if from.pointers.is_empty() || object.pointers.is_empty() {
                    return Some(());
                }
                let at = from.copies[0] + from.pointers[i % from.pointers.len()];
                let pointer = image[at..at + POINTER].to_vec();
                let count = object.pointers.len();
                let to = if j >= 0xf0 {
                    0..count
                } else {
                    j % count..j % count + 1
                };
                for k in to {
                    put(image, object, object.pointers[k], &pointer);
                }
            }
        }
        Some(())
    }

    /// Changes what is compressed in a record, and compresses it again if it still fits.
    fn change_plain(&self, image: &mut [u8], index: usize, script: &mut Script<'_>) -> Option<()> {
        let object = &self.objects[index];
        let offset = usize::from(script.u16()?);
        let bytes = script.bytes()?;
        // The pointer tells how it is compressed.
        let parents = self
            .objects
            .iter()
            .flat_map(|o| o.pointers.iter().map(move |at| o.copies[0] + at));
        let at = parents.into_iter().find(|at| {
            self.locate(self.bytes, &self.bytes[*at..at + 16])
                .is_some_and(|l| l.0 == object.copies[0])
        })?;
        let (how, len) = (self.bytes[at + 64 + 45], u32_at(self.bytes, at + 64 + 48));
        let start = object.copies[0];
        let packed = &image[start..start + object.len];
        let new = dataset::fuzzing::repack(how, len, packed, &|plain| {
            let offset = offset % plain.len();
            let n = bytes.len().min(plain.len() - offset);
            plain[offset..offset + n].copy_from_slice(&bytes[..n]);
        });
        if let Some(new) = new {
            put(image, object, 0, &new);
        }
        Some(())
    }
}

fn put(image: &mut [u8], object: &Object, offset: usize, bytes: &[u8]) {
    let n = bytes.len().min(object.len - offset);
    for copy in &object.copies {
        image[copy + offset..copy + offset + n].copy_from_slice(&bytes[..n]);
    }
}

/// The family and array, if this is where an entry of a clear dataset has one of its roots.
fn clear_root(entry: &[u8], at: usize) -> Option<(u64, u8)> {
    // Magic 4, version 2, kind 1, suite 1, 17 numbers, seal 32.
    let roots = 8 + 17 * 8 + 32;
    if entry[..4] != *b"DSET" || entry[7] != 0 {
        return None;
    }
    let array = [roots, roots + POINTER]
        .iter()
        .position(|root| *root == at)?;
    Some((u64_at(entry, 8 + 2 * 8), array as u8))
}

struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.u8()?, self.u8()?]))
    }

    /// A length and as many bytes.
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.u8()?) % 65;
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Some(bytes)
    }
}
