//! TensorBoard's event file: what `metrics.jsonl` holds, in the form that TensorBoard reads.
//!
//! The file is a row of records: the length of the data (u64), the masked CRC32C of these 8 bytes (u32),
//! the data, and the masked CRC32C of the data (u32), all little-endian. A record's data is an `Event` of
//! TensorFlow's `event.proto` in protobuf's encoding, which is written here by hand ([`Message`]).
//!
//! Each stretch of a run has a file of its own. It begins with a `SessionLog` of the step that the run goes
//! on with, at which TensorBoard forgets this step and later ones of the files before.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};

use super::{EvalSplit, ExchangeMetric, Metric};

/// An open event file; records are appended.
pub struct EventFile {
    file: File,
    path: PathBuf,
}

impl EventFile {
    /// Creates the event file of a run that continues after `step`, under a name that no other has.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn create(folder: &Path, step: u64) -> Result<Self> {
        let now = seconds_now();
        let host = gethostname::gethostname().to_string_lossy().into_owned();
        let (seconds, process) = (now as u64, std::process::id());
        let name = |n: u64| format!("events.out.tfevents.{seconds:010}.{host}.{process}.{n}");
        let path = (0..)
            .map(|n| folder.join(name(n)))
            .find(|path| !path.exists());
        let path = path.context("no name is left for an event file")?;
        let cannot = || format!("{}: cannot be written", path.display());
        let mut options = OpenOptions::new();
        let file = options.create_new(true).append(true).open(&path);
        let mut events = Self {
            file: file.with_context(cannot)?,
            path,
        };
        // TensorBoard forgets the step of the start itself, too.
        events.write(&[version(now), session_start(now, step + 1)])?;
        Ok(events)
    }

    /// Appends the events of a metric.
    ///
    /// # Errors
    /// The file and the system's message, such as a full disk.
    pub fn append(&mut self, metric: &Metric) -> Result<()> {
        self.write(&[metric_event(metric, seconds_now())])
    }

    fn write(&mut self, events: &[Vec<u8>]) -> Result<()> {
        let records: Vec<u8> = events.iter().flat_map(|event| record(event)).collect();
        let name = || format!("{}: cannot be written", self.path.display());
        self.file.write_all(&records).with_context(name)
    }
}

fn seconds_now() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |since| since.as_secs_f64())
}

/// The first event of every file.
fn version(time: f64) -> Vec<u8> {
    let mut event = event(time, 0);
    event.bytes(3, b"brain.Event:2");
    event.0
}

/// The event at which a step and later ones of earlier files are forgotten.
fn session_start(time: f64, step: u64) -> Vec<u8> {
    let mut session = Message::default();
    session.integer(1, 1); // START
    let mut event = event(time, step);
    event.bytes(7, &session.0);
    event.0
}

fn event(time: f64, step: u64) -> Message {
    let mut event = Message::default();
    event.double(1, time);
    event.integer(2, step);
    event
}

/// The event of a metric, with one value for each curve.
fn metric_event(metric: &Metric, time: f64) -> Vec<u8> {
    let mut summary = Message::default();
    let mut curve = |tag: &str, value: Option<f64>| {
        if let Some(value) = value {
            summary.bytes(1, &scalar(tag, value));
        }
    };
    match metric {
        Metric::Train {
            epoch,
            loss,
            grad_norm,
            learning_rate,
            ms_per_step,
            tokens_per_second,
            images_per_second,
            share_of_peak,
            router_balance,
            skipped,
            exchange,
            memory_bytes,
            ..
        } => {
            curve("train/loss", Some(*loss));
            curve("train/grad_norm", Some(f64::from(*grad_norm)));
            curve("train/learning_rate", Some(f64::from(*learning_rate)));
            curve("train/epoch", Some(*epoch));
            curve("time/ms_per_step", Some(*ms_per_step));
            curve("time/tokens_per_second", *tokens_per_second);
            curve("time/images_per_second", *images_per_second);
            curve("time/share_of_peak", *share_of_peak);
            curve("train/router_balance", router_balance.map(f64::from));
            curve("train/skipped", skipped.map(|n| n as f64));
            let exchanged = |of: fn(&ExchangeMetric) -> f64| exchange.as_ref().map(of);
            curve(
                "time/exchange_gradients_ms",
                exchanged(|it| it.gradients_ms),
            );
            curve("time/exchange_values_ms", exchanged(|it| it.values_ms));
            curve("time/memory_bytes", memory_bytes.map(|n| n as f64));
            curve("time/exchange_hidden", exchanged(|it| it.hidden));
        }
        Metric::Eval {
            split,
            loss,
            perplexity,
            accuracy,
            ..
        } => {
            let name = match split {
                EvalSplit::Train => "eval_train",
                EvalSplit::HeldOut => "eval",
            };
            curve(&format!("{name}/loss"), Some(*loss));
            curve(&format!("{name}/perplexity"), *perplexity);
            curve(&format!("{name}/accuracy"), *accuracy);
        }
        Metric::Sample { prompt, text, .. } => {
            let tag = format!("sample/{prompt}");
            summary.bytes(1, &text_value(&tag, &format!("{prompt}{text}")));
        }
    }
    let mut event = event(time, metric.step());
    event.bytes(5, &summary.0);
    event.0
}

/// A `Summary.Value` of one number.
fn scalar(tag: &str, value: f64) -> Vec<u8> {
    let mut message = Message::default();
    message.bytes(1, tag.as_bytes());
    message.float(2, value as f32);
    message.0
}

/// A `Summary.Value` of one text: a tensor of strings of the plugin `text`.
fn text_value(tag: &str, text: &str) -> Vec<u8> {
    let mut plugin = Message::default();
    plugin.bytes(1, b"text");
    let mut metadata = Message::default();
    metadata.bytes(1, &plugin.0);
    let mut dimension = Message::default();
    dimension.integer(1, 1);
    let mut shape = Message::default();
    shape.bytes(2, &dimension.0);
    let mut tensor = Message::default();
    tensor.integer(1, 7); // DT_STRING
    tensor.bytes(2, &shape.0);
    tensor.bytes(8, text.as_bytes());
    let mut message = Message::default();
    message.bytes(1, tag.as_bytes());
    message.bytes(8, &tensor.0);
    message.bytes(9, &metadata.0);
    message.0
}

/// A protobuf message in the making: fields in the order of the calls.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// The field's number and the wire type.
    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    /// An integer; 0 is left out, as protobuf's third version does.
    fn integer(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.key(field, 0);
            self.varint(value);
        }
    }

    fn double(&mut self, field: u64, value: f64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }
}

/// The bytes of a record.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut bytes = Vec::with_capacity(data.len() + 16);
    bytes.extend(length);
    bytes.extend(masked_crc(&length).to_le_bytes());
    bytes.extend(data);
    bytes.extend(masked_crc(data).to_le_bytes());
    bytes
}

/// The CRC that TFRecord stores: rotated and moved, as a CRC of data that hold CRCs is weak.
fn masked_crc(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC32C (Castagnoli): the polynomial 0x1edc6f41, bits reflected, begun and ended with all ones.
fn crc32c(data: &[u8]) -> u32 {
    const REFLECTED: u32 = 0x82f6_3b78;
    let mut crc = u32::MAX;
    for &byte in data {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (REFLECTED * (crc & 1));
        }
    }
    !crc
}

#[cfg(test)]
mod tests;
