//! Where the time of a run goes: a table by kernel, and a trace for Chrome or Perfetto.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context as _, Result};
use hlx_core::{Device, KernelTime, TimingReport, files};
use hlx_proof::peak::{Peak, measure};
use serde_json::{Value, json};

use crate::train::{ExchangeTimes, Traffic};

/// A run under measurement: from its start on, the time of every launch is measured.
///
/// Launches run one after the other meanwhile, so a timed run is a little slower than
/// another; its bits are the same.
pub struct RunTimer {
    device: Device,
    peak: Peak,
}

impl RunTimer {
    /// Measures the device's peak, then starts the measurement of launches. Recordings made
    /// before are not measured.
    ///
    /// # Errors
    /// What the device reports.
    pub fn start(device: &Device) -> Result<Self> {
        let peak = measure(device)?;
        device.set_timing(true);
        Ok(Self {
            device: device.clone(),
            peak,
        })
    }

    /// Ends the measurement and returns what was found.
    ///
    /// # Errors
    /// What the device reports.
    pub fn end(self) -> Result<RunTiming> {
        let report = self.device.take_timing();
        self.device.set_timing(false);
        Ok(RunTiming {
            report: report?,
            peak: self.peak,
            device: self.device.info().to_string(),
            exchange: ExchangeTimes::default(),
        })
    }
}

/// The times of a run.
pub struct RunTiming {
    /// The kernels and launches.
    pub report: TimingReport,
    /// The device's measured peak.
    pub peak: Peak,
    /// The device.
    pub device: String,
    /// What this rank exchanged with others.
    pub exchange: ExchangeTimes,
}

/// The rates of a kernel, and the larger of its two shares of the peak.
struct Rates {
    bytes: f64,
    flops: f64,
    share: f64,
}

impl RunTiming {
    fn rates(&self, kernel: &KernelTime) -> Rates {
        let seconds = (kernel.total_ms * 1e-3).max(f64::MIN_POSITIVE);
        let bytes = kernel.work.bytes as f64 / seconds;
        let flops = kernel.work.flops as f64 / seconds;
        let share = (bytes / self.peak.bytes).max(flops / self.peak.flops);
        Rates {
            bytes,
            flops,
            share,
        }
    }

    /// Adds what the run's rank exchanged with others.
    #[must_use]
    pub fn with_exchange(mut self, times: &ExchangeTimes) -> Self {
        self.exchange = times.clone();
        self
    }

    /// The traffic of several ranks, by what it is of.
    fn traffic(&self) -> Vec<(&'static str, Traffic)> {
        let ExchangeTimes {
            n_steps,
            gradients,
            values,
            ..
        } = self.exchange;
        let all = [
            ("exchange of gradients", gradients),
            ("exchange of values", values),
        ];
        all.into_iter().filter(|_| n_steps > 0).collect()
    }

    /// The table: one line per kernel, longest first, then what was exchanged with other ranks.
    pub fn table(&self) -> String {
        let total = self.report.total_ms();
        let mut text = format!(
            "timing     {total:.1} ms in kernels; peak {:.4} TFLOP/s, {:.1} GB/s\n\n{:32} {:>9} \
             {:>11} {:>6} {:>10} {:>9} {:>10} {:>9} {:>6}\n",
            self.peak.flops * 1e-12,
            self.peak.bytes * 1e-9,
            "kernel",
            "calls",
            "ms",
            "time",
            "GB",
            "GB/s",
            "GFLOP",
            "TFLOP/s",
            "peak"
        );
        for kernel in &self.report.kernels {
            let rates = self.rates(kernel);
            let [flop, flops] = match kernel.work.flops {
                0 => ["-".to_owned(), "-".to_owned()],
                flops => [
                    format!("{:.2}", flops as f64 * 1e-9),
                    format!("{:.3}", rates.flops * 1e-12),
                ],
            };
            let _ = writeln!(
                text,
                "{:32} {:>9} {:>11.3} {:>5.1}% {:>10.3} {:>9.1} {flop:>10} {flops:>9} {:>5.1}%",
                kernel.name,
                kernel.calls,
                kernel.total_ms,
                kernel.total_ms / total.max(f64::MIN_POSITIVE) * 100.0,
                kernel.work.bytes as f64 * 1e-9,
                rates.bytes * 1e-9,
                rates.share * 100.0
            );
        }
        for (name, Traffic { busy_ms, bytes, .. }) in self.traffic() {
            let _ = writeln!(
                text,
                "{name:32} {:>9} {busy_ms:>11.3} {:>6} {:>10.3} {:>9.1}",
                self.exchange.n_steps,
                "",
                bytes as f64 * 1e-9,
                bytes as f64 * 1e-6 / busy_ms.max(f64::MIN_POSITIVE)
            );
        }
        text
    }

    /// The same as one JSON object.
    pub fn to_json(&self) -> Value {
        let kernel = |kernel: &KernelTime| {
            let rates = self.rates(kernel);
            json!({
                "name": kernel.name, "calls": kernel.calls, "ms": kernel.total_ms,
                "bytes": kernel.work.bytes, "flops": kernel.work.flops,
                "bytes_per_second": rates.bytes, "flops_per_second": rates.flops,
                "share_of_peak": rates.share,
            })
        };
        let kernels: Vec<Value> = self.report.kernels.iter().map(kernel).collect();
        let traffic = |(name, traffic): (&str, Traffic)| {
            json!({
                "name": name, "steps": self.exchange.n_steps, "ms": traffic.busy_ms,
                "hidden_ms": traffic.hidden_ms, "bytes": traffic.bytes,
            })
        };
        let exchange: Vec<Value> = self.traffic().into_iter().map(traffic).collect();
        json!({
            "kind": "profile", "device": self.device, "ms": self.report.total_ms(),
            "peak_flops": self.peak.flops, "peak_bytes": self.peak.bytes, "kernels": kernels,
            "exchange": exchange,
        })
    }

    /// The launches in the trace event format that Perfetto and `chrome://tracing` open: complete
    /// events, times in microseconds.
    pub fn chrome_trace(&self) -> Value {
        let name = json!({
            "name": "process_name", "ph": "M", "pid": 1, "tid": 1,
            "args": { "name": self.device },
        });
        let launches = self.report.launches.iter().map(|launch| {
            json!({
                "name": launch.name, "cat": "kernel", "ph": "X", "pid": 1, "tid": 1,
                "ts": launch.start_us, "dur": launch.duration_us,
                "args": { "bytes": launch.work.bytes, "flops": launch.work.flops },
            })
        });
        let events: Vec<Value> = std::iter::once(name)
            .chain(launches)
            .chain(self.exchange_events())
            .collect();
        json!({ "traceEvents": events, "displayTimeUnit": "ms" })
    }

    /// The last step's exchange of gradients, on a clock of its own: its swaps, and the passes from the first
    /// bucket on.
    fn exchange_events(&self) -> Vec<Value> {
        let Some(first) = self.exchange.last.first() else {
            return Vec::new();
        };
        let event = |name: &str, tid: u64, (begin_ms, end_ms): (f64, f64), bytes: u64| {
            json!({
                "name": name, "cat": "exchange", "ph": "X", "pid": 2, "tid": tid,
                "ts": (begin_ms - first.begin_ms) * 1e3, "dur": (end_ms - begin_ms) * 1e3,
                "args": { "bytes": bytes },
            })
        };
        let passes = (first.begin_ms, self.exchange.passes_end_ms);
        let swaps = self.exchange.last.iter();
        let swaps = swaps.map(|span| event("swap", 2, (span.begin_ms, span.end_ms), span.bytes));
        std::iter::once(event("passes", 1, passes, 0))
            .chain(swaps)
            .collect()
    }

    /// Writes the trace.
    ///
    /// # Errors
    /// What the disk reports, with the file's name.
    pub fn write_trace(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec(&self.chrome_trace())?;
        files::write_atomically(path, &text).with_context(|| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hlx_core::{LaunchTime, Work};

    use crate::train::Span;

    fn run_timing() -> RunTiming {
        let work = Work {
            bytes: 2_000_000,
            flops: 8_000_000,
        };
        let plain = Work {
            bytes: 1_000_000,
            flops: 0,
        };
        let kernel = |name: &str, work| KernelTime {
            name: name.to_owned(),
            calls: 2,
            total_ms: 1.0,
            work,
        };
        let launch = |name, start_us| LaunchTime {
            name,
            start_us,
            duration_us: 500.0,
            work,
        };
        RunTiming {
            report: TimingReport {
                kernels: vec![kernel("matmul", work), kernel("add", plain)],
                launches: vec![launch("matmul", 0.0), launch("matmul", 750.5)],
            },
            peak: Peak {
                flops: 1.6e10,
                bytes: 1e10,
            },
            device: "a \"GPU\"".to_owned(),
            exchange: ExchangeTimes::default(),
        }
    }

    #[test]
    fn exchanges_are_rows_and_events() -> Result<()> {
        let swap = |begin_ms, end_ms| Span {
            begin_ms,
            end_ms,
            bytes: 3_000_000,
        };
        let times = ExchangeTimes {
            n_steps: 2,
            gradients: Traffic {
                busy_ms: 4.0,
                hidden_ms: 3.0,
                bytes: 12_000_000,
            },
            last: vec![swap(10.0, 11.0), swap(12.0, 13.0)],
            passes_end_ms: 12.5,
            ..ExchangeTimes::default()
        };
        assert!(!run_timing().table().contains("exchange"));
        let timing = run_timing().with_exchange(&times);
        let table = timing.table();
        let row = table
            .lines()
            .find(|line| line.starts_with("exchange of gradients"));
        let row: Vec<&str> = row.context("a row")?.split_whitespace().skip(3).collect();
        assert_eq!(row, ["2", "4.000", "0.012", "3.0"]);
        assert_eq!(timing.to_json()["exchange"][0]["hidden_ms"], 3.0);
        let trace = timing.chrome_trace();
        let events = trace["traceEvents"].as_array().context("events")?;
        let exchanged = events.iter().filter(|event| event["cat"] == "exchange");
        let times: Vec<_> = exchanged
            .map(|e| (e["ts"].as_f64(), e["dur"].as_f64()))
            .collect();
        let expected = [(0.0, 2500.0), (0.0, 1000.0), (2000.0, 1000.0)];
        assert_eq!(times, expected.map(|(ts, dur)| (Some(ts), Some(dur))));
        Ok(())
    }

    #[test]
    fn the_table_has_rates_and_the_larger_share() {
        let table = run_timing().table();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let expected = [
            "matmul", "2", "1.000", "50.0%", "0.002", "2.0", "0.01", "0.008", "50.0%",
        ];
        assert_eq!(lines[3], expected);
        assert_eq!(lines[4][6..], ["-", "-", "10.0%"]);
    }

    #[test]
    fn the_trace_is_valid_and_complete() -> Result<()> {
        let timing = run_timing();
        let text = serde_json::to_string(&timing.chrome_trace())?;
        let trace: Value = serde_json::from_str(&text)?;
        let events = trace["traceEvents"].as_array().context("events")?;
        assert_eq!(events.len(), 3);
        assert_eq!(events[0]["args"]["name"], "a \"GPU\"");
        assert_eq!(
            (&events[2]["ph"], &events[2]["ts"]),
            (&json!("X"), &json!(750.5))
        );
        assert_eq!(events[1]["args"]["flops"], 8_000_000);
        let kernels = timing.to_json();
        assert_eq!(kernels["kernels"][0]["share_of_peak"], 0.5);
        Ok(())
    }
}
