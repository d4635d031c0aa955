//! A checkpoint of several ranks: rank 0 creates its folder and publishes it, and each rank writes its
//! part of the optimizer's state at its place of the one file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use hlx_core::bytes::little_endian;

use super::Trainer;
use crate::ranks::agreed_on;
use crate::run::{Checkpoint, STATE_FILE, State, StateLayout};

impl Trainer {
    /// Writes a checkpoint together with all ranks; returns the digest of its listing on rank 0.
    pub(super) fn save_together(&mut self, parent: &Path) -> Result<String> {
        let group = self.group.clone();
        let layout = self.state_layout()?;
        let begun = match group.is_first() {
            true => begin(parent, self.progress.step, &layout).map(Some),
            false => Ok(None),
        };
        let folder = agreed_on(&group, begun)?;
        let path = folder
            .as_ref()
            .map_or_else(PathBuf::new, |folder| folder.path().join(STATE_FILE));
        let path = group.from_first(path.to_string_lossy().as_bytes())?;
        let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
        agreed_on(&group, self.write_part(&path, &layout))?;
        let saved = match folder {
            Some(folder) => self.finish_together(folder, parent, &path),
            None => Ok(String::new()),
        };
        agreed_on(&group, saved)
    }

    fn finish_together(
        &mut self,
        folder: hlx_core::files::TemporaryFolder,
        parent: &Path,
        path: &Path,
    ) -> Result<String> {
        let mut state = Vec::new();
        let read = File::open(path).and_then(|mut file| file.read_to_end(&mut state));
        read.with_context(|| path.display().to_string())?;
        let optimizer = State::from_bytes(&state)?.optimizer;
        let (digests, files) = self.contents(&optimizer)?;
        Checkpoint::finish(folder, (parent, digests), &files, &[(STATE_FILE, &state)])
    }

    /// Where the tensors of the optimizer's state lie in its file, in the order of their names.
    fn state_layout(&self) -> Result<StateLayout> {
        let (weights, optimizer) = (self.engine.weights(), self.engine.optimizer.as_ref());
        let names = optimizer.buffers().into_iter().map(|(name, _)| name);
        let of_buffer = |name: &'static str| {
            let spans = weights.spans(&format!("{name}/")).into_iter();
            spans.map(|span| (span.name, span.shape))
        };
        let mut tensors: Vec<_> = names.flat_map(of_buffer).collect();
        tensors.sort();
        let of = (optimizer.name(), optimizer.step_count());
        StateLayout::new(&self.progress, of, tensors)
    }

    /// Writes the values of this rank's part of the state at their places, and flushes them.
    fn write_part(&self, path: &Path, layout: &StateLayout) -> Result<()> {
        let (weights, optimizer) = (self.engine.weights(), self.engine.optimizer.as_ref());
        let cannot = || format!("{}: cannot be written", path.display());
        let mut file = OpenOptions::new()
            .write(true)
            .open(path)
            .with_context(cannot)?;
        let updated = weights.updated();
        for (name, buffer) in optimizer.buffers() {
            if buffer.is_empty() {
                continue;
            }
            let words = self.engine.ctx.download_u32(buffer)?;
            for span in weights.spans(&format!("{name}/")) {
                let n: usize = span.shape.iter().product();
                let start = span.offset.max(updated.start);
                let end = (span.offset + n).min(updated.end);
                let place = layout
                    .values
                    .binary_search_by(|(name, _)| name.cmp(&span.name));
                let (true, Ok(place)) = (start < end, place) else {
                    continue;
                };
                let words = &words[start - updated.start..end - updated.start];
                let bytes = little_endian(words);
                let at = layout.values[place].1.start + 4 * (start - span.offset) as u64;
                let written = file
                    .seek(SeekFrom::Start(at))
                    .and_then(|_| file.write_all(&bytes));
                written.with_context(cannot)?;
            }
        }
        file.sync_all().with_context(cannot)
    }
}

/// Creates the folder of a checkpoint and the state's file in it, whole but for the values.
fn begin(
    parent: &Path,
    step: u64,
    layout: &StateLayout,
) -> Result<hlx_core::files::TemporaryFolder> {
    let parent = std::path::absolute(parent)?;
    let folder = Checkpoint::begin(&parent, step)?;
    let path = folder.path().join(STATE_FILE);
    let write = || -> std::io::Result<()> {
        let mut file = File::create_new(&path)?;
        file.set_len(layout.len)?;
        for (at, bytes) in &layout.between {
            file.seek(SeekFrom::Start(*at))?;
            file.write_all(bytes)?;
        }
        file.sync_all()
    };
    write().with_context(|| format!("{}: cannot be written", path.display()))?;
    Ok(folder)
}
