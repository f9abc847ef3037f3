//! Extended attributes: small values in the tree, large ones in records of their own.

use pool::{ArrayKind, PlacedRecord, ReserveFor, TxgHold};
use vfs::{Ino, SetXattr};
use zerocopy::IntoBytes;

use super::acl::{self, Acl};
use crate::buffer::RecordBuffer;
use crate::core::io::slots::extents::{bury, take_slots};
use crate::core::log::Scope;
use crate::core::{Dataset, attr_of};
use crate::error::Result;
use crate::layout::{
    FLAG_ACCESS_ACL, FLAG_DEFAULT_ACL, FLAG_XATTR, KeyKind, XATTR_INLINE_MAX, XattrValue, attr_key,
    suffix, xattr_key,
};
use crate::tree::{TreeStep, TreeView, TreeWriter};

/// The longest name, as in Linux.
const NAME_MAX: usize = 255;
/// The longest value, as in Linux.
const VALUE_MAX: usize = 65_536;
/// The length of all names of one file: `listxattr` can return no more.
const LIST_MAX: usize = 65_536;

impl Dataset {
    pub(crate) fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(vfs::Error::Range.into());
        }
        if vfs::is_unknown_system_xattr(name) {
            return Err(vfs::Error::NotSupported.into());
        }
        if value.len() > VALUE_MAX {
            return Err(vfs::Error::TooBig.into());
        }
        if name == acl::ACCESS || name == acl::DEFAULT {
            return self.set_acl(ino, name, value, how);
        }
        if value.len() <= XATTR_INLINE_MAX {
            let here = XattrValue::Here(value.to_vec());
            return self.change(ReserveFor::Writing, |w| {
                self.put_xattr(w, ino, name, &here, how)
            });
        }
        let mut buffer = RecordBuffer::zeroed(value.len().next_multiple_of(4096));
        buffer[..value.len()].copy_from_slice(value);
        let settings = self.settings();
        let (copies, _reserved) =
            self.record_space(&settings, buffer.len(), ReserveFor::Writing)?;
        let mut placed = Some(self.seal_record(&buffer, copies)?);
        let len = value.len() as u32;
        let operation = |w: &mut TreeWriter<'_>| {
            let slot = take_slots(w, 1)?;
            self.put_xattr(w, ino, name, &XattrValue::Record { slot, len }, how)?;
            Ok(slot)
        };
        self.change_in(
            Scope::Unlogged,
            ReserveFor::Writing,
            operation,
            |hold, slot| {
                self.put_placed(hold, slot, placed.take());
            },
        )
    }

    fn put_placed(&self, hold: &TxgHold<'_>, slot: u64, placed: Option<PlacedRecord>) {
        if let Some(placed) = placed {
            self.open.put(hold, ArrayKind::Data, slot, placed);
        }
    }

    fn put_xattr(
        &self,
        w: &mut TreeWriter<'_>,
        ino: Ino,
        name: &[u8],
        value: &XattrValue,
        how: SetXattr,
    ) -> TreeStep<()> {
        attr_of(w, ino)?.check_changing()?;
        let key = xattr_key(ino, name);
        let old = w.get(&key)?.map(<[u8]>::to_vec);
        match (&old, how) {
            (Some(_), SetXattr { create: true, .. }) => return Err(vfs::Error::Exists.into()),
            (None, SetXattr { replace: true, .. }) => return Err(vfs::Error::NoAttribute.into()),
            (None, _) => self.check_list_space(w, ino, name)?,
            _ => {}
        }
        bury_value(w, old.as_deref());
        w.put(key, value.encode());
        self.touch_xattr(w, ino, true)
    }

    fn check_list_space(&self, w: &TreeWriter<'_>, ino: Ino, name: &[u8]) -> TreeStep<()> {
        let mut len = name.len() + 1;
        w.scan(
            &xattr_key(ino, b""),
            &mut |key, _| match suffix(key, ino, KeyKind::Xattr) {
                Some(name) => {
                    len += name.len() + 1;
                    true
                }
                None => false,
            },
        )?;
        if len > LIST_MAX {
            return Err(vfs::Error::NoSpace.into());
        }
        Ok(())
    }

    fn touch_xattr(&self, w: &mut TreeWriter<'_>, ino: Ino, has: bool) -> TreeStep<()> {
        let mut attr = attr_of(w, ino)?;
        if has {
            attr.set(FLAG_XATTR, true);
        }
        attr.ctime = self.now().into();
        w.put(attr_key(ino), attr.as_bytes().to_vec());
        Ok(())
    }

    /// Sets an ACL. If the mode can express it, it becomes the mode.
    fn set_acl(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let acl = Acl::decode(value).ok_or(vfs::Error::Invalid)?;
        let is_access = name == acl::ACCESS;
        let flag = if is_access {
            FLAG_ACCESS_ACL
        } else {
            FLAG_DEFAULT_ACL
        };
        self.change(ReserveFor::Writing, |w| {
            let mut attr = attr_of(w, ino)?;
            attr.check_changing()?;
            if !is_access && !attr.is_dir() {
                return Err(vfs::Error::Access.into());
            }
            let keep = !(is_access && acl.is_just_mode());
            if keep {
                let value = XattrValue::Here(acl.encode());
                if value.encode().len() + name.len() + 9 > crate::tree::CELL_MAX {
                    return Err(vfs::Error::NoSpace.into());
                }
                self.put_xattr(w, ino, name, &value, how)?;
                attr.set(FLAG_XATTR, true);
            } else {
                w.delete(xattr_key(ino, name));
            }
            attr.set(flag, keep);
            if is_access {
                let mut mode = attr.mode.get() & !0o777 | acl.mode();
                if how.kill_sgid {
                    mode &= !0o2000;
                }
                attr.mode = mode.into();
            }
            attr.ctime = self.now().into();
            w.put(attr_key(ino), attr.as_bytes().to_vec());
            Ok(())
        })
    }

    pub(crate) fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let value = self.read_tree(|r| {
            if !attr_of(r, ino)?.has(FLAG_XATTR) {
                return Ok(None);
            }
            Ok(r.get(&xattr_key(ino, name))?.map(XattrValue::decode))
        })?;
        let value = value.ok_or(vfs::Error::NoAttribute)?;
        match value.ok_or_else(|| self.damaged("an extended attribute"))? {
            XattrValue::Here(value) => Ok(value),
            XattrValue::Record { slot, len } => {
                let buffer = self.stored_record(slot, false)?;
                let value = buffer
                    .as_ref()
                    .and_then(|buffer| buffer.get(..len as usize));
                Ok(value
                    .ok_or_else(|| self.damaged("an extended attribute"))?
                    .to_vec())
            }
        }
    }

    pub(crate) fn list_xattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.read_tree(|r| {
            let mut names = Vec::new();
            if !attr_of(r, ino)?.has(FLAG_XATTR) {
                return Ok(names);
            }
            r.scan(
                &xattr_key(ino, b""),
                &mut |key, _| match suffix(key, ino, KeyKind::Xattr) {
                    Some(name) => {
                        names.push(name.to_vec());
                        true
                    }
                    None => false,
                },
            )?;
            Ok(names)
        })
    }

    pub(crate) fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.change(ReserveFor::Freeing, |w| {
            let mut attr = attr_of(w, ino)?;
            attr.check_changing()?;
            let key = xattr_key(ino, name);
            let old = w.get(&key)?.ok_or(vfs::Error::NoAttribute)?.to_vec();
            bury_value(w, Some(&old));
            w.delete(key);
            if name == acl::ACCESS {
                attr.set(FLAG_ACCESS_ACL, false);
            } else if name == acl::DEFAULT {
                attr.set(FLAG_DEFAULT_ACL, false);
            }
            attr.ctime = self.now().into();
            w.put(attr_key(ino), attr.as_bytes().to_vec());
            Ok(())
        })
    }

    /// Applies a change of mode to the access ACL, in an operation.
    pub(crate) fn follow_mode(&self, w: &mut TreeWriter<'_>, ino: Ino, mode: u16) -> TreeStep<()> {
        let key = xattr_key(ino, acl::ACCESS);
        let value = w.get(&key)?.and_then(XattrValue::decode);
        if let Some(XattrValue::Here(value)) = value
            && let Some(mut acl) = Acl::decode(&value)
        {
            acl.set_mode(mode);
            w.put(key, XattrValue::Here(acl.encode()).encode());
        }
        Ok(())
    }
}

/// Lists the record of a removed value for emptying.
fn bury_value(w: &mut TreeWriter<'_>, value: Option<&[u8]>) {
    if let Some(XattrValue::Record { slot, .. }) = value.and_then(XattrValue::decode) {
        bury(w, slot, 1);
    }
}
