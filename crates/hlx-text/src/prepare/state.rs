//! How far a preparation is: what a killed one continues from, and which folders it may take for its own.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hlx_core::digest::sha256_hex;
use hlx_core::files::{
    self, folder_behind_links, is_temporary, remove_temporaries, write_atomically,
};
use serde::{Deserialize, Serialize};

use super::PrepareOptions;
use super::encode::Encoder;
use super::reader::Place;
use super::seen::Seen;
use super::sources::Source;
use crate::shards::{INDEX_FILE, Index, STATE_FILE, ShardEntry};
use crate::{Result, TextError};

/// The file that the process at work has locked; it is empty.
const LOCK_FILE: &str = "lock";

/// The state in its folder, which is locked.
pub(super) struct State {
    folder: PathBuf,
    saved: Saved,
    lock: File,
    is_indexed: bool,
    /// Whether this call has begun the work.
    is_new: bool,
    /// Whether it has made the folder.
    made_folder: bool,
}

/// What the file holds. It is the mark of a folder that a preparation has begun.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    /// SHA-256 over the files, the options and the tokenizer.
    work: String,
    place: Place,
    shards: Vec<ShardEntry>,
    /// What the shards were made of.
    #[serde(default)]
    seen: Seen,
}

/// What a folder holds that may be a preparation's.
enum Found {
    /// No folder, or nothing in it but what is left by a kill before the first file.
    Nothing,
    /// A preparation that has not ended.
    Begun(Saved),
    /// All shards and their index; the state too, where a kill left it.
    Indexed(Option<Saved>),
}

impl State {
    /// Locks the folder, which is created if it is missing, and reads how far the work is. A folder that holds
    /// anything else is not touched.
    pub fn open(
        encoder: &Encoder<'_>,
        options: &PrepareOptions,
        sources: &[Source],
    ) -> Result<Self> {
        let failed = |error: std::io::Error| TextError::file(&options.out, error);
        let wrong = |reason: &str| Err(TextError::file(&options.out, reason));
        let folder = folder_behind_links(&options.out).map_err(failed)?;
        let work = identity(encoder, options, sources)?;
        if let Found::Indexed(saved) = Found::look(&folder, &options.out)?
            && saved.is_none_or(|saved| saved.work != work)
        {
            remove_leftovers(&folder).map_err(failed)?;
            return wrong("holds token shards already");
        }
        let made_folder = !folder.exists();
        fs::create_dir_all(&folder).map_err(failed)?;
        let mut lock = OpenOptions::new();
        let lock = lock.write(true).create(true).truncate(false);
        let lock = lock.open(folder.join(LOCK_FILE)).map_err(failed)?;
        if lock.try_lock().is_err() {
            return wrong("is being written by another process");
        }
        // Another process may have ended its work before the lock was taken.
        let (saved, is_indexed) = match Found::look(&folder, &options.out)? {
            Found::Nothing => (None, false),
            Found::Begun(saved) => (Some(saved), false),
            Found::Indexed(saved) => (saved, true),
        };
        // Nobody else writes here: what is temporary was left by a kill.
        remove_temporaries(&folder, Duration::ZERO).map_err(failed)?;
        let is_new = saved.is_none();
        let saved = match saved {
            Some(saved) if saved.work != work => {
                return wrong(
                    "was begun with other files, options or tokenizer; remove it to begin anew",
                );
            }
            Some(saved) => saved,
            None if is_indexed => return wrong("holds token shards already"),
            None => Saved {
                work,
                place: Place::default(),
                shards: Vec::new(),
                seen: Seen::default(),
            },
        };
        let state = Self {
            folder,
            saved,
            lock,
            is_indexed,
            is_new,
            made_folder,
        };
        state.write()?;
        Ok(state)
    }

    /// Whether a kill came after the index: all shards are whole.
    pub fn is_indexed(&self) -> bool {
        self.is_indexed
    }

    /// Where the work continues.
    pub fn place(&self) -> Place {
        self.saved.place
    }

    /// The shards that are whole.
    pub fn shards(&self) -> &[ShardEntry] {
        &self.saved.shards
    }

    /// What the shards that are whole were made of.
    pub fn seen(&self) -> &Seen {
        &self.saved.seen
    }

    /// Notes that all shards up to a place are whole, and what they were made of.
    pub fn save(&mut self, place: Place, shards: &[ShardEntry], seen: &Seen) -> Result<()> {
        self.saved.seen = seen.clone();
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

    /// After an error: removes what this call has made, the files of these names among it, unless there is a whole shard
    /// that the same command continues after.
    pub fn abandon(self, names: &[&str]) -> std::io::Result<()> {
        if !self.is_new || !self.saved.shards.is_empty() {
            return Ok(());
        }
        for name in names {
            match fs::remove_file(self.folder.join(name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        drop(self.lock);
        remove_state(&self.folder)?;
        match self.made_folder {
            true => fs::remove_dir(&self.folder),
            false => Ok(()),
        }
    }

    /// Removes the state: the index is written.
    pub fn finish(self) -> Result<()> {
        let Self { folder, lock, .. } = self;
        drop(lock);
        remove_state(&folder).map_err(|error| TextError::file(&folder, error))
    }
}

impl Found {
    /// Looks at a folder and changes nothing; `named` is what the user calls it.
    fn look(folder: &Path, named: &Path) -> Result<Self> {
        let read = |name: &str| match files::read_settings(&folder.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read
                .map(Some)
                .map_err(|error| TextError::file(&named.join(name), error)),
        };
        let foreign = |path: &Path, reason: &str| {
            let reason = format!("{reason}; name an empty or a new folder");
            Err(TextError::file(path, reason))
        };
        let state = read(STATE_FILE)?;
        let saved = state.map(|bytes| serde_json::from_slice::<Saved>(&bytes));
        if let Some(bytes) = read(INDEX_FILE)? {
            let path = named.join(INDEX_FILE);
            return match Index::parse(&bytes, &path) {
                Ok(_) => Ok(Self::Indexed(saved.and_then(std::result::Result::ok))),
                Err(error) => foreign(named, &format!("is no folder of token shards: {error}")),
            };
        }
        match saved {
            Some(Ok(saved)) => Ok(Self::Begun(saved)),
            Some(Err(error)) => {
                let reason = format!("is not of a preparation: {error}");
                foreign(&named.join(STATE_FILE), &reason)
            }
            None if is_unstarted(folder).map_err(|error| TextError::file(named, error))? => {
                Ok(Self::Nothing)
            }
            None => foreign(named, "holds files that `hlx data prepare` has not made"),
        }
    }
}

/// Whether a folder is missing, or holds nothing but what a kill leaves before the first file: temporary files
/// and a lock, which is empty.
fn is_unstarted(folder: &Path) -> std::io::Result<bool> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let is_lock = path.ends_with(LOCK_FILE) && is_empty_file(&path);
        if !is_lock && !is_temporary(&path) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_empty_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0)
}

/// Removes what a kill between the index and [`State::finish`] left.
fn remove_leftovers(folder: &Path) -> std::io::Result<()> {
    let Ok(lock) = File::open(folder.join(LOCK_FILE)) else {
        return Ok(());
    };
    match lock.try_lock() {
        Ok(()) => remove_state(folder),
        Err(_) => Ok(()),
    }
}

/// Removes the state and the lock of a folder with an index. A file of these names that no preparation has
/// written stays.
fn remove_state(folder: &Path) -> std::io::Result<()> {
    let state = folder.join(STATE_FILE);
    let is_state = files::read_settings(&state)
        .is_ok_and(|bytes| bytes.is_empty() || serde_json::from_slice::<Saved>(&bytes).is_ok());
    if is_state {
        fs::remove_file(state)?;
    }
    let lock = folder.join(LOCK_FILE);
    match is_empty_file(&lock) {
        true => fs::remove_file(lock),
        false => Ok(()),
    }
}

/// A digest of everything that decides the shards' bytes; the number of threads is none of it.
fn identity(encoder: &Encoder<'_>, options: &PrepareOptions, sources: &[Source]) -> Result<String> {
    let tokenizer = encoder.tokenizer;
    let beside = || {
        let templates = tokenizer.chat_templates();
        let tools = templates.and_then(|templates| templates.tools_source());
        // One template alone, as earlier versions have it.
        match (tokenizer.chat_template(), tools) {
            (default, None) => default.map(str::to_owned),
            (default, tools) => Some(format!("{default:?} {tools:?}")),
        }
    };
    let template = options.template.clone().or_else(beside);
    let template = match &options.date {
        Some(date) => Some(format!("{date} {template:?}")),
        None => template,
    };
    let deciding = (
        sources,
        tokenizer.digest(),
        (&options.separator, &encoder.pair_separator),
        template,
        (&encoder.begin, &encoder.end, options.shard_tokens),
    );
    let bytes = serde_json::to_vec(&deciding);
    let bytes = bytes.map_err(|error| TextError::argument("data_prepare", error))?;
    Ok(sha256_hex(&bytes))
}
