//! Exports by NBD, iSCSI and NFS, failover, and the CSI driver.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../iscsi/tests/common/initiator.rs"]
mod initiator;

mod answered_writes;
mod iscsi;
mod iscsi_kernel;
mod iscsi_reservations;
mod nbd;
mod nbd_kernel;
mod nfs;
mod remote_exports;
mod reservations;
mod sharenfs;
mod ublk_kernel;
