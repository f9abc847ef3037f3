//! Progress bars.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

/// A bar for bytes on the standard error, which goes when it is dropped.
pub fn bar(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!(
        "{what} {{wide_bar}} {{percent}}%  {{binary_bytes}} of {{binary_total_bytes}}, \
         {{binary_bytes_per_sec}}, {{eta}} to go"
    ));
    let bar = ProgressBar::new(0);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_finish(ProgressFinish::AndClear)
}

/// A counter of bytes whose number is unknown.
pub fn counter(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(&format!(
        "{what} {{spinner}} {{binary_bytes}}, {{binary_bytes_per_sec}}"
    ));
    let bar = ProgressBar::no_length();
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        .with_finish(ProgressFinish::AndClear)
}
