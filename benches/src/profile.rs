//! The time of each kernel of some work, as text.

use hlx_core::TimingReport;

use crate::table::digits;

/// Kernels that have a line of their own.
const LINES: usize = 24;

/// A table of the kernels that take longest: calls, milliseconds, share of all, and rates.
pub fn profile_text(report: &TimingReport) -> String {
    let total = report.total_ms();
    let mut text = format!(
        "\n{:<44} {:>6} {:>9} {:>6} {:>9} {:>9}\n",
        "kernel", "calls", "ms", "share", "GB/s", "TFLOP/s"
    );
    let mut line = |name: &str, calls: u64, ms: f64, [bytes, flops]: [f64; 2]| {
        text += &format!(
            "{name:<44} {calls:>6} {:>9} {:>5.1}% {:>9} {:>9}\n",
            digits(ms),
            100.0 * ms / total,
            digits(bytes / ms * 1e-6),
            digits(flops / ms * 1e-9)
        );
    };
    let (shown, rest) = report.kernels.split_at(LINES.min(report.kernels.len()));
    for kernel in shown {
        let work = [kernel.work.bytes as f64, kernel.work.flops as f64];
        line(&kernel.name, kernel.calls, kernel.total_ms, work);
    }
    if !rest.is_empty() {
        let ms = rest.iter().map(|kernel| kernel.total_ms).sum();
        let sum = |of: fn(&hlx_core::KernelTime) -> u64| rest.iter().map(of).sum::<u64>();
        let work = [
            sum(|kernel| kernel.work.bytes) as f64,
            sum(|kernel| kernel.work.flops) as f64,
        ];
        line("the rest", sum(|kernel| kernel.calls), ms, work);
    }
    line("all, one after the other", 0, total, [0.0; 2]);
    text
}
