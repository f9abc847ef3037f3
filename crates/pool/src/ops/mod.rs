//! The operations on a pool: each file adds one kind to [`Pool`](crate::Pool), or to a part of it.
//!
//! A part is a struct that has only the engine, and the methods of one concern. So it cannot call the other operations
//! of the pool. The pool has a method for each part, such as `pool.scrubber().start()`:
//!
//! | part | method of the pool | holds |
//! |---|---|---|
//! | [`Scrubber`](crate::Scrubber) | `scrubber` | scrub, and repairs of copies that readers found bad |
//! | [`Sweeper`](crate::Sweeper) | `sweeper` | trim and initialization of free space |
//! | [`Resilverer`](crate::Resilverer) | `resilverer` | resilver, and the use of spares |
//! | [`GroupRemoval`](crate::GroupRemoval) | `removal` | removal of a group of devices with data |
//! | [`LogDevices`](crate::LogDevices) | `log_devices` | groups of devices for logs |
//! | [`Follower`](crate::Follower) | `follower` | the image of the pool that follows its commits |

pub(crate) mod check;
pub(crate) mod datasets;
pub(crate) mod devices;
pub(crate) mod follow;
pub(crate) mod info;
pub(crate) mod lifecycle;
pub(crate) mod pool;
pub(crate) mod scrub;
pub(crate) mod snapshots;
pub(crate) mod streams;
