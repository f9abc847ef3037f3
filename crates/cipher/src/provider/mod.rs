//! The choice of an implementation: the policy of the process, the features of the processor, and OpenSSL.

pub(crate) mod hardware;
pub(crate) mod openssl;
pub(crate) mod policy;

pub use hardware::{Hardware, hardware, hwcap_setting};
pub use policy::{Policy, PolicyTarget};
