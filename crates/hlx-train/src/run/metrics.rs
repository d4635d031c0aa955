//! `metrics.jsonl`: what a run measured, a line each.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Deserializer, Serialize};

use super::folder::write;

/// What a rank exchanged with others in a log period: means over its steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExchangeMetric {
    /// Milliseconds in which gradients were under way.
    pub gradients_ms: f64,
    /// The part of that time in which the step's own passes were still computed.
    pub hidden: f64,
    /// Milliseconds in which updated values were under way.
    pub values_ms: f64,
    /// Millions of bytes sent and received.
    pub megabytes: f64,
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Metric {
    /// A log period of training.
    Train {
        /// Steps done.
        step: u64,
        /// Epochs done, in part.
        epoch: f64,
        /// Mean loss a predicted byte or image over the period, as trained (dropout and smoothing on).
        #[serde(deserialize_with = "nan_of_null")]
        loss: f64,
        /// The last step's gradient norm, before clipping.
        #[serde(deserialize_with = "nan_of_null")]
        grad_norm: f32,
        /// The last step's learning rate.
        learning_rate: f32,
        /// Mean milliseconds a step.
        ms_per_step: f64,
        /// Bytes read a second, padding left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens_per_second: Option<f64>,
        /// Images a second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        images_per_second: Option<f64>,
        /// Of a language model on a GPU, the part of the device's peak that the model's own products take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share_of_peak: Option<f64>,
        /// Of a mixture of experts that is balanced, the last step's balance loss, which is not in the loss.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        router_balance: Option<f32>,
        /// Steps of the period that were skipped, as their loss or norm was not finite.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skipped: Option<u64>,
        /// Of a run of several ranks, what rank 0 exchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exchange: Option<ExchangeMetric>,
    },
    /// A text that the model went on with.
    Sample {
        /// Steps done.
        step: u64,
        /// What was given.
        prompt: String,
        /// What the model wrote.
        text: String,
    },
    /// An evaluation: no dropout, no smoothing.
    Eval {
        /// Steps done.
        step: u64,
        /// Which samples.
        split: EvalSplit,
        /// Mean cross-entropy a byte, over a pair's output bytes alone, or an image.
        #[serde(deserialize_with = "nan_of_null")]
        loss: f64,
        /// Of bytes and tokens, the loss's exponential.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        perplexity: Option<f64>,
        /// Of bytes, the same with the end bytes of pairs counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss_with_end: Option<f64>,
        /// Bytes that the first loss is a mean of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n_bytes: Option<u64>,
        /// Tokens that it is a mean of, where a token is more than a byte.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n_tokens: Option<u64>,
        /// Of images, the part that is classified rightly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accuracy: Option<f64>,
        /// Images that the loss is a mean of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n_images: Option<u64>,
    },
}

/// Reads a number; JSON has none that is not finite, and the writer leaves `null` in its place.
fn nan_of_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + From<f32>,
{
    let number = Option::<T>::deserialize(deserializer)?;
    Ok(number.unwrap_or_else(|| f32::NAN.into()))
}

/// Which samples an evaluation went over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalSplit {
    /// Those that the model is trained on.
    Train,
    /// Those held out.
    HeldOut,
}

impl Metric {
    /// Steps done when it was measured.
    pub fn step(&self) -> u64 {
        match self {
            Self::Train { step, .. } | Self::Eval { step, .. } | Self::Sample { step, .. } => *step,
        }
    }
}

impl Metric {
    /// The step and the samples of an evaluation.
    fn evaluation(&self) -> Option<(u64, EvalSplit)> {
        match self {
            Self::Eval { step, split, .. } => Some((*step, *split)),
            Self::Train { .. } | Self::Sample { .. } => None,
        }
    }
}

/// The open file; lines are appended.
pub struct MetricsFile {
    file: File,
    path: PathBuf,
    /// The evaluations that it holds: a run that is resumed at its end measures nothing new.
    evaluations: Vec<(u64, EvalSplit)>,
}

impl MetricsFile {
    /// Opens the file of a run that goes on after `step`: later lines, of steps that will be
    /// done again, are taken out, and so is what a crash has left behind the lines of the
    /// checkpoint: a line cut short, or blocks that a loss of power has filled with zeros.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn open_after(path: &Path, step: u64) -> Result<Self> {
        let mut evaluations = Vec::new();
        if path.exists() {
            let mut kept = Vec::new();
            let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
            for line in bytes.split_inclusive(|&byte| byte == b'\n') {
                let metric = serde_json::from_slice::<Metric>(line).ok();
                let metric = metric.filter(|found| found.step() <= step && line.ends_with(b"\n"));
                let Some(metric) = metric else { break };
                kept.extend_from_slice(line);
                evaluations.extend(metric.evaluation());
            }
            write(path, &kept)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| path.display().to_string())?;
        let path = path.to_owned();
        Ok(Self {
            file,
            path,
            evaluations,
        })
    }

    /// Appends a line; an evaluation that the file holds already is left out (`false`).
    ///
    /// # Errors
    /// The file and the system's message, such as a full disk.
    pub fn append(&mut self, metric: &Metric) -> Result<bool> {
        if let Some(evaluation) = metric.evaluation() {
            if self.evaluations.contains(&evaluation) {
                return Ok(false);
            }
            self.evaluations.push(evaluation);
        }
        let mut line = serde_json::to_vec(metric)?;
        line.push(b'\n');
        let name = || format!("{}: cannot be written", self.path.display());
        self.file.write_all(&line).with_context(name)?;
        Ok(true)
    }

    /// Flushes the lines to the disk, before a checkpoint that comes after them.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn flush(&self) -> Result<()> {
        let name = || format!("{}: cannot be written", self.path.display());
        self.file.sync_all().with_context(name)
    }
}

/// Reads every whole line of a metrics file.
///
/// # Errors
/// The file, the line and what is wrong in it; a last line without its end is no fault.
pub fn read_metrics(path: &Path) -> Result<Vec<Metric>> {
    let name = path.display();
    let file = File::open(path).with_context(|| name.to_string())?;
    let mut reader = BufReader::new(file);
    let (mut metrics, mut line) = (Vec::new(), String::new());
    for line_number in 1.. {
        line.clear();
        reader
            .read_line(&mut line)
            .with_context(|| name.to_string())?;
        if !line.ends_with('\n') {
            break;
        }
        let metric =
            serde_json::from_str(&line).map_err(|e| anyhow!("{name}:{line_number}: {e}"))?;
        metrics.push(metric);
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_that_is_no_number_comes_back() {
        let line = r#"{"kind":"train","step":2,"epoch":0.5,"loss":null,"grad_norm":null,
            "learning_rate":0.1,"ms_per_step":1.0,"skipped":2}"#;
        let metric: Metric = serde_json::from_str(line).expect("reads");
        let again = serde_json::to_string(&metric).expect("writes");
        assert!(again.contains(r#""loss":null,"grad_norm":null"#), "{again}");
        let Metric::Train { loss, skipped, .. } = metric else {
            panic!("no training line: {metric:?}")
        };
        assert!(loss.is_nan() && skipped == Some(2));
    }

    #[test]
    fn what_a_loss_of_power_leaves_behind_the_checkpoints_lines_is_cut_off() {
        let path = std::env::temp_dir().join(format!("hlx-metrics-{}", std::process::id()));
        let eval = |step| Metric::Eval {
            step,
            split: EvalSplit::HeldOut,
            loss: 1.5,
            perplexity: Some(4.5),
            loss_with_end: Some(1.25),
            n_bytes: Some(9),
            n_tokens: None,
            accuracy: None,
            n_images: None,
        };
        for end in [&b""[..], b"{\"kind\":\"ev", b"\0\0\0\n\0\0", b"{}\n"] {
            let _ = std::fs::remove_file(&path);
            let mut file = MetricsFile::open_after(&path, 0).expect("opens");
            for step in [2, 4, 6] {
                assert!(file.append(&eval(step)).expect("appends"));
            }
            let damaged = [std::fs::read(&path).expect("reads"), end.to_vec()].concat();
            std::fs::write(&path, damaged).expect("writes");
            let mut file = MetricsFile::open_after(&path, 4).expect("opens");
            assert!(!file.append(&eval(4)).expect("is there already"));
            assert!(file.append(&eval(6)).expect("appends"));
            assert_eq!(read_metrics(&path).expect("reads"), [2, 4, 6].map(eval));
        }
        std::fs::remove_file(path).expect("cleared");
    }
}
