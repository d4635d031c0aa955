//! Tokens on disk: shards with an index, or one file of nanoGPT or llm.c.
//!
//! A folder of shards holds `index.json` and for each shard `shard-NNNNN.bin` (tokens as
//! little-endian u16 or u32), `.starts` (u64 a document: its first token in the shard) and, where
//! some tokens are not to be trained on, `.mask` (a bit per token, lowest first).

mod foreign;
mod index;
mod shard;
mod words;
mod writer;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use hlx_core::bytes::to_hex;
use hlx_core::digest::sha256_hex;
use hlx_core::files::{self, Source};
use sha2::{Digest, Sha256};

pub use writer::{ShardOptions, ShardWriter};

use crate::{Result, TextError};
pub(crate) use index::{INDEX_FILE, Index, STATE_FILE, ShardEntry};
use shard::Shard;
use words::Width;

/// Tokens with the starts of their documents, which clones share. They stay on disk and are read by their places, so
/// that there may be more of them than memory has. A file that is cut short while it is in use is an error.
#[derive(Clone, Debug)]
pub struct TokenShards {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shards: Vec<Shard>,
    /// The first token of each shard, and the number of tokens.
    first_tokens: Vec<u64>,
    /// The first document of each shard, and the number of documents.
    first_documents: Vec<u64>,
    vocabulary_size: usize,
    tokenizer: Option<String>,
    digest: OnceLock<String>,
}

/// Some tokens that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// Whether each token is trained on, that is, predicted; `None`: all are.
    pub trained: Option<Vec<bool>>,
}

impl Document {
    /// Makes a document whose tokens are all trained on.
    pub fn new(tokens: Vec<u32>) -> Self {
        Self {
            tokens,
            trained: None,
        }
    }
}

/// What is trained on and what is held out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSplit {
    /// The part to train on.
    pub train: TokenRange,
    /// The part held out: the end.
    pub eval: TokenRange,
}

/// A part of the tokens, as tokens and as documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRange {
    /// Its tokens.
    pub tokens: Range<u64>,
    /// Its documents; none where the cut is within the only document.
    pub documents: Range<u64>,
}

impl TokenShards {
    /// Opens a folder of shards, a `.bin` of nanoGPT (plain u16), or one of llm.c (with its header).
    /// The files' sizes are compared with what the index or the header states; digests are compared
    /// by [`TokenShards::verify`]. A file of nanoGPT or llm.c is one document.
    ///
    /// # Errors
    /// [`TextError::File`]: a file that is missing, cut short, too long, empty or of another format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if !path.is_dir() {
            let shard = Shard::open_foreign(path)?;
            let vocabulary_size = shard.vocabulary_size();
            return Self::new(vec![shard], vocabulary_size, None, None);
        }
        let index_path = path.join(INDEX_FILE);
        let bytes = files::read_settings(&index_path).map_err(|error| {
            if path.join(STATE_FILE).is_file() {
                let reason = "is not whole: the same `hlx data prepare` goes on with it";
                return TextError::file(path, reason);
            }
            let reason = format!("{error}; a folder of token shards has an index");
            TextError::file(&index_path, reason)
        })?;
        let index = Index::parse(&bytes, &index_path)?;
        let shards = (0..index.shards.len()).map(|number| Shard::open(path, number, &index));
        Self::new(
            shards.collect::<Result<_>>()?,
            index.vocabulary_size,
            index.tokenizer,
            Some(sha256_hex(&bytes)),
        )
    }

    /// The same tokens, whose digest another process has computed of the same file; one that is known
    /// already, such as an index's, stays.
    #[must_use]
    pub fn with_digest(self, digest: String) -> Self {
        self.inner.digest.get_or_init(|| digest);
        self
    }

    /// Reads the bytes of a file of nanoGPT or llm.c; `name` stands for it in messages.
    ///
    /// # Errors
    /// As [`TokenShards::open`].
    pub fn from_bytes(bytes: Vec<u8>, name: &str) -> Result<Self> {
        let shard = Shard::of_foreign(Source::from(bytes), Path::new(name))?;
        let vocabulary_size = shard.vocabulary_size();
        Self::new(vec![shard], vocabulary_size, None, None)
    }

    /// Takes documents in memory. Empty ones are left out.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a token that is not below `vocabulary_size`, or a mask of another
    /// length than its document's.
    pub fn from_documents(vocabulary_size: usize, documents: &[Document]) -> Result<Self> {
        let width = check_vocabulary("token_shards", vocabulary_size)?;
        let (mut words, mut starts, mut flags) = (Vec::new(), Vec::new(), Vec::new());
        for document in documents {
            check_document("token_shards", vocabulary_size, document)?;
            if document.tokens.is_empty() {
                continue;
            }
            starts.extend((flags.len() as u64).to_le_bytes());
            width.append(&document.tokens, &mut words);
            match &document.trained {
                Some(trained) => flags.extend_from_slice(trained),
                None => flags.resize(flags.len() + document.tokens.len(), true),
            }
        }
        let mask = flags.contains(&false).then(|| pack(&flags));
        let shard = Shard::in_memory(vocabulary_size, words, starts, mask);
        Self::new(vec![shard], vocabulary_size, None, None)
    }

    fn new(
        shards: Vec<Shard>,
        vocabulary_size: usize,
        tokenizer: Option<String>,
        digest: Option<String>,
    ) -> Result<Self> {
        let sums = |of: fn(&Shard) -> u64| {
            let mut total = 0;
            let mut firsts = vec![0];
            firsts.extend(shards.iter().map(|shard| {
                total += of(shard);
                total
            }));
            firsts
        };
        let (first_tokens, first_documents) = (sums(Shard::len), sums(Shard::n_documents));
        let known = OnceLock::new();
        if let Some(digest) = digest {
            known.get_or_init(|| digest);
        }
        Ok(Self {
            inner: Arc::new(Inner {
                shards,
                first_tokens,
                first_documents,
                vocabulary_size,
                tokenizer,
                digest: known,
            }),
        })
    }

    /// The number of tokens.
    pub fn len(&self) -> u64 {
        self.inner.first_tokens.last().copied().unwrap_or(0)
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of documents.
    pub fn n_documents(&self) -> u64 {
        self.inner.first_documents.last().copied().unwrap_or(0)
    }

    /// Every token is below it. Of nanoGPT's and llm.c's files it is what their words hold.
    pub fn vocabulary_size(&self) -> usize {
        self.inner.vocabulary_size
    }

    /// Whether some token may not be trained on.
    pub fn has_masks(&self) -> bool {
        self.inner.shards.iter().any(Shard::has_mask)
    }

    /// Whether this is a file of llm.c, where the end of a text stands in front of the next one.
    pub(crate) fn is_of_llm_c(&self) -> bool {
        self.inner.shards.iter().any(Shard::is_of_llm_c)
    }

    /// The digest of the tokenizer that made the tokens, where the index states one.
    pub fn tokenizer_digest(&self) -> Option<&str> {
        self.inner.tokenizer.as_deref()
    }

    /// The identity of the tokens, as 64 hexadecimal digits: of a folder the SHA-256 of its index,
    /// which holds the digest of each file; of other files one over their bytes, computed once.
    ///
    /// # Errors
    /// [`TextError::File`] for a file that was cut short.
    pub fn digest(&self) -> Result<&str> {
        if let Some(digest) = self.inner.digest.get() {
            return Ok(digest);
        }
        let mut hasher = Sha256::new();
        for shard in &self.inner.shards {
            for part in shard.parts() {
                hasher.update(part.map_or(0, Source::len).to_le_bytes());
                let Some(part) = part else { continue };
                let read = part.each_piece(|piece| hasher.update(piece));
                read.map_err(|error| TextError::file(shard.path(), error))?;
            }
        }
        let digest = to_hex(&hasher.finalize());
        Ok(self.inner.digest.get_or_init(|| digest))
    }

    /// Hashes every file of a folder of shards and compares it with the index.
    ///
    /// # Errors
    /// [`TextError::File`] for the first file that differs.
    pub fn verify(&self) -> Result<()> {
        self.inner.shards.iter().try_for_each(Shard::verify)
    }

    /// Reads the tokens of a range, which may reach over several shards.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a range after the end; [`TextError::File`] for a token that the
    /// vocabulary does not have, and a file that was cut short.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u32>> {
        self.check("read", &range)?;
        let mut tokens = Vec::with_capacity((range.end - range.start) as usize);
        self.by_shard(range, |shard, part| shard.read(part, &mut tokens))?;
        Ok(tokens)
    }

    /// Checks that every token is below the vocabulary of a model, which takes a pass over the tokens up to
    /// the first that is not.
    ///
    /// # Errors
    /// [`TextError::File`] with the shard's file, the token, and its place in the file.
    pub fn check_below(&self, vocabulary: usize) -> Result<()> {
        let mut shards = self.inner.shards.iter();
        shards.try_for_each(|shard| shard.check_below(vocabulary))
    }

    /// Reads whether the tokens of a range are trained on.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a range after the end; [`TextError::File`] for a file that was cut short.
    pub fn trained(&self, range: Range<u64>) -> Result<Vec<bool>> {
        self.check("trained", &range)?;
        let mut flags = Vec::with_capacity((range.end - range.start) as usize);
        self.by_shard(range, |shard, part| shard.trained(part, &mut flags))?;
        Ok(flags)
    }

    /// The tokens of document `number`.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a document that is not there; [`TextError::File`] for starts that
    /// do not rise.
    pub fn document(&self, number: u64) -> Result<Range<u64>> {
        let n = self.n_documents();
        if number >= n {
            let reason = format!("document {number} is out of range: there are {n}");
            return Err(TextError::argument("document", reason));
        }
        let at = place(&self.inner.first_documents, number);
        let (shard, base) = (&self.inner.shards[at], self.inner.first_tokens[at]);
        let range = shard.document(number - self.inner.first_documents[at])?;
        Ok(base + range.start..base + range.end)
    }

    /// The number of the document that holds a token.
    ///
    /// # Errors
    /// [`TextError::Argument`] for a token after the end.
    pub fn document_at(&self, token: u64) -> Result<u64> {
        self.check("document_at", &(token..token.saturating_add(1)))?;
        let at = place(&self.inner.first_tokens, token);
        let within = self.inner.shards[at].document_at(token - self.inner.first_tokens[at])?;
        Ok(self.inner.first_documents[at] + within)
    }

    /// Holds out the end: `fraction` of the tokens, rounded to whole documents, one document at least
    /// if the fraction is above 0, and never all. Where there is one document, the cut is within it.
    ///
    /// # Errors
    /// [`TextError::File`] for starts that do not rise.
    pub fn split(&self, fraction: f64) -> Result<TokenSplit> {
        let (n, n_documents) = (self.len(), self.n_documents());
        let held_out = ((n as f64 * fraction.clamp(0.0, 1.0)) as u64).min(n);
        let wanted = held_out.max(u64::from(fraction > 0.0));
        let (token, document) = match (wanted, n_documents) {
            (0, _) => (n, n_documents),
            (_, 0 | 1) => (n - wanted.min(n), n_documents),
            _ => {
                // The document that holds the cut is trained on, except for the last document.
                let cut = self.document_at(n - wanted)? + 1;
                let cut = cut.min(n_documents - 1);
                (self.document(cut)?.start, cut)
            }
        };
        let part = |tokens, documents| TokenRange { tokens, documents };
        Ok(TokenSplit {
            train: part(0..token, 0..document),
            eval: part(token..n, document..n_documents),
        })
    }

    fn check(&self, op: &'static str, range: &Range<u64>) -> Result<()> {
        let n = self.len();
        if range.start <= range.end && range.end <= n {
            return Ok(());
        }
        let (start, end) = (range.start, range.end);
        let reason = format!("the tokens {start} to {end} are out of range: there are {n}");
        Err(TextError::argument(op, reason))
    }

    /// Calls `body` with each shard that a range touches, and the part of the range within it.
    fn by_shard(
        &self,
        range: Range<u64>,
        mut body: impl FnMut(&Shard, Range<u64>) -> Result<()>,
    ) -> Result<()> {
        let mut token = range.start;
        while token < range.end {
            let at = place(&self.inner.first_tokens, token);
            let (base, next) = (self.inner.first_tokens[at], self.inner.first_tokens[at + 1]);
            let end = range.end.min(next);
            body(&self.inner.shards[at], token - base..end - base)?;
            token = end;
        }
        Ok(())
    }
}

/// The part that holds `number`, where part i begins at `firsts[i]`; empty parts hold none.
fn place(firsts: &[u64], number: u64) -> usize {
    firsts.partition_point(|&first| first <= number) - 1
}

/// Packs flags, the first one lowest.
fn pack(flags: &[bool]) -> Vec<u8> {
    let byte = |part: &[bool]| {
        let bits = part.iter().enumerate();
        bits.fold(0, |byte, (at, &flag)| byte | u8::from(flag) << at)
    };
    flags.chunks(8).map(byte).collect()
}

fn check_vocabulary(op: &'static str, size: usize) -> Result<Width> {
    match size {
        0 => Err(TextError::argument(op, "the vocabulary has no token")),
        _ if size as u64 > Width::U32.limit() => {
            let reason = format!("the vocabulary has {size} tokens, expected below 2^32");
            Err(TextError::argument(op, reason))
        }
        _ => Ok(Width::of(size)),
    }
}

fn check_document(op: &'static str, vocabulary_size: usize, document: &Document) -> Result<()> {
    let Document { tokens, trained } = document;
    let wrong = |reason: String| Err(TextError::argument(op, reason));
    if let Some(id) = tokens.iter().find(|&&id| id as usize >= vocabulary_size) {
        return wrong(format!(
            "the token {id} is out of range: the vocabulary has {vocabulary_size}"
        ));
    }
    match trained {
        Some(trained) if trained.len() != tokens.len() => wrong(format!(
            "the mask has {} flags, expected {}",
            trained.len(),
            tokens.len()
        )),
        _ => Ok(()),
    }
}
