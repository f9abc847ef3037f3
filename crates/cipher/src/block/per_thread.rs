//! Contexts of a library that one thread at a time may use. Each thread that uses a key has its own, for each
//! direction. They go when the key does.

use std::cell::{RefCell, RefMut};

use thread_local::ThreadLocal;

use crate::ffi::Direction;

pub(crate) struct PerThread<C: Send> {
    encrypt: ThreadLocal<RefCell<C>>,
    decrypt: ThreadLocal<RefCell<C>>,
}

impl<C: Send> PerThread<C> {
    pub(crate) fn new() -> PerThread<C> {
        PerThread {
            encrypt: ThreadLocal::new(),
            decrypt: ThreadLocal::new(),
        }
    }

    /// The context of this thread, which is made if there is none.
    #[inline]
    pub(crate) fn get<E>(
        &self,
        direction: Direction,
        make: impl FnOnce() -> Result<C, E>,
    ) -> Result<RefMut<'_, C>, E> {
        let contexts = match direction {
            Direction::Encrypt => &self.encrypt,
            Direction::Decrypt => &self.decrypt,
        };
        let context = contexts.get_or_try(|| make().map(RefCell::new))?;
        Ok(context.borrow_mut())
    }
}
