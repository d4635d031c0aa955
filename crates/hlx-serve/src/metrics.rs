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

const COUNTERS: [Counter; 14] = [
    (
        "hlx_requests_waiting",
        "gauge",
        "Requests that wait for a place.",
        |one| one.waiting as u64,
    ),
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
        "hlx_requests_cancelled_total",
        "counter",
        "Requests whose clients have left.",
        |one| one.cancelled,
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
        let snapshots: Vec<(String, Snapshot)> = models
            .iter()
            .map(|model| (label(&model.id), model.engine.counts()))
            .collect();
        for (name, kind, help, read) in COUNTERS {
            // Writing to a string does not fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (model, snapshot) in &snapshots {
                let _ = writeln!(out, "{name}{{model=\"{model}\"}} {}", read(snapshot));
            }
        }
        of_devices(&mut out, models);
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

/// The same counters of each device of a model, for all of which its requests wait.
fn of_devices(out: &mut String, models: &[Served]) {
    let devices = models.iter().flat_map(|model| {
        let devices = model.engine.devices().into_iter();
        devices.map(|one| {
            let (id, device) = (label(&model.id), label(&one.device));
            (format!("model=\"{id}\",device=\"{device}\""), one)
        })
    });
    let devices: Vec<(String, DeviceCounts)> = devices.collect();
    let name = "hlx_device_open";
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "# HELP {name} Whether the device takes requests; 0 once it is lost.\n# TYPE {name} gauge"
    );
    for (labels, one) in &devices {
        let _ = writeln!(out, "{name}{{{labels}}} {}", u8::from(one.is_open));
    }
    for (name, kind, help, read) in COUNTERS {
        let name = name.replacen("hlx_", "hlx_device_", 1);
        if name == "hlx_device_requests_waiting" {
            continue;
        }
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, one) in &devices {
            let _ = writeln!(out, "{name}{{{labels}}} {}", read(&one.counts));
        }
    }
}

/// A text as the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
