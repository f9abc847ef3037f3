//! The model: the devices, the datasets that the pool must hold, and their comparison.

pub mod device;
pub mod shapes;
pub mod verify;
pub mod world;
