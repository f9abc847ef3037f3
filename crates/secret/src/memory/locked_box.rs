//! A slot of the arena with a value in it.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::region::Region;
use crate::{Error, Result};

/// A value in locked memory, like a `Box`: for what holds expanded keys.
///
/// Dropping it drops the value and wipes the memory. Only the value's own bytes are locked, not what
/// it may point to. Prints as `[redacted]`.
pub struct LockedBox<T> {
    /// Holds a valid `T` at its start, from construction to drop.
    region: Region,
    value: PhantomData<T>,
}

impl<T> LockedBox<T> {
    /// Moves `value` into locked memory. Where it was before, a copy of its bytes may be left: for a
    /// value that holds secrets use [`LockedBox::init`].
    ///
    /// # Errors
    /// [`LockLimit`](crate::Error::LockLimit) or [`Memory`](crate::Error::Memory).
    pub fn new(value: T) -> Result<LockedBox<T>> {
        LockedBox::init(|place| Ok(place.write(value)))
    }

    /// Makes a value in its final place: `make` writes it to the memory that it gets, and returns the reference to
    /// it.
    ///
    /// # Errors
    /// [`LockLimit`](crate::Error::LockLimit) or [`Memory`](crate::Error::Memory), or the error of `make`.
    ///
    /// # Panics
    /// If `make` returns a reference to another place.
    pub fn init<E: From<Error>>(
        make: impl FnOnce(&mut MaybeUninit<T>) -> std::result::Result<&mut T, E>,
    ) -> std::result::Result<LockedBox<T>, E> {
        let len = size_of::<T>().max(align_of::<T>());
        let region = Region::new(len)?;
        let address = region.address().cast::<T>();
        assert!(address.is_aligned(), "no slot has this alignment");
        // SAFETY: the region has at least the size of T, at an address just found aligned, and lives
        // longer than this borrow, which is the only one.
        let place = unsafe { address.cast::<MaybeUninit<T>>().as_mut() };
        let made = NonNull::from(make(place)?);
        // An exclusive reference to a T at this address: the region holds a valid value.
        assert_eq!(made, address, "the value was made elsewhere");
        Ok(LockedBox {
            region,
            value: PhantomData,
        })
    }

    fn address(&self) -> NonNull<T> {
        self.region.address().cast()
    }
}

impl<T> Deref for LockedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the region holds a valid T at its start, and is borrowed as `self` is.
        unsafe { self.address().as_ref() }
    }
}

impl<T> DerefMut for LockedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`, and the borrow is exclusive.
        unsafe { self.address().as_mut() }
    }
}

impl<T> Drop for LockedBox<T> {
    fn drop(&mut self) {
        // SAFETY: the region holds a valid T, which is dropped only here. The region is wiped and
        // given back after this, without looking at the value again.
        unsafe { self.address().drop_in_place() }
    }
}

impl<T> fmt::Debug for LockedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    struct Counted(Rc<Cell<u32>>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn drops_its_value_once() {
        let drops = Rc::new(Cell::new(0));
        let locked = LockedBox::new(Counted(drops.clone())).expect("memory");
        assert_eq!(drops.get(), 0);
        drop(locked);
        assert_eq!(drops.get(), 1);
    }

    #[test]
    fn a_failure_to_make_the_value_drops_nothing() {
        let drops = Rc::new(Cell::new(0));
        let failed = LockedBox::<Counted>::init(|_| Err(Error::SecretTooLong));
        assert!(matches!(failed, Err(Error::SecretTooLong)));
        assert_eq!(drops.get(), 0);
    }

    #[test]
    #[should_panic(expected = "made elsewhere")]
    fn a_value_elsewhere_is_refused() {
        let _ = LockedBox::<u64>::init(|_| Ok::<_, Error>(Box::leak(Box::new(7))));
    }

    #[test]
    fn values_are_aligned() {
        #[repr(align(1024))]
        struct Aligned(u8);
        let _other = Region::new(32).expect("memory");
        let mut locked = LockedBox::new(Aligned(7)).expect("memory");
        locked.0 += 1;
        assert_eq!(locked.0, 8);
        assert_eq!((&raw const *locked).addr() % 1024, 0);
        assert_eq!(format!("{locked:?}"), "[redacted]");
    }

    #[test]
    fn is_as_shareable_as_its_value() {
        fn shared<T: Send + Sync>() {}
        shared::<LockedBox<[u8; 32]>>();
    }
}
