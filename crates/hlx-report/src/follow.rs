//! The log of a run that another process may be writing, read line by line as it grows.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use hlx_core::files;
use hlx_train::run::{Metric, RunFolder};

/// What has come since the last look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// Whether what was read before is no longer what the file begins with: all of it is in `metrics` again.
    pub begins_anew: bool,
    /// The new lines.
    pub metrics: Vec<Metric>,
    /// Lines that cannot be read, by their numbers.
    pub damaged: Vec<u64>,
}

/// Follows the log of a run.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// Bytes that were read, up to the end of a line.
    read: u64,
    lines: u64,
    /// The last bytes of these, by which a file that was written anew is known.
    tail: Vec<u8>,
}

/// Bytes by which a file that was written anew is known.
const TAIL: usize = 64;

impl Follower {
    /// Follows from the first line on.
    pub fn new(folder: &RunFolder) -> Self {
        Self {
            path: folder.metrics_path(),
            read: 0,
            lines: 0,
            tail: Vec::new(),
        }
    }

    /// Reads the whole lines that have been written since the last call; a run without a log has none yet.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn look(&mut self) -> Result<News> {
        let mut file = match files::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(News::default()),
            opened => opened.with_context(|| self.path.display().to_string())?,
        };
        let begins_anew = !self.continues(&mut file)?;
        if begins_anew {
            (self.read, self.lines) = (0, 0);
            self.tail.clear();
        }
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(self.read))
            .and_then(|_| file.read_to_end(&mut bytes));
        read.with_context(|| self.path.display().to_string())?;
        let end = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        bytes.truncate(end);
        let mut news = News {
            begins_anew,
            ..News::default()
        };
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.lines += 1;
            match serde_json::from_slice(line) {
                Ok(metric) => news.metrics.push(metric),
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(_) => news.damaged.push(self.lines),
            }
        }
        self.read += end as u64;
        self.tail
            .extend_from_slice(&bytes[end.saturating_sub(TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        Ok(news)
    }

    /// Whether the file still has the bytes that were read last.
    fn continues(&self, file: &mut File) -> Result<bool> {
        let mut found = vec![0; self.tail.len()];
        let start = self.read - self.tail.len() as u64;
        let read = file
            .seek(SeekFrom::Start(start))
            .and_then(|_| file.read_exact(&mut found));
        match read {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            read => read
                .map(|()| found == self.tail)
                .with_context(|| self.path.display().to_string()),
        }
    }
}
