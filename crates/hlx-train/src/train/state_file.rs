//! The checkpoint of any number of ranks: rank 0 creates its folder and publishes it, and each rank writes
//! its part of the optimizer's state at its place of the one file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::bytes::{f32_from_little_endian, little_endian};
use hlx_core::digest::{TensorHasher, sha256_of_file};
use hlx_core::files::{self, TemporaryFolder};
use hlx_nn::{OptimizerState, state_spans};

use super::Trainer;
use crate::ranks::agreed_on;
use crate::run::{Checkpoint, STATE_FILE, StateLayout, StatePlace, joined};

/// What rank 0 has made of a checkpoint.
#[derive(Default)]
struct Saved {
    /// The digest of its listing; empty if it was not published.
    listing: String,
    /// Which of its parameters is not finite; empty if all are.
    spoilt: String,
}

impl Trainer {
    /// Writes a checkpoint together with all ranks; returns the digest of its listing on rank 0. One whose parameters
    /// are not finite is not published, unless the run may continue so.
    pub(super) fn write_checkpoint(&mut self, parent: &Path) -> Result<String> {
        let group = self.group.clone();
        let layout = self.state_layout()?;
        let step = self.progress.step;
        let begun = match group.is_first() {
            true => begin(parent, step, &layout).map(Some),
            false => Ok(None),
        };
        let (folder, path) = agreed_on(&group, begun)?.unzip();
        let path = path.unwrap_or_default();
        let path = group.from_first(path.to_string_lossy().as_bytes())?;
        let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
        let written = self.write_part(&path, &layout);
        let written = written.with_context(|| Checkpoint::cannot_write(parent, step));
        agreed_on(&group, written)?;
        let saved = match folder {
            Some(folder) => self.publish(folder, parent, &layout),
            None => Ok(Saved::default()),
        };
        let saved = agreed_on(&group, saved)?;
        let spoilt = group.from_first(saved.spoilt.as_bytes())?;
        self.check_parameters(&String::from_utf8_lossy(&spoilt))?;
        Ok(saved.listing)
    }

    /// Adds the other files to the state's, whose two digests two threads read meanwhile.
    fn publish(
        &mut self,
        folder: TemporaryFolder,
        parent: &Path,
        layout: &StateLayout,
    ) -> Result<Saved> {
        let path = folder.path().join(STATE_FILE);
        let optimizer = self.engine.optimizer.as_ref();
        let (name, step) = (optimizer.name(), optimizer.step_count());
        let cannot = || format!("{}: cannot be read", path.display());
        let (contents, file) = std::thread::scope(|scope| {
            let file = scope.spawn(|| sha256_of_file(&path));
            let state = scope.spawn(|| digest_of_state(&path, &layout.values, name, step));
            let contents = self.contents(|| joined(state.join()).with_context(cannot));
            (contents, joined(file.join()))
        });
        let ((digests, files, spoilt), file) = (contents?, file.with_context(cannot)?);
        let mut saved = Saved {
            spoilt,
            ..Saved::default()
        };
        if saved.spoilt.is_empty() || self.engine.config.train.allow_non_finite {
            let there = [(STATE_FILE, file)];
            saved.listing = Checkpoint::finish(folder, parent, digests, &files, &there)?;
        }
        Ok(saved)
    }

    /// Where the tensors of the optimizer's state lie in its file, in the order of their names.
    fn state_layout(&self) -> Result<StateLayout> {
        let (weights, optimizer) = (self.engine.weights(), self.engine.optimizer.as_ref());
        let names = optimizer.buffers().into_iter().map(|(name, _)| name);
        let of_buffer = |name: &'static str| {
            let all = 0..weights.n_words();
            let spans = state_spans(optimizer.layout(name), weights, name, all).into_iter();
            spans.map(|span| (span.name, span.shape))
        };
        let mut tensors: Vec<_> = names.flat_map(of_buffer).collect();
        tensors.sort();
        let (name, step) = (optimizer.name(), optimizer.step_count());
        StateLayout::new(&self.progress, name, step, tensors)
    }

    /// Writes the values of this rank's part of the state at their places, and flushes them.
    fn write_part(&self, path: &Path, layout: &StateLayout) -> Result<()> {
        let (weights, optimizer) = (self.engine.weights(), self.engine.optimizer.as_ref());
        let mut file = OpenOptions::new().write(true).open(path)?;
        for (name, buffer) in optimizer.buffers() {
            if buffer.is_empty() {
                continue;
            }
            let words = self.engine.device.download_words(buffer)?;
            for span in state_spans(optimizer.layout(name), weights, name, weights.updated()) {
                let place = layout
                    .values
                    .binary_search_by(|place| place.name.cmp(&span.name));
                let (true, Ok(place)) = (span.len > 0, place) else {
                    continue;
                };
                let bytes = little_endian(&words[span.at..span.at + span.len]);
                let at = layout.values[place].bytes.start + 4 * span.first as u64;
                file.seek(SeekFrom::Start(at))?;
                file.write_all(&bytes)?;
            }
        }
        Ok(file.sync_all()?)
    }
}

/// Creates the folder of a checkpoint and the state's file in it, whole except for the values; it is flushed with
/// them. Returns the file's path for ranks that began in other folders.
fn begin(parent: &Path, step: u64, layout: &StateLayout) -> Result<(TemporaryFolder, PathBuf)> {
    let folder = Checkpoint::begin(parent, step)?;
    let path = std::path::absolute(folder.path().join(STATE_FILE))?;
    let write = || -> io::Result<()> {
        let mut file = File::create_new(&path)?;
        file.set_len(layout.len)?;
        for (at, bytes) in &layout.between {
            file.seek(SeekFrom::Start(*at))?;
            file.write_all(bytes)?;
        }
        Ok(())
    };
    write().with_context(|| Checkpoint::cannot_write(parent, step))?;
    Ok((folder, path))
}

/// The digest of the state in a file ([`OptimizerState::digest`]), no more than a MiB of which is in memory.
fn digest_of_state(
    path: &Path,
    tensors: &[StatePlace],
    optimizer: &str,
    step: u64,
) -> io::Result<String> {
    let mut file = files::open(path)?;
    let mut hasher = TensorHasher::new();
    let mut buffer = vec![0; 1 << 20];
    for tensor in tensors {
        hasher.begin(&tensor.name, &tensor.shape);
        file.seek(SeekFrom::Start(tensor.bytes.start))?;
        let mut left = (tensor.bytes.end - tensor.bytes.start) as usize;
        while left > 0 {
            let part = &mut buffer[..left.min(1 << 20)];
            file.read_exact(part)?;
            hasher.values(&f32_from_little_endian(part));
            left -= part.len();
        }
    }
    Ok(OptimizerState::digest_of(hasher, optimizer, step))
}
