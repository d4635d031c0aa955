//! Counters in the text form of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use hlx_train::engine::{DeviceCounts, Snapshot};

use crate::served::Served;

/// Requests of HTTP by route and status.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<BTreeMap<(String, u16), u64>>);

/// A counter of the engines: its name, its kind, what it counts and how it is read.
type Counter = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Snapshot) -> u64,
);

/// Counters of a model: its requests wait for all of its devices.
const OF_MODEL: [Counter; 2] = [
    (
        "hlx_requests_waiting",
        "gauge",
        "Requests that wait for a place.",
        |one| one.waiting as u64,
    ),
    (
        "hlx_requests_cancelled_total",
        "counter",
        "Requests whose clients have left.",
        |one| one.cancelled,
    ),
];

/// Counters of each device of a model.
const OF_DEVICE: [Counter; 12] = [
    (
        "hlx_requests_running",
        "gauge",
        "Requests whose answers grow.",
        |one| one.running as u64,
    ),
    (
        "hlx_requests_answered_total",
        "counter",
        "Requests that were answered.",
        |one| one.answered,
    ),
    (
        "hlx_requests_failed_total",
        "counter",
        "Requests that ended with an error.",
        |one| one.failed,
    ),
    (
        "hlx_prompt_tokens_total",
        "counter",
        "Tokens of prompts.",
        |one| one.prompt_tokens,
    ),
    (
        "hlx_reused_tokens_total",
        "counter",
        "Tokens of prompts that were in the cache.",
        |one| one.reused_tokens,
    ),
    (
        "hlx_answer_tokens_total",
        "counter",
        "Tokens that were drawn.",
        |one| one.answer_tokens,
    ),
    (
        "hlx_steps_total",
        "counter",
        "Steps over all answers that grow.",
        |one| one.steps,
    ),
    (
        "hlx_step_tokens_total",
        "counter",
        "Tokens that steps have appended.",
        |one| one.step_tokens,
    ),
    (
        "hlx_requests_preempted_total",
        "counter",
        "Times that a request gave its pages back and was computed again.",
        |one| one.preempted,
    ),
    ("hlx_pages", "gauge", "Pages of the cache.", |one| {
        one.pages as u64
    }),
    (
        "hlx_pages_free",
        "gauge",
        "Pages that no request has.",
        |one| one.free_pages as u64,
    ),
    (
        "hlx_pages_shared",
        "gauge",
        "Pages that several requests have.",
        |one| one.shared_pages as u64,
    ),
];

impl Metrics {
    pub fn count(&self, route: &str, status: u16) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry((route.to_owned(), status)).or_default() += 1;
    }

    /// All counters.
    pub fn text(&self, models: &[Served]) -> String {
        let mut out = String::new();
        let of_models = models.iter().map(|model| {
            let labels = format!("model=\"{}\"", label(&model.id));
            (labels, model.engine.counts())
        });
        let of_models: Vec<(String, Snapshot)> = of_models.collect();
        let of_devices = models.iter().flat_map(|model| {
            let devices = model.engine.devices().into_iter();
            devices.map(|one| {
                let (id, device) = (label(&model.id), label(&one.device));
                (format!("model=\"{id}\",device=\"{device}\""), one)
            })
        });
        let of_devices: Vec<(String, DeviceCounts)> = of_devices.collect();
        // Writing to a string does not fail.
        for (name, kind, help, read) in OF_MODEL {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, counts) in &of_models {
                let _ = writeln!(out, "{name}{{{labels}}} {}", read(counts));
            }
        }
        for (name, kind, help, read) in OF_DEVICE {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, one) in &of_devices {
                let _ = writeln!(out, "{name}{{{labels}}} {}", read(&one.counts));
            }
        }
        let name = "hlx_device_open";
        let _ = writeln!(
            out,
            "# HELP {name} Whether the device takes requests; 0 once it is lost.\n# TYPE {name} gauge"
        );
        for (labels, one) in &of_devices {
            let _ = writeln!(out, "{name}{{{labels}}} {}", u8::from(one.is_open));
        }
        let name = "hlx_http_requests_total";
        let _ = writeln!(
            out,
            "# HELP {name} Requests of HTTP.\n# TYPE {name} counter"
        );
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for ((route, status), n) in &*all {
            let route = label(route);
            let _ = writeln!(out, "{name}{{route=\"{route}\",status=\"{status}\"}} {n}");
        }
        out
    }
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
