//! The text format of Prometheus, version 0.0.4:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>.

use std::fmt::{Display, Write};

use meter::{BUCKETS, Times, bucket_end};

/// The media type of a [`MetricsPage`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The labels that distinguish the samples of one metric.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A page of metrics. The samples of one metric are written together.
#[derive(Default)]
pub(crate) struct MetricsPage(String);

impl MetricsPage {
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// A value that goes up and down.
    pub(crate) fn gauge<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) {
        self.simple("gauge", name, help, samples);
    }

    /// A value that only grows while the daemon runs. The name ends in `_total`.
    pub(crate) fn counter<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.simple("counter", name, help, samples);
    }

    /// Durations. The name ends in `_seconds`.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, Times)>,
    ) {
        debug_assert!(name.ends_with("_seconds"), "{name}");
        self.head("histogram", name, help);
        let bucket_name = format!("{name}_bucket");
        for (mut labels, times) in samples {
            let mut below = 0;
            for (bucket, count) in times.buckets.iter().enumerate() {
                below += count;
                let end = match bucket {
                    BUCKETS => "+Inf".to_owned(),
                    _ => seconds(bucket_end(bucket)),
                };
                labels.push(("le", end));
                self.sample(&bucket_name, &labels, below);
                labels.pop();
            }
            self.sample(&format!("{name}_sum"), &labels, seconds(times.nanos));
            self.sample(&format!("{name}_count"), &labels, below);
        }
    }

    fn simple<V: Display>(
        &mut self,
        kind: &str,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, V)>,
    ) {
        self.head(kind, name, help);
        for (labels, value) in samples {
            self.sample(name, &labels, value);
        }
    }

    fn head(&mut self, kind: &str, name: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &Labels, value: impl Display) {
        self.0.push_str(name);
        for (number, (label, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(value));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }
}

/// Nanoseconds as seconds, exactly.
pub(crate) fn seconds(nanos: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let digits = format!("{}.{:09}", nanos / SECOND, nanos % SECOND);
    digits.trim_end_matches('0').trim_end_matches('.').into()
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meter::Histogram;

    use super::*;

    #[test]
    fn samples_are_as_the_format_says() {
        let mut page = MetricsPage::default();
        let awkward = "a\"b\\c\nd".to_owned();
        page.gauge("size_bytes", "How large.", [(vec![], 7)]);
        page.counter(
            "reads_total",
            "Reads.",
            [(vec![("pool", "tank".into()), ("device", awkward)], 3)],
        );
        assert_eq!(
            page.into_text(),
            "# HELP size_bytes How large.\n\
             # TYPE size_bytes gauge\n\
             size_bytes 7\n\
             # HELP reads_total Reads.\n\
             # TYPE reads_total counter\n\
             reads_total{pool=\"tank\",device=\"a\\\"b\\\\c\\nd\"} 3\n"
        );
    }

    #[test]
    fn buckets_add_up() {
        let histogram = Histogram::default();
        for nanos in [0, 1500, 1500, 40_000_000_000] {
            histogram.record(Duration::from_nanos(nanos));
        }
        let mut page = MetricsPage::default();
        let labels = vec![("op", "read".to_owned())];
        page.histogram("took_seconds", "Took.", [(labels, histogram.totals())]);
        let text = page.into_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + BUCKETS + 1 + 2);
        assert_eq!(
            lines[2],
            r#"took_seconds_bucket{op="read",le="0.000001024"} 1"#
        );
        assert_eq!(
            lines[3],
            r#"took_seconds_bucket{op="read",le="0.000002048"} 3"#
        );
        assert_eq!(
            lines[2 + BUCKETS],
            r#"took_seconds_bucket{op="read",le="+Inf"} 4"#
        );
        assert_eq!(
            lines[3 + BUCKETS],
            r#"took_seconds_sum{op="read"} 40.000003"#
        );
        assert_eq!(lines[4 + BUCKETS], r#"took_seconds_count{op="read"} 4"#);
    }

    #[test]
    fn seconds_are_exact() {
        assert_eq!(seconds(0), "0");
        assert_eq!(seconds(1), "0.000000001");
        assert_eq!(seconds(17_000_000_000), "17");
        assert_eq!(seconds(u64::MAX), "18446744073.709551615");
    }
}
