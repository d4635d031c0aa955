//! How far a preparation is: what a killed one goes on from.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hlx_core::digest::sha256_hex;
use hlx_core::files::{remove_temporaries, write_atomically};
use serde::{Deserialize, Serialize};

use super::PrepareOptions;
use super::reader::Place;
use super::sources::Source;
use crate::shards::{INDEX_FILE, ShardEntry};
use crate::{Result, TextError, Tokenizer};

/// The file of the state, beside the shards until all are whole.
const STATE_FILE: &str = "progress.json";
/// The file that the process at work has locked.
const LOCK_FILE: &str = "lock";

/// The state in its folder, which is locked.
pub(super) struct State {
    folder: PathBuf,
    saved: Saved,
    lock: File,
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    /// SHA-256 over the files, the options and the tokenizer.
    work: String,
    place: Place,
    shards: Vec<ShardEntry>,
}

impl State {
    /// Locks the folder, which is created if it is missing, and reads how far the work is.
    pub fn open(
        options: &PrepareOptions,
        tokenizer: &Tokenizer,
        sources: &[Source],
    ) -> Result<Self> {
        let folder = options.out.clone();
        let wrong = |reason: &str| Err(TextError::file(&folder, reason));
        let failed = |error: std::io::Error| TextError::file(&folder, error);
        if folder.join(INDEX_FILE).exists() {
            remove_leftovers(&folder).map_err(failed)?;
            return wrong("holds token shards already");
        }
        fs::create_dir_all(&folder).map_err(failed)?;
        let lock = File::create(folder.join(LOCK_FILE)).map_err(failed)?;
        if lock.try_lock().is_err() {
            return wrong("is being written by another process");
        }
        // Nobody else writes here: what is temporary was left by a kill.
        remove_temporaries(&folder, Duration::ZERO).map_err(failed)?;
        let work = identity(options, tokenizer, sources)?;
        let saved = match fs::read(folder.join(STATE_FILE)) {
            Ok(bytes) => {
                let saved: Saved = serde_json::from_slice(&bytes)
                    .map_err(|error| TextError::file(&folder.join(STATE_FILE), error))?;
                if saved.work != work {
                    return wrong(
                        "was begun with other files, options or tokenizer; remove it to begin anew",
                    );
                }
                saved
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Saved {
                work,
                place: Place::default(),
                shards: Vec::new(),
            },
            Err(error) => return Err(failed(error)),
        };
        let state = Self {
            folder,
            saved,
            lock,
        };
        state.write()?;
        Ok(state)
    }

    /// Where the work goes on.
    pub fn place(&self) -> Place {
        self.saved.place
    }

    /// The shards that are whole.
    pub fn shards(&self) -> &[ShardEntry] {
        &self.saved.shards
    }

    /// Notes that all shards up to a place are whole.
    pub fn save(&mut self, place: Place, shards: &[ShardEntry]) -> Result<()> {
        self.saved.place = place;
        self.saved.shards = shards.to_vec();
        self.write()
    }

    fn write(&self) -> Result<()> {
        let path = self.folder.join(STATE_FILE);
        let written = serde_json::to_vec_pretty(&self.saved);
        let bytes = written.map_err(|error| TextError::file(&path, error))?;
        write_atomically(&path, &bytes).map_err(|error| TextError::file(&path, error))
    }

    /// Removes the state: the index is written.
    pub fn finish(self) -> Result<()> {
        let Self { folder, lock, .. } = self;
        drop(lock);
        for name in [STATE_FILE, LOCK_FILE] {
            let path = folder.join(name);
            fs::remove_file(&path).map_err(|error| TextError::file(&path, error))?;
        }
        Ok(())
    }
}

/// Removes what a kill between the index and [`State::finish`] left.
fn remove_leftovers(folder: &Path) -> std::io::Result<()> {
    let Ok(lock) = File::open(folder.join(LOCK_FILE)) else {
        return Ok(());
    };
    if lock.try_lock().is_err() {
        return Ok(());
    }
    for name in [STATE_FILE, LOCK_FILE] {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A digest of everything that decides the shards' bytes; the number of threads is none of it.
fn identity(options: &PrepareOptions, tokenizer: &Tokenizer, sources: &[Source]) -> Result<String> {
    let deciding = (
        sources,
        tokenizer.digest(),
        (&options.separator, &options.pair_separator),
        options
            .template
            .as_deref()
            .or_else(|| tokenizer.chat_template()),
        (options.begin, options.end, options.shard_tokens),
    );
    let bytes = serde_json::to_vec(&deciding);
    let bytes = bytes.map_err(|error| TextError::argument("data_prepare", error))?;
    Ok(sha256_hex(&bytes))
}
