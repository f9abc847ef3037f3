//! The list of front ends.

use crate::ops::exports::ExportFrontEnd;
use crate::ops::ha::HaTargets;
use crate::ops::mounts::restore::MountFrontEnd;
use crate::serve::zones::ZoneSockets;
use crate::state::daemon::Daemon;
use crate::state::front_end::FrontEnd;

/// All front ends, in the order in which they start.
pub(crate) const FRONT_ENDS: &[&dyn FrontEnd<Daemon>] =
    &[&MountFrontEnd, &ExportFrontEnd, &HaTargets, &ZoneSockets];
