//! Metrics of initiators at iSCSI targets: those of exports, and those that pools serve by their files.

use super::collect::{device_totals, with_op};
use super::text::{Labels, MetricsPage};
use crate::state::daemon::Daemon;
use crate::state::exports::ha_targets::UnitNow;
use crate::state::exports::registry::ExportStatus;

/// A target at one moment. That of an export has one unit, with the number 0.
struct TargetNow {
    labels: Labels,
    sessions: usize,
    counts: iscsi::CommandCounts,
}

impl Daemon {
    pub(super) fn of_initiators(&self, page: &mut MetricsPage, exports: &[ExportStatus]) {
        let mut targets: Vec<TargetNow> = exports.iter().filter_map(of_export).collect();
        targets.extend(
            self.ha_targets()
                .into_iter()
                .map(|(name, target)| TargetNow {
                    labels: vec![("target", name)],
                    sessions: target.sessions().len(),
                    counts: target.counts(),
                }),
        );
        of_targets(page, &targets);
        of_units(page, &self.ha_units());
    }
}

fn of_export(export: &ExportStatus) -> Option<TargetNow> {
    Some(TargetNow {
        labels: vec![("target", export.name.clone()), ("lun", "0".to_owned())],
        sessions: export.clients,
        counts: export.commands.clone()?,
    })
}

fn of_targets(page: &mut MetricsPage, targets: &[TargetNow]) {
    let labelled = || targets.iter().map(|target| (target.labels.clone(), target));
    page.gauge(
        "strongroom_iscsi_sessions",
        "Sessions of initiators that use the target.",
        labelled().map(|(labels, target)| (labels, target.sessions)),
    );
    page.gauge(
        "strongroom_iscsi_waiting_commands",
        "Commands that were received and are not answered: they wait for data, for a thread, or for the device.",
        labelled().map(|(labels, target)| (labels, target.counts.waiting)),
    );
    page.counter(
        "strongroom_iscsi_reservation_conflicts_total",
        "Commands that were refused because another initiator has reserved the unit.",
        labelled().map(|(labels, target)| (labels, target.counts.conflicts)),
    );
    page.histogram(
        "strongroom_iscsi_command_seconds",
        "How long commands took, from when all their data were received.",
        labelled().map(|(labels, target)| (labels, target.counts.latency.clone())),
    );
}

/// The units of `ha.toml`.
fn of_units(page: &mut MetricsPage, units: &[UnitNow]) {
    let labels = |unit: &UnitNow| -> Labels { vec![("volume", unit.volume.clone())] };
    let operations = || {
        units.iter().flat_map(|unit| {
            let totals = unit.meter.iter().flat_map(|meter| device_totals(meter));
            totals.map(|(op, totals)| (with_op(&labels(unit), op), op, totals))
        })
    };
    page.gauge(
        "strongroom_iscsi_unit_served",
        "1 if the unit of ha.toml is served, 0 if it waits: strongroom ha status says why.",
        units
            .iter()
            .map(|unit| (labels(unit), u8::from(unit.meter.is_some()))),
    );
    page.gauge(
        "strongroom_iscsi_unit_ambiguous",
        "1 if the unit of ha.toml waits because an initiator would see another unit under its number.",
        units
            .iter()
            .map(|unit| (labels(unit), u8::from(unit.is_ambiguous))),
    );
    let moved = operations().filter(|(_, op, _)| *op != "flush");
    page.counter(
        "strongroom_iscsi_unit_bytes_total",
        "Bytes that initiators read, wrote or discarded, since the unit is served.",
        moved.map(|(labels, _, totals)| (labels, totals.bytes)),
    );
    page.counter(
        "strongroom_iscsi_unit_errors_total",
        "Operations on the volume of the unit that failed.",
        operations().map(|(labels, _, totals)| (labels, totals.errors)),
    );
    page.histogram(
        "strongroom_iscsi_unit_operation_seconds",
        "How long the volume of the unit took, with what failed.",
        operations().map(|(labels, _, totals)| (labels, totals.times)),
    );
}
