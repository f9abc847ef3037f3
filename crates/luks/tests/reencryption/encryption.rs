//! Encryption and decryption in place: to the end, in parts that cryptsetup goes on with and the other way, and
//! through power cuts.

use std::io::IoSlice;
use std::sync::Arc;

use crate::common::reencryption::{Disks, HERE, Judge};
use crate::common::{RANDOM, secret};
use block::fault::{FaultClock, FaultDevice, Journal, Survival};
use block::{BlockDevice, MemoryDevice};
use luks::{
    Container, ContainerFormat, ContainerVersion, Error, HeaderStage, Mapping, Protection,
    ReencryptionEnd, ReencryptionPace, Result,
};

/// The free space at the end of a device that is encrypted in place: twice that of a header.
const REDUCED: usize = 1 << 20;

/// The length of the data.
const LEN: usize = 5 * ZONE;

const ZONE: usize = 256 << 10;

const ZONES: ReencryptionPace = ReencryptionPace {
    zone: Some(ZONE as u64),
    device_size: None,
};

/// The data.
fn pattern() -> Vec<u8> {
    let mut bytes = crate::common::reencryption::pattern();
    bytes.truncate(LEN);
    bytes
}

/// The change that a device goes through.
#[derive(Clone, Debug)]
enum Form {
    EncryptInPlace,
    EncryptBeside(Protection),
    /// With the header elsewhere from the beginning.
    Decrypt(Protection),
    /// With a header that was exported.
    DecryptExported(Protection),
}

use Form::{Decrypt, DecryptExported, EncryptBeside, EncryptInPlace};

fn checksum() -> Protection {
    Protection::Checksum("sha256".into())
}

fn all() -> Vec<Form> {
    let kinds = [EncryptBeside, Decrypt, DecryptExported];
    let protected = kinds
        .into_iter()
        .flat_map(|of: fn(Protection) -> Form| [checksum(), Protection::Journal].map(of));
    std::iter::once(EncryptInPlace).chain(protected).collect()
}

fn new_format(sector_size: u32) -> ContainerFormat {
    ContainerFormat {
        sector_size,
        areas_len: Some(256 << 10),
        ..crate::common::small(ContainerVersion::V2)
    }
}

struct Devices {
    data: Arc<dyn BlockDevice>,
    header: Option<Arc<dyn BlockDevice>>,
}

impl Devices {
    fn header(&self) -> Arc<dyn BlockDevice> {
        Arc::clone(self.header.as_ref().unwrap_or(&self.data))
    }
}

fn in_memory(disks: &Disks) -> Devices {
    let device = |bytes: &Vec<u8>| Arc::new(MemoryDevice::from_bytes(bytes.clone())) as _;
    Devices {
        data: device(&disks.data),
        header: disks.header.as_ref().map(device),
    }
}

fn contents(devices: &Devices) -> Disks {
    let bytes = |device: &Arc<dyn BlockDevice>| {
        let mut bytes = vec![0; device.size() as usize];
        device.read_at(0, &mut bytes).unwrap();
        bytes
    };
    Disks {
        data: bytes(&devices.data),
        header: devices.header.as_ref().map(bytes),
    }
}

impl Form {
    fn encrypts(&self) -> bool {
        matches!(self, EncryptInPlace | EncryptBeside(_))
    }

    /// The devices before anything is done.
    fn start(&self) -> Disks {
        let mut plain = pattern();
        match self {
            EncryptInPlace => {
                plain.resize(LEN + REDUCED, 0xee);
                Disks {
                    data: plain,
                    header: None,
                }
            }
            EncryptBeside(_) => Disks {
                data: plain,
                header: Some(vec![0; 1 << 20]),
            },
            Decrypt(_) => contents(&container(0)),
            DecryptExported(_) => {
                let data = contents(&container(512 << 10)).data;
                let container = crate::common::reopen(data.clone()).unwrap();
                let header = container.export_for_decryption(&RANDOM).unwrap();
                Disks {
                    data,
                    header: Some(header),
                }
            }
        }
    }

    fn begin(&self, on: &Devices) -> Result<()> {
        let (data, passphrase) = (&*on.data, secret("first"));
        match self {
            EncryptInPlace => {
                let (device, format) = (Arc::clone(&on.data), new_format(512));
                let reduced = REDUCED as u64;
                luks::begin_encryption_in_place(device, reduced, &format, &passphrase, &RANDOM)?;
            }
            EncryptBeside(how) => {
                // The sectors of the devices tear at 512 bytes, and no checksum repairs a mixed sector.
                let sector_size = match how {
                    Protection::Checksum(_) => 512,
                    _ => 4096,
                };
                let (device, format) = (on.header(), new_format(sector_size));
                luks::begin_encryption(device, data, &format, how, &passphrase, &RANDOM)?;
            }
            Decrypt(how) | DecryptExported(how) => {
                let mut container = Container::open(on.header(), &RANDOM)?;
                let key = container.unlock(&passphrase, None)?;
                let slot = crate::common::cheap_slot(ContainerVersion::V2);
                container.begin_decryption(
                    data,
                    how,
                    ReencryptionPace::default(),
                    key,
                    &slot,
                    &RANDOM,
                )?;
            }
        }
        Ok(())
    }

    /// With begun encryption or decryption.
    fn begun(&self) -> Devices {
        let devices = in_memory(&self.start());
        self.begin(&devices).unwrap();
        devices
    }
}

/// A container with the pattern in it, which begins at this byte of the device; its header is elsewhere if that is
/// the first.
fn container(offset: usize) -> Devices {
    let data: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(offset + LEN));
    let header = (offset == 0).then(|| Arc::new(MemoryDevice::new(1 << 20)) as _);
    let devices = Devices { data, header };
    let format = ContainerFormat {
        data_offset: Some(offset as u64),
        ..new_format(512)
    };
    let random = &RANDOM;
    let (container, key) =
        luks::format(devices.header(), &format, &secret("first"), random).unwrap();
    let data = Arc::clone(&devices.data);
    let mapping = Mapping::open(&container, data, &key, HERE).unwrap();
    mapping.write_at(0, &[IoSlice::new(&pattern())]).unwrap();
    devices
}

/// Puts a header in place that is staged.
fn complete_stage(on: &Devices) -> Result<()> {
    match (&on.header, HeaderStage::find(&*on.data)?) {
        (None, Some(stage)) => stage.complete(&*on.data, &secret("first"), &RANDOM),
        _ => Ok(()),
    }
}

/// Goes on for so many hot zones.
fn resume(on: &Devices, mut zones: usize) -> Result<ReencryptionEnd> {
    complete_stage(on)?;
    let mut container = Container::open(on.header(), &RANDOM)?;
    let keys = container.unlock_both(&secret("first"))?;
    let mut last = None;
    container.reencrypt(&*on.data, &keys, ZONES, &RANDOM, &mut |progress| {
        assert!(last.is_none_or(|last| progress.done > last), "{progress:?}");
        last = Some(progress.done);
        zones -= 1;
        zones > 0
    })
}

fn is_under_way(disks: &Disks) -> bool {
    let container = Container::look(in_memory(disks).header());
    container.is_ok_and(|container| container.is_in_reencryption())
}

/// The data, in whatever state the devices are.
fn data_of(disks: &Disks) -> Result<Vec<u8>> {
    let on = in_memory(disks);
    let read = |device: &dyn BlockDevice| {
        let mut bytes = vec![0; LEN];
        device.read_at(0, &mut bytes)?;
        Ok(bytes)
    };
    complete_stage(&on)?;
    let mut container = match Container::open(on.header(), &RANDOM) {
        Err(Error::NotLuks { .. }) => return read(&*on.data),
        opened => opened?,
    };
    let data = Arc::clone(&on.data);
    if container.is_in_reencryption() {
        let keys = container.unlock_both(&secret("first"))?;
        let random = &RANDOM;
        let opened = Mapping::open_in_reencryption(&mut container, data, &keys, HERE, random);
        return match opened {
            // To open it may have ended the decryption.
            Err(Error::Usage(_)) if keys.new.is_none() => read(&*on.data),
            mapping => read(&mapping?),
        };
    }
    if container.segment().is_err() {
        return read(&*on.data);
    }
    let key = container.unlock(&secret("first"), None)?.key;
    read(&Mapping::open(&container, data, &key, HERE)?)
}

/// The work is complete, and the data is the pattern.
fn check_end(form: &Form, disks: &Disks, what: &str) {
    assert!(!is_under_way(disks), "{what}");
    let container = Container::look(in_memory(disks).header()).unwrap();
    assert_eq!(container.segment().is_ok(), form.encrypts(), "{what}");
    let data = data_of(disks).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(data == pattern(), "{what}: other bytes");
    let known = &pattern()[..32];
    let is_clear = disks
        .data
        .chunks(512)
        .any(|sector| sector.starts_with(known));
    assert_eq!(is_clear, !form.encrypts(), "{what}: plaintext");
}

/// Has cryptsetup end what it has recovered.
fn end_by(judge: &Judge, disks: Disks) -> std::result::Result<Disks, String> {
    if !is_under_way(&disks) {
        return Ok(disks);
    }
    let on = in_memory(&disks);
    let container = Container::look(on.header()).unwrap();
    let progress = container.reencryption_progress(&*on.data).unwrap();
    if progress.done < progress.total {
        return judge.run_on(&disks, &with_header(&disks, "--resume-only"));
    }
    // cryptsetup 2.6 would decrypt all data once more.
    assert_eq!(resume(&on, 1000).unwrap(), ReencryptionEnd::All);
    Ok(contents(&on))
}

/// Options with which cryptsetup finds the header.
fn with_header(disks: &Disks, options: &str) -> String {
    match disks.header {
        Some(_) => format!("{options} --header header"),
        None => options.into(),
    }
}

#[test]
fn a_device_is_encrypted_and_decrypted_in_one_go_and_in_parts() {
    for form in all() {
        let what = format!("{form:?}");
        assert!(
            data_of(&form.start()).unwrap() == pattern(),
            "{what}: before"
        );
        let at_once = form.begun();
        assert!(
            data_of(&contents(&at_once)).unwrap() == pattern(),
            "{what}: begun"
        );
        assert_eq!(
            resume(&at_once, 1000).unwrap(),
            ReencryptionEnd::All,
            "{what}"
        );
        check_end(&form, &contents(&at_once), &what);
        let in_parts = form.begun();
        let mut parts = 0;
        while let ReencryptionEnd::Paused(progress) = resume(&in_parts, 2).unwrap() {
            parts += 1;
            assert!(progress.done <= parts * ZONE as u64, "{what}: {progress:?}");
            assert_eq!(progress.total, LEN as u64, "{what}");
            let disks = contents(&in_parts);
            assert!(data_of(&disks).unwrap() == pattern(), "{what}: {parts}");
        }
        assert!(parts > 2, "{what}: {parts}");
        check_end(&form, &contents(&in_parts), &what);
    }
}

#[test]
fn what_was_paused_is_ended_by_cryptsetup() {
    let Some(judge) = Judge::new() else { return };
    for (n, form) in all().into_iter().enumerate() {
        for parts in [n % 2, 2 + n % 2] {
            let what = format!("{form:?} after {parts}");
            let devices = form.begun();
            if parts > 0 {
                resume(&devices, parts + 1).unwrap();
            }
            let disks = contents(&devices);
            let options = with_header(&disks, "--resume-only");
            let ended = judge.run_on(&disks, &options);
            let ended = ended.unwrap_or_else(|error| panic!("{what}: {error}"));
            check_end(&form, &ended, &what);
        }
    }
}

#[test]
fn what_cryptsetup_left_opens_and_is_ended_here() {
    let Some(judge) = Judge::new() else { return };
    #[rustfmt::skip]
    let cases = [
        (EncryptInPlace, "--encrypt --reduce-device-size 1M"),
        (EncryptBeside(checksum()), "--encrypt --header header --resilience checksum"),
        (EncryptBeside(Protection::Journal), "--encrypt --header header --resilience journal"),
        (Decrypt(checksum()), "--decrypt --header header --resilience checksum"),
        (Decrypt(Protection::Journal), "--decrypt --header header --resilience journal"),
        // Not the decryption whose header cryptsetup exports: its hot zone of 1 MiB does not fit these small devices.
    ];
    for (form, options) in cases {
        let mut start = form.start();
        if !matches!(form, Decrypt(_)) {
            // cryptsetup makes it.
            start.header = None;
        }
        let begun = judge.run_on(&start, &format!("--init-only {options}"));
        let begun = begun.unwrap_or_else(|error| panic!("{form:?}: {error}"));
        let mut states = vec![("begun".to_owned(), begun.clone())];
        let resume_only = with_header(&begun, "--resume-only");
        // Some moments while data is changed, and each one of the end.
        for when in [3, 6, 8, 11].into_iter().chain(13..) {
            let Some(disks) = judge.killed_on(&begun, &resume_only, when) else {
                break;
            };
            states.push((format!("killed at {when}"), disks));
        }
        assert!(states.len() > 3, "{form:?}: {} states", states.len());
        let mut ended_without_a_key = 0;
        for (when, disks) in states {
            let what = format!("{form:?}, {when}");
            if is_all_new(&disks) {
                ended_without_a_key += 1;
                check_end(&form, &ended_without_key(&disks, &what), &what);
                if !form.encrypts() {
                    continue;
                }
            }
            let data = data_of(&disks);
            let data = data.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(data == pattern(), "{what}: other bytes");
            let devices = in_memory(&disks);
            if is_under_way(&disks) {
                let ended = resume(&devices, 1000);
                let ended = ended.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(ended, ReencryptionEnd::All, "{what}");
            }
            check_end(&form, &contents(&devices), &what);
        }
        assert!(ended_without_a_key > 0, "{form:?}: {ended_without_a_key}");
    }
}

/// Returns whether only the end of the work is left.
fn is_all_new(disks: &Disks) -> bool {
    let on = in_memory(disks);
    let container = Container::look(on.header());
    container.is_ok_and(|it| it.is_in_reencryption() && it.is_all_new(&*on.data).unwrap())
}

/// Returns the devices after the work was ended without a passphrase. All data is as it was.
fn ended_without_key(disks: &Disks, what: &str) -> Disks {
    let on = in_memory(disks);
    let mut container = Container::open(on.header(), &RANDOM).unwrap();
    let ended = container.end_reencryption(&*on.data, &RANDOM);
    ended.unwrap_or_else(|error| panic!("{what}: {error}"));
    contents(&on)
}

/// A power cut before each write, from the beginning to the end.
fn cut_everywhere(form: &Form, judge: Option<&Judge>) {
    let clock = FaultClock::new();
    let start = form.start();
    let device = |bytes: &Vec<u8>| Arc::new(FaultDevice::from_bytes(bytes.clone(), &clock));
    let data = device(&start.data);
    let header = start.header.as_ref().map(device);
    let on = Devices {
        data: Arc::clone(&data) as _,
        header: header.clone().map(|header| header as _),
    };
    form.begin(&on).unwrap();
    assert_eq!(resume(&on, 1000).unwrap(), ReencryptionEnd::All);
    let end = clock.now();
    let data = data.take_journal();
    let header = header.map(|header| header.take_journal());
    let (mut asked, mut under_way) = (0, 0);
    for cut in 0..=end {
        let survival = Survival::in_turn(cut, cut);
        let what = format!("{form:?}, cut before {cut} of {end}, {survival:?}");
        let image = |journal: &Journal| journal.image(cut, survival);
        let disks = Disks {
            data: image(&data),
            header: header.as_ref().map(image),
        };
        let bytes = data_of(&disks).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(bytes == pattern(), "{what}: other bytes");
        let on = in_memory(&disks);
        let is_staged = on.header.is_none() && HeaderStage::find(&*on.data).unwrap().is_some();
        if !is_under_way(&disks) && !is_staged {
            if cut < end / 2 {
                form.begin(&on)
                    .unwrap_or_else(|error| panic!("{what}: begun again: {error}"));
                assert_eq!(resume(&on, 1000).unwrap(), ReencryptionEnd::All, "{what}");
            }
            check_end(form, &contents(&on), &what);
            continue;
        }
        under_way += 1;
        if !is_staged && is_all_new(&disks) {
            check_end(form, &ended_without_key(&disks, &what), &what);
        }
        let ended = resume(&on, 1000).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(ended, ReencryptionEnd::All, "{what}");
        check_end(form, &contents(&on), &what);
        if let Some(judge) = judge.filter(|_| !is_staged && cut % 13 == 0) {
            let ended = judge
                .recovered_on(&disks)
                .and_then(|disks| end_by(judge, disks));
            // cryptsetup does not end what has only the last step to do.
            match ended {
                Ok(ended) => check_end(form, &ended, &format!("{what}: by cryptsetup")),
                Err(error) => assert!(cut + 12 > end, "{what}: {error}"),
            }
            asked += 1;
        }
    }
    assert!(under_way > 16, "{under_way} under way");
    assert!(judge.is_none() || asked > 1, "{asked} were asked");
}

#[test]
fn a_power_cut_at_any_write_loses_nothing_of_what_is_encrypted_in_place() {
    cut_everywhere(&EncryptInPlace, Judge::new().as_ref());
}

#[test]
fn a_power_cut_at_any_write_loses_nothing_of_what_is_encrypted_beside_its_header() {
    cut_everywhere(&EncryptBeside(checksum()), Judge::new().as_ref());
}

#[test]
fn a_power_cut_at_any_write_loses_nothing_of_what_is_decrypted() {
    cut_everywhere(&Decrypt(Protection::Journal), Judge::new().as_ref());
}

#[test]
fn a_power_cut_at_any_write_loses_nothing_of_what_is_decrypted_by_an_exported_header() {
    cut_everywhere(&DecryptExported(checksum()), Judge::new().as_ref());
}
