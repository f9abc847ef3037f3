//! The metrics of every process, with the names that the libraries of Prometheus use.

use crate::serve::metrics::text::{MetricsPage, seconds};

/// Writes the metrics of this process from the system.
pub(crate) fn write(page: &mut MetricsPage) {
    let one = |value: Option<u64>| value.map(|value| (Vec::new(), value));
    let Some(stat) = Stat::read() else { return };
    let page_size = rustix::param::page_size() as u64;
    page.gauge(
        "process_resident_memory_bytes",
        "Memory of the process.",
        one(stat.number(24).map(|pages| pages * page_size)),
    );
    page.gauge(
        "process_virtual_memory_bytes",
        "Address space of the process.",
        one(stat.number(23)),
    );
    page.gauge("process_threads", "Threads.", one(stat.number(20)));
    let ticks = rustix::param::clock_ticks_per_second();
    let cpu = stat.number(14).zip(stat.number(15));
    let nanos = cpu.map(|(user, system)| {
        let nanos = u128::from(user + system) * 1_000_000_000 / u128::from(ticks.max(1));
        nanos as u64
    });
    page.counter(
        "process_cpu_seconds_total",
        "Processor time, of programs and of the kernel on their behalf.",
        nanos.map(|nanos| (Vec::new(), seconds(nanos))),
    );
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec as u64;
    let up = rustix::system::sysinfo().uptime as u64;
    let began = stat
        .number(22)
        .map(|begun| boot - up + begun / ticks.max(1));
    page.gauge(
        "process_start_time_seconds",
        "When the process began, seconds since 1970.",
        one(began),
    );
}

/// The line of `/proc/self/stat`; see proc(5).
struct Stat(String);

impl Stat {
    fn read() -> Option<Stat> {
        Some(Stat(std::fs::read_to_string("/proc/self/stat").ok()?))
    }

    /// A field by its number in proc(5), from the third on. The second field is a name in parentheses, with any
    /// characters.
    fn number(&self, field: usize) -> Option<u64> {
        let (_, rest) = self.0.rsplit_once(')')?;
        rest.split_whitespace().nth(field - 3)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_manual() {
        let line = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23";
        let stat = Stat(line.into());
        assert_eq!((stat.number(4), stat.number(14)), (Some(1), Some(11)));
        assert_eq!((stat.number(24), stat.number(99)), (Some(21), None));
        let mut page = MetricsPage::default();
        write(&mut page);
        let text = page.into_text();
        assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
        assert!(text.contains("\nprocess_threads "), "{text}");
    }
}
