//! Writing shards: token by token to temporary files, which are renamed when a shard is whole.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use hlx_core::bytes::to_hex;
use hlx_core::digest::sha256_hex;
use hlx_core::files::{TemporaryFile, is_temporary, sync_folder, write_atomically};
use sha2::{Digest, Sha256};

use super::index::{INDEX_FILE, Index, ShardEntry, shard_files};
use super::words::Width;
use super::{Document, check_document, check_vocabulary, pack};
use crate::{Result, TextError};

/// How tokens are cut into shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOptions {
    /// Every token must be below it; up to 65,536 a token takes two bytes, else four.
    pub vocabulary_size: usize,
    /// The digest of the tokenizer, for the index.
    pub tokenizer: Option<String>,
    /// A shard ends with the document that takes it to this many tokens.
    pub shard_tokens: u64,
}

impl ShardOptions {
    /// Shards of 100 million tokens.
    pub fn new(vocabulary_size: usize) -> Self {
        Self {
            vocabulary_size,
            tokenizer: None,
            shard_tokens: 100_000_000,
        }
    }
}

/// Writes documents to a folder of shards. Memory holds the starts and the mask of one shard, never
/// its tokens. The index is written last: a folder without one is not whole.
///
/// ```
/// use hlx_text::{Document, ShardOptions, ShardWriter, TokenShards};
///
/// let folder = std::env::temp_dir().join(format!("hlx-doc-shards-{}", std::process::id()));
/// let mut writer = ShardWriter::create(&folder, ShardOptions::new(256))?;
/// writer.add(&Document::new(vec![104, 105, 4]))?;
/// writer.finish()?;
/// let shards = TokenShards::open(&folder)?;
/// assert_eq!(shards.read(0..3)?, [104, 105, 4]);
/// # std::fs::remove_dir_all(folder).ok();
/// # Ok::<(), hlx_text::TextError>(())
/// ```
pub struct ShardWriter {
    folder: PathBuf,
    options: ShardOptions,
    width: Width,
    current: Option<OpenShard>,
    /// Whether a document has begun of which no token has come.
    starting: bool,
    done: Vec<ShardEntry>,
}

/// The shard that is being written.
struct OpenShard {
    temporary: TemporaryFile,
    out: BufWriter<File>,
    hasher: Sha256,
    n_tokens: u64,
    starts: Vec<u8>,
    n_trained: u64,
    /// Whether some token is not to be trained on; until then there are no flags.
    masked: bool,
    /// The flags, packed.
    mask: Vec<u8>,
    /// The flags that fill no byte yet.
    pending: Vec<bool>,
}

impl ShardWriter {
    /// Starts a folder, which is created if it is missing. Shards that a writer has left that did not end are
    /// written over.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a vocabulary of no token or of 2^32; [`TextError::File`] for a
    /// folder that holds an index already or files of others, or the system's message.
    pub fn create(folder: &Path, options: ShardOptions) -> Result<Self> {
        let index = folder.join(INDEX_FILE);
        if index.exists() {
            return Err(TextError::file(&index, "is there already"));
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut others = entries.filter(|entry| {
            let (path, name) = (entry.path(), entry.file_name());
            !is_temporary(&path) && !name.to_string_lossy().starts_with("shard-")
        });
        if others.next().is_some() {
            let reason = "holds other files than token shards; name an empty or a new folder";
            return Err(TextError::file(folder, reason));
        }
        Self::resume(folder, options, Vec::new())
    }

    /// Continues after shards that are whole.
    pub(crate) fn resume(
        folder: &Path,
        options: ShardOptions,
        done: Vec<ShardEntry>,
    ) -> Result<Self> {
        let width = check_vocabulary("shard_writer", options.vocabulary_size)?;
        fs::create_dir_all(folder).map_err(|error| TextError::file(folder, error))?;
        Ok(Self {
            folder: folder.to_owned(),
            options,
            width,
            current: None,
            starting: false,
            done,
        })
    }

    /// Appends a document; an empty one is left out.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a token that is out of range, or a mask of another length;
    /// [`TextError::File`] with the system's message.
    pub fn add(&mut self, document: &Document) -> Result<()> {
        self.push(document, true)?;
        self.close_if_full()?;
        Ok(())
    }

    /// Appends a part of a document: its `first`, or one that continues with the last part's.
    pub(crate) fn push(&mut self, part: &Document, first: bool) -> Result<()> {
        check_document("shard_writer", self.options.vocabulary_size, part)?;
        self.starting |= first;
        if part.tokens.is_empty() {
            return Ok(());
        }
        let path = shard_files(&self.folder, self.done.len())[0].clone();
        let shard = match &mut self.current {
            Some(shard) => shard,
            none => none.insert(OpenShard::create(&path)?),
        };
        if std::mem::take(&mut self.starting) {
            shard.starts.extend(shard.n_tokens.to_le_bytes());
        }
        let written = shard.append(part, self.width);
        written.map_err(|error| TextError::file(&path, error))
    }

    /// Ends the shard after a document if it has its size, and returns whether it did.
    pub(crate) fn close_if_full(&mut self) -> Result<bool> {
        let open = self.current.as_ref();
        let full = open.is_some_and(|shard| shard.n_tokens >= self.options.shard_tokens);
        if full {
            self.close()?;
        }
        Ok(full)
    }

    /// The shards that are whole.
    pub(crate) fn done(&self) -> &[ShardEntry] {
        &self.done
    }

    /// Tokens written, those of the open shard included.
    pub fn n_tokens(&self) -> u64 {
        let open = self.current.as_ref().map_or(0, |shard| shard.n_tokens);
        self.done.iter().map(|shard| shard.n_tokens).sum::<u64>() + open
    }

    /// Ends the last shard and writes the index.
    ///
    /// # Errors
    /// [`TextError::Argument`] if there was no token; [`TextError::File`] with the system's message.
    pub fn finish(mut self) -> Result<()> {
        self.close()?;
        if self.done.is_empty() {
            return Err(TextError::argument("shard_writer", "there are no tokens"));
        }
        let ShardOptions {
            vocabulary_size,
            tokenizer,
            ..
        } = self.options;
        let index = Index::new(self.width, vocabulary_size, tokenizer, self.done);
        write(&self.folder.join(INDEX_FILE), &index.to_bytes()?)
    }

    fn close(&mut self) -> Result<()> {
        let Some(shard) = self.current.take() else {
            return Ok(());
        };
        let files = shard_files(&self.folder, self.done.len());
        self.done.push(shard.close(&files)?);
        sync_folder(&self.folder).map_err(|error| TextError::file(&self.folder, error))
    }
}

impl OpenShard {
    fn create(path: &Path) -> Result<Self> {
        let failed = |error| TextError::file(path, error);
        let mut temporary = TemporaryFile::beside(path).map_err(failed)?;
        let file = temporary.file().try_clone().map_err(failed)?;
        Ok(Self {
            temporary,
            out: BufWriter::with_capacity(1 << 20, file),
            hasher: Sha256::new(),
            n_tokens: 0,
            starts: Vec::new(),
            n_trained: 0,
            masked: false,
            mask: Vec::new(),
            pending: Vec::new(),
        })
    }

    fn append(&mut self, part: &Document, width: Width) -> std::io::Result<()> {
        let mut bytes = Vec::with_capacity(part.tokens.len() * width.bytes());
        width.append(&part.tokens, &mut bytes);
        self.hasher.update(&bytes);
        self.out.write_all(&bytes)?;
        let n = part.tokens.len();
        match &part.trained {
            Some(trained) => self.add_flags(trained),
            None if self.masked => self.add_flags(&vec![true; n]),
            None => self.n_trained += n as u64,
        }
        self.n_tokens += n as u64;
        Ok(())
    }

    /// Adds flags, after those of the tokens that had none.
    fn add_flags(&mut self, flags: &[bool]) {
        if !self.masked {
            if !flags.contains(&false) {
                self.n_trained += flags.len() as u64;
                return;
            }
            self.masked = true;
            self.mask = vec![0xff; (self.n_tokens / 8) as usize];
            self.pending = vec![true; (self.n_tokens % 8) as usize];
        }
        self.n_trained += flags.iter().filter(|&&flag| flag).count() as u64;
        self.pending.extend_from_slice(flags);
        let whole = self.pending.len() / 8 * 8;
        self.mask.extend(pack(&self.pending[..whole]));
        self.pending.drain(..whole);
    }

    fn close(mut self, files: &[PathBuf; 3]) -> Result<ShardEntry> {
        let [tokens, starts, mask] = files;
        write(starts, &self.starts)?;
        let mask_sha256 = if self.masked {
            self.mask.extend(pack(&self.pending));
            write(mask, &self.mask)?;
            Some(sha256_hex(&self.mask))
        } else {
            None
        };
        let Self { temporary, out, .. } = self;
        // The second handle of the file is closed first: Windows renames no open file.
        let flushed = out.into_inner().map_err(|error| error.into_error());
        flushed
            .map(drop)
            .and_then(|()| temporary.publish(tokens))
            .map_err(|error| TextError::file(tokens, error))?;
        Ok(ShardEntry {
            n_tokens: self.n_tokens,
            n_documents: (self.starts.len() / 8) as u64,
            n_trained: self.n_trained,
            tokens_sha256: to_hex(&self.hasher.finalize()),
            starts_sha256: sha256_hex(&self.starts),
            mask_sha256,
        })
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, bytes).map_err(|error| TextError::file(path, error))
}
