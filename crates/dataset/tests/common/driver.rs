//! Random operations on a model and a file system.

use vfs::{
    Caller, Error, Fallocate, FileSystem, Kind, NewNode, ROOT, RenameMode, Result, SetAttr,
    SetXattr,
};

use super::Dice;
use super::look::{read_all, resolve};
use super::model::{Id, Model};

const NAMES: u64 = 12;
const LOG_MAX: usize = 40;

pub struct Driver {
    pub dice: Dice,
    pub model: Model,
    /// The largest file.
    pub size_max: u64,
    /// The file of which a change that takes several steps was begun by the last operation.
    pub in_steps: Option<(Id, Vec<u8>)>,
    log: Vec<String>,
}

/// The outcome of an operation that should have this one. Any may fail for lack of space, for a quota or for an
/// error of a device, which is for the caller to judge.
fn agree<T>(result: Result<T>, expected: Result<()>, what: &str) -> Result<Option<T>> {
    match result {
        Err(error @ (Error::Io | Error::NoSpace | Error::Quota)) => Err(error),
        Err(error) => {
            assert_eq!(Err(error), expected, "{what}");
            Ok(None)
        }
        Ok(value) => {
            assert_eq!(Ok(()), expected, "{what}");
            Ok(Some(value))
        }
    }
}

impl Driver {
    pub fn new(seed: u64) -> Driver {
        Driver::on(Model::new(), Dice(seed))
    }

    /// Goes on with what a file system holds.
    pub fn on(model: Model, dice: Dice) -> Driver {
        Driver {
            dice,
            model,
            size_max: 600_000,
            in_steps: None,
            log: Vec::new(),
        }
    }

    /// A random operation, after which model and file system agree about its outcome.
    ///
    /// # Errors
    /// The file system had no free space, or a device failed. The model is then as if all had gone well.
    pub fn step(&mut self, fs: &dyn FileSystem) -> Result<()> {
        self.in_steps = None;
        match self.dice.below(102) {
            0..=14 => self.make(fs),
            15..=44 => self.write(fs),
            45..=52 => self.truncate(fs),
            53..=60 => self.fallocate(fs),
            61..=68 => self.remove(fs),
            69..=76 => self.rename(fs),
            77..=80 => self.link(fs),
            81..=86 => self.xattr(fs),
            87..=89 => self.chmod(fs),
            90..=95 => self.copy(fs),
            96..=99 => self.read(fs),
            _ => self.nameless(fs),
        }
    }

    pub fn pick(&mut self, kind: Option<Kind>) -> Option<(Id, Vec<u8>)> {
        let mut paths = self.model.paths();
        paths.retain(|(id, _)| kind.is_none_or(|kind| self.model.nodes[id].kind == kind));
        if paths.is_empty() {
            return None;
        }
        let index = self.dice.below(paths.len() as u64) as usize;
        Some(paths.swap_remove(index))
    }

    /// The last operations.
    pub fn log(&self) -> String {
        self.log.join("\n")
    }

    fn say(&mut self, what: String) {
        self.log.push(what);
        if self.log.len() > LOG_MAX {
            self.log.remove(0);
        }
    }

    fn name(&mut self) -> Vec<u8> {
        match self.dice.below(NAMES) {
            0 => vec![0xff; 255],
            n => format!("name-{n}").into_bytes(),
        }
    }

    fn offset(&mut self) -> u64 {
        match self.dice.below(5) {
            0 => self.dice.below(3000),
            1 => self.dice.below(20) * 4096,
            2 => self.dice.below(self.size_max.div_ceil(131_072)) * 131_072,
            _ => self.dice.below(self.size_max),
        }
    }

    fn len(&mut self) -> u64 {
        match self.dice.below(6) {
            0 => 1 + self.dice.below(100),
            1 => 4096,
            2 => 131_072,
            3 => 1 + self.dice.below(3000),
            _ => 1 + self.dice.below(self.size_max / 4),
        }
    }

    fn make(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let (dir, path) = self.pick(Some(Kind::Directory)).unwrap();
        let name = self.name();
        let kind = match self.dice.below(8) {
            0..=1 => Kind::Directory,
            2 => Kind::Symlink,
            3 => Kind::Fifo,
            _ => Kind::File,
        };
        let target = b"some/where".repeat(1 + self.dice.below(100) as usize);
        let what = format!("make {kind:?} {} in {}", show(&name), show(&path));
        self.say(what.clone());
        let parent = resolve(fs, &path)?;
        let expected = match self.model.nodes[&dir].children.contains_key(&name) {
            true => Err(Error::Exists),
            false => Ok(()),
        };
        if expected.is_ok() {
            let mode = if kind == Kind::Symlink { 0o777 } else { 0o640 };
            let id = self.model.add(dir, &name, kind, mode);
            if kind == Kind::Symlink {
                self.model.node_mut(id).contents = target.clone();
            }
        }
        let node = NewNode {
            kind,
            mode: 0o640,
            umask: 0o022,
            rdev: 0,
        };
        let caller = Caller { uid: 5, gid: 6 };
        let result = match kind {
            Kind::Directory => fs.mkdir(&caller, parent, &name, &node),
            Kind::Symlink => fs.symlink(&caller, parent, &name, &target),
            _ => fs.mknod(&caller, parent, &name, &node),
        };
        if let Some(attr) = agree(result, expected, &what)? {
            fs.forget(attr.ino, 1);
        }
        Ok(())
    }

    /// A file that has no name, and goes when it is closed everywhere; sometimes it stays open.
    fn nameless(&mut self, fs: &dyn FileSystem) -> Result<()> {
        self.say("nameless file".into());
        let node = NewNode::new(Kind::File, 0o600);
        let ino = fs.tmpfile(&Caller::default(), ROOT, &node)?.ino;
        let len = self.len();
        let written = fs.write(ino, 0, &vec![7; len as usize], false);
        if self.dice.below(2) == 0 {
            fs.forget(ino, 1);
        }
        written
    }

    fn write(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return Ok(());
        };
        let offset = self.offset();
        let len = self.len().min(self.size_max.saturating_sub(offset)).max(1);
        let fill = self.dice.below(256) as u8;
        let data: Vec<u8> = (0..len)
            .map(|i| fill.wrapping_add((i / 13) as u8))
            .collect();
        self.say(format!("write {} {offset}+{len} ({fill})", show(&path)));
        let ino = resolve(fs, &path)?;
        put(&mut self.model.node_mut(id).contents, offset, &data);
        fs.write(ino, offset, &data, false)
    }

    fn truncate(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return Ok(());
        };
        let size = match self.dice.below(4) {
            0 => 0,
            _ => self.offset(),
        };
        self.say(format!("truncate {} to {size}", show(&path)));
        let ino = resolve(fs, &path)?;
        self.model.node_mut(id).contents.resize(size as usize, 0);
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        let attr = fs.setattr(&Caller::default(), ino, &set)?;
        assert_eq!(attr.size, size);
        Ok(())
    }

    fn fallocate(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return Ok(());
        };
        let (offset, len) = (self.offset(), self.len());
        let keep_size = self.dice.below(2) == 0;
        let mode = match self.dice.below(3) {
            0 => Fallocate::Allocate { keep_size },
            1 => Fallocate::Punch,
            _ => Fallocate::Zero { keep_size },
        };
        self.say(format!("fallocate {} {offset}+{len} {mode:?}", show(&path)));
        let ino = resolve(fs, &path)?;
        self.in_steps = Some((id, path));
        let contents = &mut self.model.node_mut(id).contents;
        let size = contents.len();
        if !matches!(mode, Fallocate::Allocate { .. }) {
            let end = ((offset + len) as usize).min(size);
            let start = (offset as usize).min(end);
            contents[start..end].fill(0);
        }
        if mode != Fallocate::Punch && !keep_size {
            contents.resize(size.max((offset + len) as usize), 0);
        }
        fs.fallocate(ino, offset, len, mode)
    }

    fn remove(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let (dir, path) = self.pick(Some(Kind::Directory)).unwrap();
        let name = self.name();
        let what = format!("remove {} in {}", show(&name), show(&path));
        self.say(what.clone());
        let parent = resolve(fs, &path)?;
        let target = self.model.nodes[&dir].children.get(&name);
        let target = target.map(|id| {
            let node = &self.model.nodes[id];
            (node.kind == Kind::Directory, node.children.is_empty())
        });
        let (as_file, as_dir) = match target {
            None => (Err(Error::NotFound), Err(Error::NotFound)),
            Some((false, _)) => (Ok(()), Err(Error::NotDirectory)),
            Some((true, true)) => (Err(Error::IsDirectory), Ok(())),
            Some((true, false)) => (Err(Error::IsDirectory), Err(Error::NotEmpty)),
        };
        if as_dir.is_err() {
            agree(fs.rmdir(parent, &name), as_dir, &what)?;
        }
        if as_file.is_ok() || as_dir.is_ok() {
            self.model.unlink(dir, &name);
        }
        agree(fs.unlink(parent, &name), as_file, &what)?;
        if as_dir.is_ok() {
            agree(fs.rmdir(parent, &name), as_dir, &what)?;
        }
        Ok(())
    }

    fn rename(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let (dir, path) = self.pick(Some(Kind::Directory)).unwrap();
        let (new_dir, new_path) = self.pick(Some(Kind::Directory)).unwrap();
        let (name, new_name) = (self.name(), self.name());
        let mode = match self.dice.below(5) {
            0 => RenameMode::NoReplace,
            1 => RenameMode::Exchange,
            2 => RenameMode::Whiteout(Caller::default()),
            _ => RenameMode::Replace,
        };
        let what = format!(
            "rename {}/{} to {}/{} {mode:?}",
            show(&path),
            show(&name),
            show(&new_path),
            show(&new_name)
        );
        self.say(what.clone());
        let (parent, new_parent) = (resolve(fs, &path)?, resolve(fs, &new_path)?);
        let expected = self.model.rename((dir, &name), (new_dir, &new_name), mode);
        let result = fs.rename(parent, &name, new_parent, &new_name, mode);
        agree(result, expected, &what)?;
        Ok(())
    }

    fn link(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return Ok(());
        };
        let (dir, dir_path) = self.pick(Some(Kind::Directory)).unwrap();
        let name = self.name();
        let what = format!(
            "link {} to {}/{}",
            show(&path),
            show(&dir_path),
            show(&name)
        );
        self.say(what.clone());
        let (ino, parent) = (resolve(fs, &path)?, resolve(fs, &dir_path)?);
        let expected = match self.model.nodes[&dir].children.contains_key(&name) {
            true => Err(Error::Exists),
            false => Ok(()),
        };
        if expected.is_ok() {
            self.model.node_mut(dir).children.insert(name.clone(), id);
            self.model.node_mut(id).nlink += 1;
        }
        if let Some(attr) = agree(fs.link(ino, parent, &name), expected, &what)? {
            fs.forget(attr.ino, 1);
        }
        Ok(())
    }

    fn xattr(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let (id, path) = self.pick(None).unwrap();
        let name = format!("user.{}", self.dice.below(4)).into_bytes();
        let len = match self.dice.below(4) {
            0 => 10_000 + self.dice.below(50_000),
            _ => self.dice.below(2100),
        };
        let value = match self.dice.below(3) {
            0 => None,
            n => Some(vec![n as u8; len as usize]),
        };
        let how = SetXattr {
            create: self.dice.below(4) == 0,
            ..SetXattr::default()
        };
        let what = format!("xattr of {}", show(&path));
        self.say(what.clone());
        let ino = resolve(fs, &path)?;
        let xattrs = &mut self.model.node_mut(id).xattrs;
        let had = xattrs.contains_key(&name);
        match value {
            None => {
                xattrs.remove(&name);
                let expected = if had { Ok(()) } else { Err(Error::NoAttribute) };
                agree(fs.removexattr(ino, &name), expected, &what)?;
            }
            Some(value) => {
                let refused = how.create && had;
                if !refused {
                    xattrs.insert(name.clone(), value.clone());
                }
                let expected = if refused { Err(Error::Exists) } else { Ok(()) };
                agree(fs.setxattr(ino, &name, &value, how), expected, &what)?;
            }
        }
        Ok(())
    }

    fn chmod(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let (id, path) = self.pick(None).unwrap();
        let mode = self.dice.below(0o1000) as u16;
        self.say(format!("chmod {} {mode:o}", show(&path)));
        let ino = resolve(fs, &path)?;
        self.model.node_mut(id).mode = mode;
        // Whose it is does not show in the model, but in what is counted for users and groups.
        let mut owner = || [None, None, Some(5), Some(7)][self.dice.below(4) as usize];
        let set = SetAttr {
            uid: owner(),
            gid: owner(),
            mode: Some(mode),
            ..SetAttr::default()
        };
        fs.setattr(&Caller::default(), ino, &set).map(drop)
    }

    fn copy(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let Some((from, from_path)) = self.pick(Some(Kind::File)) else {
            return Ok(());
        };
        let (to, to_path) = self.pick(Some(Kind::File)).unwrap();
        let (from_offset, to_offset) = match self.dice.below(3) {
            0 => (0, 0),
            1 => (self.dice.below(4) * 131_072, self.dice.below(4) * 131_072),
            _ => (self.offset(), self.offset()),
        };
        let len = match self.dice.below(2) {
            0 => self.size_max,
            _ => self.len(),
        };
        let size = self.model.nodes[&from].contents.len() as u64;
        let len = len.min(size.saturating_sub(from_offset));
        let overlaps = from == to && from_offset < to_offset + len && to_offset < from_offset + len;
        if overlaps {
            return Ok(());
        }
        let what = format!(
            "copy {} {from_offset}+{len} to {} {to_offset}",
            show(&from_path),
            show(&to_path)
        );
        self.say(what);
        let (source, target) = (resolve(fs, &from_path)?, resolve(fs, &to_path)?);
        self.in_steps = Some((to, to_path));
        let start = from_offset.min(size);
        let data =
            self.model.nodes[&from].contents[start as usize..(start + len) as usize].to_vec();
        put(&mut self.model.node_mut(to).contents, to_offset, &data);
        let mut done = 0;
        while done < len {
            let n = fs.copy_range(
                source,
                from_offset + done,
                target,
                to_offset + done,
                len - done,
            )?;
            assert!(n > 0 && n <= len - done);
            done += n;
        }
        Ok(())
    }

    fn read(&mut self, fs: &dyn FileSystem) -> Result<()> {
        let Some((id, path)) = self.pick(Some(Kind::File)) else {
            return Ok(());
        };
        let (offset, len) = (self.offset(), self.len());
        let contents = &self.model.nodes[&id].contents;
        let start = (offset as usize).min(contents.len());
        let end = ((offset + len) as usize).min(contents.len());
        let found = read_all(fs, resolve(fs, &path)?, offset, len)?;
        let is_same = found == contents[start..end];
        assert!(is_same, "read {} {offset}+{len}", show(&path));
        Ok(())
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(40).collect()
}

fn put(contents: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let end = offset as usize + data.len();
    if !data.is_empty() && contents.len() < end {
        contents.resize(end, 0);
    }
    if !data.is_empty() {
        contents[offset as usize..end].copy_from_slice(data);
    }
}
