//! The signatures of [`FileSystem`](crate::FileSystem), so that an implementation need not repeat them.

/// Methods of [`FileSystem`](crate::FileSystem) that are one expression each, inside an implementation:
///
/// ```ignore
/// vfs::methods! { self;
///     getattr(ino) => self.attr(ino);
///     mkdir(_, _, _, _) => Err(Error::ReadOnly);
/// }
/// ```
///
/// Those of the trait that return a [`Result`](crate::Result) and have no default, `owner`, `flags` and `set_flags`.
#[macro_export]
macro_rules! methods {
    ($self:ident; $($(#[$doc:meta])* $method:ident $args:tt => $body:expr;)*) => {
        $($crate::methods! { @$method $self $args $body, [$(#[$doc])*] })*
    };
    (@lookup $($rest:tt)*) => { $crate::methods! { @@ lookup ($crate::Ino, &[u8]) $crate::Attr, $($rest)* } };
    (@getattr $($rest:tt)*) => { $crate::methods! { @@ getattr ($crate::Ino) $crate::Attr, $($rest)* } };
    (@owner $($rest:tt)*) => { $crate::methods! { @@ owner ($crate::Ino) $crate::Attr, $($rest)* } };
    (@setattr $($rest:tt)*) => {
        $crate::methods! { @@ setattr (&$crate::Caller, $crate::Ino, &$crate::SetAttr) $crate::Attr, $($rest)* }
    };
    (@flags $($rest:tt)*) => { $crate::methods! { @@ flags ($crate::Ino) $crate::FileFlags, $($rest)* } };
    (@set_flags $($rest:tt)*) => { $crate::methods! { @@ set_flags ($crate::Ino, $crate::FileFlags) (), $($rest)* } };
    (@readlink $($rest:tt)*) => { $crate::methods! { @@ readlink ($crate::Ino) Vec<u8>, $($rest)* } };
    (@mknod $($rest:tt)*) => {
        $crate::methods! { @@ mknod (&$crate::Caller, $crate::Ino, &[u8], &$crate::NewNode) $crate::Attr, $($rest)* }
    };
    (@tmpfile $($rest:tt)*) => {
        $crate::methods! { @@ tmpfile (&$crate::Caller, $crate::Ino, &$crate::NewNode) $crate::Attr, $($rest)* }
    };
    (@mkdir $($rest:tt)*) => {
        $crate::methods! { @@ mkdir (&$crate::Caller, $crate::Ino, &[u8], &$crate::NewNode) $crate::Attr, $($rest)* }
    };
    (@symlink $($rest:tt)*) => {
        $crate::methods! { @@ symlink (&$crate::Caller, $crate::Ino, &[u8], &[u8]) $crate::Attr, $($rest)* }
    };
    (@link $($rest:tt)*) => { $crate::methods! { @@ link ($crate::Ino, $crate::Ino, &[u8]) $crate::Attr, $($rest)* } };
    (@unlink $($rest:tt)*) => { $crate::methods! { @@ unlink ($crate::Ino, &[u8]) (), $($rest)* } };
    (@rmdir $($rest:tt)*) => { $crate::methods! { @@ rmdir ($crate::Ino, &[u8]) (), $($rest)* } };
    (@rename $($rest:tt)*) => {
        $crate::methods! { @@ rename ($crate::Ino, &[u8], $crate::Ino, &[u8], $crate::RenameMode) (), $($rest)* }
    };
    (@read $($rest:tt)*) => { $crate::methods! { @@ read ($crate::Ino, u64, u32) $crate::ReadPieces, $($rest)* } };
    (@write $($rest:tt)*) => { $crate::methods! { @@ write ($crate::Ino, u64, &[u8], bool) (), $($rest)* } };
    (@fsync $($rest:tt)*) => { $crate::methods! { @@ fsync ($crate::Ino, bool) (), $($rest)* } };
    (@sync $($rest:tt)*) => { $crate::methods! { @@ sync () (), $($rest)* } };
    (@fallocate $($rest:tt)*) => {
        $crate::methods! { @@ fallocate ($crate::Ino, u64, u64, $crate::Fallocate) (), $($rest)* }
    };
    (@seek $($rest:tt)*) => { $crate::methods! { @@ seek ($crate::Ino, u64, $crate::Seek) u64, $($rest)* } };
    (@copy_range $($rest:tt)*) => {
        $crate::methods! { @@ copy_range ($crate::Ino, u64, $crate::Ino, u64, u64) u64, $($rest)* }
    };
    (@readdir $($rest:tt)*) => {
        $crate::methods! { @@ readdir ($crate::Ino, u64, bool, &mut dyn FnMut(&$crate::DirEntry<'_>) -> bool) (), $($rest)* }
    };
    (@statfs $($rest:tt)*) => { $crate::methods! { @@ statfs () $crate::StatFs, $($rest)* } };
    (@setxattr $($rest:tt)*) => {
        $crate::methods! { @@ setxattr ($crate::Ino, &[u8], &[u8], $crate::SetXattr) (), $($rest)* }
    };
    (@getxattr $($rest:tt)*) => { $crate::methods! { @@ getxattr ($crate::Ino, &[u8]) Vec<u8>, $($rest)* } };
    (@listxattr $($rest:tt)*) => { $crate::methods! { @@ listxattr ($crate::Ino) Vec<Vec<u8>>, $($rest)* } };
    (@removexattr $($rest:tt)*) => { $crate::methods! { @@ removexattr ($crate::Ino, &[u8]) (), $($rest)* } };
    (@@ $method:ident ($($type:ty),*) $answer:ty, $self:ident ($($arg:pat),*) $body:expr, [$($doc:tt)*]) => {
        $($doc)*
        fn $method(&$self $(, $arg: $type)*) -> $crate::Result<$answer> {
            $body
        }
    };
}
