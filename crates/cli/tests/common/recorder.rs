//! An NBD server that records each write, answer and flush of its devices, and what a device may hold after a power cut.
//!
//! It is written from the protocol's document alone and shares no code with the program.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

/// A disk keeps or loses a whole sector of this size.
const SECTOR: usize = 512;

/// Flags of an export: flush, FUA, trim, zeros.
const FLAGS: u16 = 0b110_1101;

/// The change that a request makes.
#[derive(Clone)]
enum Change {
    Write { offset: u64, data: Arc<[u8]> },
    Zero { offset: u64, len: u64 },
    Flush,
}

/// A moment of a recording.
enum Event {
    /// A request arrived at a device. It is durable with its answer, or with the next flush.
    Begun {
        device: usize,
        change: Change,
        is_durable: bool,
    },
    /// The answer to the event of this number was sent.
    Ended(usize),
}

/// The contents of a device. Sectors that were never written are zeros.
#[derive(Clone, Default)]
pub struct Image {
    sectors: BTreeMap<u64, [u8; SECTOR]>,
}

impl Image {
    /// A file of this size that holds the same.
    pub fn write_to(&self, path: &Path, size: u64) {
        let file = std::fs::File::create(path).expect("a file");
        file.set_len(size).expect("its size");
        for (number, sector) in &self.sectors {
            let at = number * SECTOR as u64;
            file.write_all_at(sector, at).expect("it can be written");
        }
    }

    fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        let (mut at, end) = (offset, offset + len as u64);
        while at < end {
            let within = (at % SECTOR as u64) as usize;
            let part = (SECTOR - within).min((end - at) as usize);
            match self.sectors.get(&(at / SECTOR as u64)) {
                Some(sector) => bytes.extend_from_slice(&sector[within..within + part]),
                None => bytes.resize(bytes.len() + part, 0),
            }
            at += part as u64;
        }
        bytes
    }

    /// Carries out a change in those sectors that `keeps` says.
    fn apply(&mut self, change: &Change, keeps: &mut dyn FnMut(u64) -> bool) {
        let (offset, len) = match change {
            Change::Write { offset, data } => (*offset, data.len() as u64),
            Change::Zero { offset, len } => (*offset, *len),
            Change::Flush => return,
        };
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let number = at / SECTOR as u64;
            let within = (at % SECTOR as u64) as usize;
            let part = (SECTOR - within).min((end - at) as usize);
            if keeps(number) {
                let sector = self.sectors.entry(number).or_insert([0; SECTOR]);
                match change {
                    Change::Write { data, .. } => {
                        let from = (at - offset) as usize;
                        sector[within..within + part].copy_from_slice(&data[from..from + part]);
                    }
                    _ => sector[within..within + part].fill(0),
                }
            }
            at += part as u64;
        }
    }
}

/// The devices, and everything that happened to them in the order in which it happened.
struct Recording {
    /// The contents of the devices at the beginning.
    first: Vec<Image>,
    /// The contents of the devices now.
    now: Vec<Image>,
    events: Vec<Event>,
}

impl Recording {
    fn begin(&mut self, device: usize, change: Change, is_durable: bool) -> usize {
        self.now[device].apply(&change, &mut |_| true);
        self.events.push(Event::Begun {
            device,
            change,
            is_durable,
        });
        self.events.len() - 1
    }
}

/// The changes without a flush that are on the medium after a power cut.
#[derive(Clone, Copy, Debug)]
pub enum Survivors {
    None,
    All,
    /// Each change with a chance of one half.
    Requests(u64),
    /// Each block of 4,096 bytes of each change with a chance of one half.
    Blocks(u64),
    /// Each sector of 512 bytes of each change with a chance of one half.
    Sectors(u64),
}

impl Survivors {
    pub fn of(seed: u64) -> Survivors {
        match mix(seed, 4, 0) % 8 {
            0 => Survivors::None,
            1 => Survivors::All,
            2..=3 => Survivors::Requests(seed),
            4 => Survivors::Blocks(seed),
            _ => Survivors::Sectors(seed),
        }
    }

    /// A generator of decisions, one for each sector of each change.
    fn chooser(self) -> impl Fn(usize, u64) -> bool {
        move |event, sector| match self {
            Survivors::None => false,
            Survivors::All => true,
            Survivors::Requests(seed) => mix(seed, event as u64, 0) & 1 == 0,
            Survivors::Blocks(seed) => mix(seed, event as u64, sector / 8) & 1 == 0,
            Survivors::Sectors(seed) => mix(seed, event as u64, sector) & 1 == 0,
        }
    }
}

/// A number that depends on all three (the finalizer of splitmix64).
pub fn mix(seed: u64, a: u64, b: u64) -> u64 {
    let mut state = seed
        .wrapping_add(a.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .wrapping_add(b.wrapping_mul(0xc2b2_ae3d_27d4_eb4f));
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// The seeds to try: `FIRST+COUNT` of `STRONGROOM_SEEDS`, or the first few.
pub fn seeds(few: u64) -> std::ops::Range<u64> {
    let given = std::env::var("STRONGROOM_SEEDS").unwrap_or_else(|_| format!("0+{few}"));
    let (first, count) = given.split_once('+').expect("FIRST+COUNT");
    let [first, count]: [u64; 2] = [first, count].map(|number| number.parse().expect("a number"));
    first..first + count
}

/// A run of steps on recorded devices.
pub struct Run<S> {
    pub recorder: Recorder,
    /// For each step the moment of its answer, and the state after it.
    pub answers: Vec<(usize, S)>,
}

impl<S> Run<S> {
    /// The states that are right after a cut, and the number of the step that was under way: the state that was answered
    /// for, and what the step makes of it.
    pub fn right(&self, moment: usize) -> (Option<&S>, Option<&S>, usize) {
        let step = self.answers.partition_point(|(at, _)| *at <= moment);
        let before = step.checked_sub(1).map(|last| &self.answers[last].1);
        let after = self.answers.get(step).map(|(_, state)| state);
        (before, after, step)
    }
}

/// The device that does not answer.
#[derive(Default)]
struct Held {
    device: Mutex<Option<usize>>,
    changed: Condvar,
}

/// Devices of an NBD server, each at a unix socket of its own.
pub struct Recorder {
    recording: Arc<Mutex<Recording>>,
    held: Arc<Held>,
    dir: tempfile::TempDir,
    listeners: Vec<UnixListener>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        for listener in &self.listeners {
            // The thread that accepts ends.
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
    }
}

impl Recorder {
    /// Devices of this size that hold this.
    pub fn new(images: Vec<Image>, size: u64) -> Recorder {
        let dir = tempfile::tempdir().expect("a directory");
        let count = images.len();
        let recording = Arc::new(Mutex::new(Recording {
            now: images.clone(),
            first: images,
            events: Vec::new(),
        }));
        let mut listeners = Vec::new();
        let held = Arc::<Held>::default();
        for device in 0..count {
            let listener = UnixListener::bind(socket(dir.path(), device)).expect("a socket");
            let (recording, held) = (recording.clone(), held.clone());
            listeners.push(listener.try_clone().expect("a descriptor"));
            std::thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let (recording, held) = (recording.clone(), held.clone());
                    std::thread::spawn(move || serve(stream, (device, size), &recording, &held));
                }
            });
        }
        Recorder {
            recording,
            held,
            dir,
            listeners,
        }
    }

    /// The address of a device.
    pub fn uri(&self, device: usize) -> String {
        format!(
            "nbd+unix:///?socket={}",
            socket(self.dir.path(), device).display()
        )
    }

    /// From now on a device does not carry out requests, and does not answer.
    pub fn hold(&self, device: usize) {
        *self.held.device.lock().expect("no panic") = Some(device);
    }

    /// Lets the requests go on that were held up.
    pub fn let_go(&self) {
        *self.held.device.lock().expect("no panic") = None;
        self.held.changed.notify_all();
    }

    /// The number of events so far: a moment at which power can be cut.
    pub fn moment(&self) -> usize {
        self.lock().events.len()
    }

    /// The devices after a power cut at a moment. `honours` says of each flush, by its event, whether the devices obey it.
    pub fn cut(
        &self,
        moment: usize,
        survivors: Survivors,
        honours: impl Fn(usize) -> bool,
    ) -> Vec<Image> {
        let recording = self.lock();
        let events = &recording.events[..moment];
        // By device, the beginning of the last flush that was answered.
        let mut flushed: BTreeMap<usize, usize> = BTreeMap::new();
        let mut answered: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            let Event::Ended(begun) = event else { continue };
            answered.insert(*begun, at);
            if let Event::Begun {
                device,
                change: Change::Flush,
                ..
            } = &events[*begun]
                && honours(*begun)
            {
                let last = flushed.entry(*device).or_default();
                *last = (*last).max(*begun);
            }
        }
        let mut images = recording.first.clone();
        let chooser = survivors.chooser();
        for (at, event) in events.iter().enumerate() {
            let Event::Begun {
                device,
                change,
                is_durable,
            } = event
            else {
                continue;
            };
            let ended = answered.get(&at);
            let is_kept = ended.is_some_and(|ended| {
                *is_durable || flushed.get(device).is_some_and(|flush| ended < flush)
            });
            images[*device].apply(change, &mut |sector| is_kept || chooser(at, sector));
        }
        images
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recording> {
        self.recording.lock().expect("no panic")
    }
}

fn socket(dir: &Path, device: usize) -> PathBuf {
    dir.join(format!("device{device}"))
}

/// Serves one client until it goes.
fn serve(
    mut stream: UnixStream,
    (device, size): (usize, u64),
    recording: &Mutex<Recording>,
    held: &Held,
) -> Option<()> {
    negotiate(&mut stream, size)?;
    loop {
        let head: [u8; 28] = hear(&mut stream)?;
        let flags = u16::from_be_bytes(head[4..6].try_into().ok()?);
        let kind = u16::from_be_bytes(head[6..8].try_into().ok()?);
        let offset = u64::from_be_bytes(head[16..24].try_into().ok()?);
        let len = u64::from(u32::from_be_bytes(head[24..28].try_into().ok()?));
        let mut read = Vec::new();
        let change = match kind {
            0 => None,
            1 => {
                let mut data = vec![0; len as usize];
                stream.read_exact(&mut data).ok()?;
                let data = data.into();
                Some(Change::Write { offset, data })
            }
            2 => return Some(()),
            3 => Some(Change::Flush),
            4 | 6 => Some(Change::Zero { offset, len }),
            _ => return None,
        };
        let waiting = held.device.lock().ok()?;
        let is_held = |held: &mut Option<usize>| *held == Some(device);
        drop(held.changed.wait_while(waiting, is_held).ok()?);
        let begun = {
            let mut recording = recording.lock().ok()?;
            if change.is_none() {
                read = recording.now[device].read(offset, len as usize);
            }
            change.map(|change| recording.begin(device, change, flags & 1 != 0))
        };
        let mut answer = 0x6744_6698_u32.to_be_bytes().to_vec();
        answer.extend([0; 4]);
        answer.extend(&head[8..16]);
        answer.extend(read);
        if let Some(begun) = begun {
            recording.lock().ok()?.events.push(Event::Ended(begun));
        }
        stream.write_all(&answer).ok()?;
    }
}

/// The first phase: greets the client and gives it the export, whatever its name.
fn negotiate(stream: &mut UnixStream, size: u64) -> Option<()> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").ok()?;
    let _flags: [u8; 4] = hear(stream)?;
    loop {
        let head: [u8; 16] = hear(stream)?;
        let option = u32::from_be_bytes(head[8..12].try_into().ok()?);
        let len = u32::from_be_bytes(head[12..16].try_into().ok()?);
        let mut data = vec![0; len as usize];
        stream.read_exact(&mut data).ok()?;
        match option {
            // Go.
            7 => {
                let mut info = vec![0, 0];
                info.extend(size.to_be_bytes());
                info.extend(FLAGS.to_be_bytes());
                reply(stream, option, 3, &info)?;
                return reply(stream, option, 1, &[]);
            }
            // Abort.
            2 => return None,
            _ => reply(stream, option, (1 << 31) + 1, &[])?,
        }
    }
}

fn hear<const LEN: usize>(stream: &mut UnixStream) -> Option<[u8; LEN]> {
    let mut bytes = [0; LEN];
    stream.read_exact(&mut bytes).ok().map(|()| bytes)
}

fn reply(stream: &mut UnixStream, option: u32, kind: u32, data: &[u8]) -> Option<()> {
    let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes).ok()
}
