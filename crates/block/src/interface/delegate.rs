//! Methods that many devices answer in the same way.

/// Methods of a [`BlockDevice`](crate::BlockDevice) that another device carries out, in an implementation:
/// `delegate!(self => self.device; size name read_at)`.
#[macro_export]
macro_rules! delegate {
    ($self:ident => $to:expr; $($method:ident)*) => {
        $($crate::delegate!(@ $self $to, $method);)*
    };
    (@ $self:ident $to:expr, size) => {
        $crate::delegate!(@@ $self $to, size() -> u64);
    };
    (@ $self:ident $to:expr, refresh_size) => {
        $crate::delegate!(@@ $self $to, refresh_size() -> $crate::Result<u64>);
    };
    (@ $self:ident $to:expr, sector_sizes) => {
        $crate::delegate!(@@ $self $to, sector_sizes() -> $crate::SectorSizes);
    };
    (@ $self:ident $to:expr, name) => {
        $crate::delegate!(@@ $self $to, name() -> String);
    };
    (@ $self:ident $to:expr, claim) => {
        $crate::delegate!(@@ $self $to, claim(by: &$crate::Claimant) -> $crate::Result<$crate::Claim>);
    };
    (@ $self:ident $to:expr, check_unreserved) => {
        $crate::delegate!(@@ $self $to, check_unreserved() -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, read_at) => {
        $crate::delegate!(@@ $self $to, read_at(at: u64, buf: &mut [u8]) -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, write_in_place) => {
        $crate::delegate!(@@ $self $to, write_in_place(at: u64, data: &mut [u8]) -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, write_at) => {
        $crate::delegate!(@@ $self $to, write_at(at: u64, data: &[::std::io::IoSlice<'_>]) -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, write_durably_at) => {
        $crate::delegate!(@@ $self $to, write_durably_at(at: u64, data: &[::std::io::IoSlice<'_>]) -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, flush) => {
        $crate::delegate!(@@ $self $to, flush() -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, settle) => {
        $crate::delegate!(@@ $self $to, settle() -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, waits_on_write) => {
        $crate::delegate!(@@ $self $to, waits_on_write() -> bool);
    };
    (@ $self:ident $to:expr, would_wait) => {
        $crate::delegate!(@@ $self $to, would_wait(at: u64, len: u64, is_write: bool) -> bool);
    };
    (@ $self:ident $to:expr, io_mode) => {
        $crate::delegate!(@@ $self $to, io_mode() -> ::std::option::Option<$crate::IoMode>);
    };
    (@ $self:ident $to:expr, drop_cached) => {
        $crate::delegate!(@@ $self $to, drop_cached() -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, begin_anew) => {
        $crate::delegate!(@@ $self $to, begin_anew() -> $crate::Result<()>);
    };
    (@ $self:ident $to:expr, zero_fast) => {
        $crate::delegate!(@@ $self $to, zero_fast(at: u64, len: u64) -> $crate::Result<bool>);
    };
    (@ $self:ident $to:expr, status_at) => {
        $crate::delegate!(@@ $self $to, status_at(at: u64, len: u64) -> $crate::Result<$crate::RangeStatus>);
    };
    (@ $self:ident $to:expr, is_blank) => {
        $crate::delegate!(@@ $self $to, is_blank(at: u64, len: usize) -> $crate::Result<bool>);
    };
    // Those of a range: discard, zero and overwrite.
    (@ $self:ident $to:expr, $method:ident) => {
        $crate::delegate!(@@ $self $to, $method(at: u64, len: u64) -> $crate::Result<()>);
    };
    (@@ $self:ident $to:expr, $method:ident($($arg:ident: $type:ty),*) -> $answer:ty) => {
        fn $method(&$self $(, $arg: $type)*) -> $answer {
            $crate::BlockDevice::$method(&$to $(, $arg)*)
        }
    };
}

/// `refresh_size`, `settle`, `drop_cached`, `begin_anew`, `waits_on_write`, `would_wait` and `io_mode` of a device whose size
/// does not change, that has no cache between itself and its medium, whose requests wait for nothing, and that is no file.
/// A device around another one passes these on with [`delegate!`](crate::delegate!) instead. `plain_device!(but settle)` is
/// for a device that keeps changes in memory.
#[macro_export]
macro_rules! plain_device {
    () => {
        $crate::plain_device!(but settle);

        fn settle(&self) -> $crate::Result<()> {
            Ok(())
        }
    };
    (but settle) => {
        fn refresh_size(&self) -> $crate::Result<u64> {
            Ok($crate::BlockDevice::size(self))
        }

        fn drop_cached(&self) -> $crate::Result<()> {
            Ok(())
        }

        fn begin_anew(&self) -> $crate::Result<()> {
            Ok(())
        }

        fn waits_on_write(&self) -> bool {
            false
        }

        fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
            false
        }

        fn io_mode(&self) -> ::std::option::Option<$crate::IoMode> {
            ::std::option::Option::None
        }
    };
}
