//! Methods that many devices answer in the same way.

/// Methods of a [`BlockDevice`](crate::BlockDevice) that another device carries out, in an implementation:
/// `delegate!(self => self.device; size name read_at)`. `all` stands for all methods of the trait.
#[macro_export]
macro_rules! delegate {
    ($self:ident => $to:expr; all) => {
        $crate::delegate!($self => $to; size refresh_size sector_sizes name claim check_unreserved read_at write_at
            write_durably_at write_in_place waits_on_write would_wait io_mode settle flush order drop_cached begin_anew discard
            zero zero_fast is_blank status_at overwrite);
    };
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
    (@ $self:ident $to:expr, order) => {
        $crate::delegate!(@@ $self $to, order() -> $crate::Result<()>);
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

/// Methods of a [`BlockDevice`](crate::BlockDevice) that only reads and writes, in an implementation:
/// `plain_methods!(claim check_unreserved)`. The size of such a device does not change. It is no file and no disk: no
/// machine can reserve it. It has no cache, its requests wait for nothing, and each change outlives the process. It knows
/// nothing of a range before it reads, and has no faster way to zeros than to write them.
#[macro_export]
macro_rules! plain_methods {
    ($($method:ident)*) => {
        $($crate::plain_methods!(@ $method);)*
    };
    (@ refresh_size) => {
        fn refresh_size(&self) -> $crate::Result<u64> {
            Ok($crate::BlockDevice::size(self))
        }
    };
    (@ claim) => {
        fn claim(&self, _by: &$crate::Claimant) -> $crate::Result<$crate::Claim> {
            $crate::plain::claim(self)
        }
    };
    (@ check_unreserved) => {
        fn check_unreserved(&self) -> $crate::Result<()> {
            Ok(())
        }
    };
    (@ waits_on_write) => {
        fn waits_on_write(&self) -> bool {
            false
        }
    };
    (@ would_wait) => {
        fn would_wait(&self, _offset: u64, _len: u64, _is_write: bool) -> bool {
            false
        }
    };
    (@ io_mode) => {
        fn io_mode(&self) -> ::std::option::Option<$crate::IoMode> {
            ::std::option::Option::None
        }
    };
    (@ settle) => {
        fn settle(&self) -> $crate::Result<()> {
            Ok(())
        }
    };
    (@ drop_cached) => {
        fn drop_cached(&self) -> $crate::Result<()> {
            Ok(())
        }
    };
    (@ begin_anew) => {
        fn begin_anew(&self) -> $crate::Result<()> {
            Ok(())
        }
    };
    (@ zero_fast) => {
        fn zero_fast(&self, _offset: u64, _len: u64) -> $crate::Result<bool> {
            Ok(false)
        }
    };
    (@ is_blank) => {
        fn is_blank(&self, offset: u64, len: usize) -> $crate::Result<bool> {
            $crate::plain::is_blank(self, offset, len)
        }
    };
    (@ status_at) => {
        fn status_at(&self, _offset: u64, len: u64) -> $crate::Result<$crate::RangeStatus> {
            Ok($crate::RangeStatus {
                len,
                is_hole: false,
                is_zero: false,
            })
        }
    };
    (@ overwrite) => {
        fn overwrite(&self, offset: u64, len: u64) -> $crate::Result<()> {
            $crate::plain::overwrite(self, offset, len)
        }
    };
}

/// All the methods of [`plain_methods!`](crate::plain_methods!). A device around another one passes them on with
/// [`delegate!`](crate::delegate!) instead.
#[macro_export]
macro_rules! plain_device {
    () => {
        $crate::plain_methods!(refresh_size claim check_unreserved waits_on_write would_wait io_mode settle drop_cached
            begin_anew zero_fast is_blank status_at overwrite);
    };
}
