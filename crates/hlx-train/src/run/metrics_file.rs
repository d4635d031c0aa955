//! `metrics.jsonl` as a file: lines are appended, and whatever has damaged one costs no other.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::files;

use super::write;
use super::{EvalSplit, Metric};

/// Damaged lines that are named one by one; of more, the number is enough.
const NAMED: usize = 8;
/// Characters of the reason why a line is damaged: the parser repeats values of the line in it.
const REASON_CHARS: usize = 120;

/// The open file; lines are appended.
pub struct MetricsFile {
    file: File,
    path: PathBuf,
    /// The evaluations that it holds: a run that is resumed at its end measures nothing new.
    evaluations: Vec<(u64, EvalSplit)>,
}

impl MetricsFile {
    /// Opens the file of a run that continues after `step`. Lines of later steps, which will be done again, are
    /// taken out, and so is what a crash has left at the end: a line cut short, or blocks that a loss of power
    /// has filled with zeros. Every other line stays byte for byte; a warning names those that are damaged.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn open_after(path: &Path, step: u64) -> Result<Self> {
        let mut evaluations = Vec::new();
        if path.exists() {
            let bytes = files::read(path).with_context(|| path.display().to_string())?;
            let lines = lines_until(lines(&bytes), step);
            warn_of_damage(path, &lines);
            let mut written: Vec<u8> = Vec::with_capacity(bytes.len());
            for line in &lines {
                written.extend_from_slice(line.bytes);
                // A whole line may have lost its end.
                written.extend_from_slice(if line.is_ended() { b"" } else { b"\n" });
                evaluations.extend(line.metric().and_then(Metric::evaluation));
            }
            if written != bytes {
                write(path, &written)?;
            }
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

/// Reads the lines of a metrics file. A damaged line is left out with a warning that names it; what a crash, or a
/// run that is writing right now, has left unfinished at the end is left out without one.
///
/// # Errors
/// The file and the system's message.
pub fn read_metrics(path: &Path) -> Result<Vec<Metric>> {
    let bytes = files::read(path).with_context(|| path.display().to_string())?;
    let mut lines = lines(&bytes);
    while lines.last().is_some_and(Line::is_unfinished) {
        lines.pop();
    }
    warn_of_damage(path, &lines);
    let metrics = lines.into_iter().filter_map(|line| match line.content {
        Content::Metric(metric) => Some(metric),
        Content::Blank | Content::Damaged(_) => None,
    });
    Ok(metrics.collect())
}

/// A line of the file, its end included.
struct Line<'a> {
    /// Counted from 1.
    number: usize,
    bytes: &'a [u8],
    content: Content,
}

enum Content {
    Metric(Metric),
    /// White space alone, which holds nothing and is not damage.
    Blank,
    /// Why it cannot be read.
    Damaged(String),
}

fn lines(bytes: &[u8]) -> Vec<Line<'_>> {
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let line = |(number, bytes)| Line {
        number,
        bytes,
        content: content(bytes),
    };
    (1..).zip(lines).map(line).collect()
}

fn content(line: &[u8]) -> Content {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Content::Blank;
    }
    let n_zeros = line.iter().filter(|&&byte| byte == 0).count();
    if n_zeros > 0 {
        return Content::Damaged(format!("it holds {n_zeros} bytes of zeros"));
    }
    if let Err(error) = std::str::from_utf8(line) {
        let at = error.valid_up_to() + 1;
        return Content::Damaged(format!("not UTF-8 at byte {at}"));
    }
    // Without its end, a line cut short is one to the parser, too.
    match serde_json::from_slice(line.trim_ascii_end()) {
        Ok(metric) => Content::Metric(metric),
        Err(error) => Content::Damaged(reason(&error)),
    }
}

/// What the parser says, without the line's number within the line, and short enough to be printed.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let printable = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    let text: String = text.chars().take(REASON_CHARS).map(printable).collect();
    format!("{text} at byte {}", error.column())
}

impl Line<'_> {
    fn is_ended(&self) -> bool {
        self.bytes.ends_with(b"\n")
    }

    fn metric(&self) -> Option<&Metric> {
        match &self.content {
            Content::Metric(metric) => Some(metric),
            Content::Blank | Content::Damaged(_) => None,
        }
    }

    /// Whether a crash may have left it at the end of the file: cut short, or nothing but zeros.
    fn is_unfinished(&self) -> bool {
        let is_empty = || self.bytes.iter().all(|byte| b"\0\r\n".contains(byte));
        self.metric().is_none() && (!self.is_ended() || is_empty())
    }

    /// Whether it is of this step or an earlier one.
    fn is_up_to(&self, step: u64) -> bool {
        self.metric().is_some_and(|metric| metric.step() <= step)
    }

    /// Whether it is damaged and may be of this step or an earlier one: no step that is still legible in it
    /// is a later one.
    fn may_be_up_to(&self, step: u64) -> bool {
        let is_damaged = matches!(self.content, Content::Damaged(_)) && !self.is_unfinished();
        is_damaged && legible_step(self.bytes).is_none_or(|found| found <= step)
    }
}

/// The step that a damaged line states, if that part of it is whole.
fn legible_step(line: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"step\":";
    let at = line.windows(KEY.len()).position(|window| window == KEY)?;
    let digits = line[at + KEY.len()..].iter();
    let digits: Vec<u8> = digits.copied().take_while(u8::is_ascii_digit).collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

/// The lines that stay in the file of a run that continues after `step`.
fn lines_until(mut lines: Vec<Line<'_>>, step: u64) -> Vec<Line<'_>> {
    let of_run = lines.iter().rposition(|line| line.is_up_to(step));
    let mut end = of_run.map_or(0, |last| last + 1);
    // What is damaged right after the last of these may be of a step before the checkpoint, too. Nothing is
    // measured before the first step.
    let behind = lines[end..].iter();
    end += match step {
        0 => 0,
        _ => behind.take_while(|line| line.may_be_up_to(step)).count(),
    };
    lines.truncate(end);
    lines.retain(|line| line.metric().is_none() || line.is_up_to(step));
    lines
}

/// Warns of damaged lines that are left out: of each by its number, and of those past the eighth by how many they are.
pub fn warn_of_damaged_lines(path: &Path, numbers: &[u64]) {
    let damaged: Vec<(u64, String)> = numbers.iter().map(|&n| (n, String::new())).collect();
    warn_of_lines(path, &damaged, "");
}

/// Warns of the log's damaged lines, with their reasons.
fn warn_of_damage(path: &Path, lines: &[Line<'_>]) {
    let damaged = lines.iter().filter_map(|line| match &line.content {
        Content::Damaged(reason) => Some((line.number as u64, format!(": {reason}"))),
        Content::Metric(_) | Content::Blank => None,
    });
    let damaged: Vec<(u64, String)> = damaged.collect();
    warn_of_lines(path, &damaged, ", but kept in the file");
}

/// Warns of lines by their numbers with what stands behind the words, and of those past [`NAMED`] by how many they are.
fn warn_of_lines(path: &Path, damaged: &[(u64, String)], kept: &str) {
    let path = path.display();
    for (number, reason) in damaged.iter().take(NAMED) {
        tracing::warn!("{path}:{number}: is damaged and left out{kept}{reason}");
    }
    if damaged.len() > NAMED {
        let n = damaged.len() - NAMED;
        tracing::warn!("{path}: {n} more lines are damaged and left out{kept}");
    }
}

#[cfg(test)]
mod tests;
