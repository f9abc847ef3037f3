//! For tests: whole trees, read and written through a format alone, without the engine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::Path;

use vfs::Kind;

use super::{DirectoryFormat, LowerName, Sought};
use crate::lower::Entry;

/// The entry of a tree at a path of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TreeItem {
    Directory,
    File(Vec<u8>),
    Link(Vec<u8>),
}

pub(super) type ViewTree = BTreeMap<Vec<u8>, TreeItem>;

/// All that the view has over the lower directory `root`. What does not decode is left out.
pub(super) fn read<F: DirectoryFormat>(format: &F, root: &Path) -> ViewTree {
    let node = format
        .root(&Entry::root(root).expect("root"))
        .expect("a root");
    let mut tree = ViewTree::new();
    read_directory(format, root, &node, &[], &mut tree);
    tree
}

fn read_directory<F: DirectoryFormat>(
    format: &F,
    path: &Path,
    dir: &F::Node,
    prefix: &[u8],
    tree: &mut ViewTree,
) {
    let entry = Entry::root(path).expect("directory");
    let long = |name: &[u8]| entry.read_small(name, 1024);
    for lower in fs::read_dir(path).expect("list") {
        let lower = lower.expect("entry").file_name().into_vec();
        let Ok(Some(plain)) = format.plain_name(dir, &lower, &long) else {
            continue;
        };
        check_found(format, dir, &lower, &plain);
        let (view, path) = (join(prefix, &plain), path.join(OsStr::from_bytes(&lower)));
        let kind = fs::symlink_metadata(&path).expect("kind").file_type();
        let kind = match (kind.is_dir(), kind.is_symlink()) {
            (true, _) => Kind::Directory,
            (_, true) => Kind::Symlink,
            _ => Kind::File,
        };
        let child = entry.entry(&lower).expect("entry");
        let node = format.node(dir, &lower, kind, &child).expect("node");
        let item = match kind {
            Kind::Directory => {
                read_directory(format, &path, &node, &view, tree);
                TreeItem::Directory
            }
            Kind::Symlink => {
                let target = child.target().expect("target");
                TreeItem::Link(format.open_target(&node, &target).expect("target"))
            }
            _ => TreeItem::File(read_file(format, &node, fs::read(&path).expect("read"))),
        };
        tree.insert(view, item);
    }
}

/// A name that is listed is found again.
fn check_found<F: DirectoryFormat>(format: &F, dir: &F::Node, lower: &[u8], plain: &[u8]) {
    if let Sought::At(name) = format.lower_name(dir, plain).expect("a name that there is") {
        assert_eq!(name.name, lower);
    }
}

/// The contents of the file that is stored as `lower`.
pub(super) fn read_file<F: DirectoryFormat>(
    format: &F,
    node: &F::Node,
    mut lower: Vec<u8>,
) -> Vec<u8> {
    let layout = format.layout();
    let size = layout.plain_size(lower.len() as u64).expect("a size");
    if size == 0 {
        return Vec::new();
    }
    let (header, units) = lower.split_at_mut(layout.header);
    format.check_header(node, header).expect("header");
    let mut plain = Vec::new();
    for (number, unit) in units.chunks_mut(layout.lower_unit()).enumerate() {
        let is_whole = unit.len() == layout.lower_unit();
        if !is_whole || unit.iter().any(|byte| *byte != 0) {
            let opened = format.open(node, header, number as u64, unit);
            opened.expect("an authentic unit");
        }
        plain.extend(&unit[layout.before..unit.len() - layout.after]);
    }
    plain
}

/// Makes a tree in the lower directory `root`, which has been made one of this format.
pub(super) fn write<F: DirectoryFormat>(format: &F, root: &Path, tree: &ViewTree) {
    let node = format
        .root(&Entry::root(root).expect("root"))
        .expect("a root");
    write_directory(format, root, &node, &[], tree);
}

fn write_directory<F: DirectoryFormat>(
    format: &F,
    path: &Path,
    dir: &F::Node,
    prefix: &[u8],
    tree: &ViewTree,
) {
    for (view, item) in tree {
        let Some(plain) = name_in(prefix, view) else {
            continue;
        };
        let kind = match item {
            TreeItem::Directory => Kind::Directory,
            TreeItem::File(_) => Kind::File,
            TreeItem::Link(_) => Kind::Symlink,
        };
        let new = format.new_node(dir, kind).expect("node");
        let LowerName { name, long } = format.new_name(dir, plain, &new.node).expect("name");
        if let Some(long) = long {
            fs::write(path.join(OsStr::from_bytes(&long.name)), long.contents).expect("name");
        }
        let path = path.join(OsStr::from_bytes(&name));
        match item {
            TreeItem::Directory => {
                fs::create_dir(&path).expect("directory");
                for (name, contents) in &new.files {
                    fs::write(path.join(name), contents).expect("own file");
                }
                write_directory(format, &path, &new.node, view, tree);
            }
            TreeItem::File(plain) => {
                fs::write(&path, write_file(format, &new.node, plain)).expect("file");
            }
            TreeItem::Link(target) => {
                let stored = format.seal_target(&new.node, target).expect("target");
                symlink(OsStr::from_bytes(&stored), &path).expect("link");
            }
        }
    }
}

/// The stored form of the contents `plain`.
pub(super) fn write_file<F: DirectoryFormat>(format: &F, node: &F::Node, plain: &[u8]) -> Vec<u8> {
    if plain.is_empty() {
        return Vec::new();
    }
    let layout = format.layout();
    let mut lower = format.new_header(node).expect("header");
    let header = lower.clone();
    for (number, plain) in plain.chunks(layout.unit).enumerate() {
        let mut unit = vec![0; layout.before];
        unit.extend(plain);
        unit.resize(unit.len() + layout.after, 0);
        format
            .seal(node, &header, number as u64, &mut unit)
            .expect("seal");
        lower.extend(unit);
    }
    assert_eq!(
        layout.lower_size(plain.len() as u64),
        Some(lower.len() as u64)
    );
    lower
}

/// The name of `view` in the directory `prefix`, if it is in it.
fn name_in<'a>(prefix: &[u8], view: &'a [u8]) -> Option<&'a [u8]> {
    let name = match prefix {
        [] => view,
        _ => view.strip_prefix(prefix)?.strip_prefix(b"/")?,
    };
    (!name.is_empty() && !name.contains(&b'/')).then_some(name)
}

fn join(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    match prefix {
        [] => name.to_vec(),
        _ => [prefix, b"/", name].concat(),
    }
}
