//! The data of a run of several ranks: a file that all of them see is read by rank 0 alone.
//!
//! A rank sees rank 0's file if its own has the same length, inode and times, which are the server's on a
//! shared file system. Of a corpus in memory it gets rank 0's bytes, of one on disk the digest, and then
//! reads its own samples alone. A rank with a file of its own reads it, and
//! [`check_identity`](crate::ranks::check_identity) compares the digests.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::files::{self, Source};
use hlx_data::ImageSet;

use super::{Corpus, Tokens};
use crate::config::{Config, Format};
use crate::data::Dataset;
use crate::ranks::{Group, agreed, agreed_on};

/// Bytes that travel at a time.
const PIECE: usize = 16 << 20;

impl Corpus {
    /// As [`Corpus::load`], of all ranks of a run, which call it together.
    ///
    /// # Errors
    /// As [`Corpus::load`], the same on all ranks; a rank that is lost.
    pub fn load_together(group: &Group, path: &Path, config: &Config) -> Result<Self> {
        let marks = agreed(group, Ok(mark(path, config).into_bytes()))?;
        let takes = |rank: usize| rank > 0 && !marks[0].is_empty() && marks[rank] == marks[0];
        if !(1..group.n_ranks()).any(takes) {
            return agreed_on(group, Self::load(path, config));
        }
        let is_taker = takes(group.rank());
        let read = match is_taker {
            true => Ok(None),
            false => read(path, config).map(Some),
        };
        let read = agreed_on(group, read)?;
        let given = read.as_ref().map_or(&[][..], |(_, given)| given);
        let given = send(group, given, is_taker)?;
        let corpus = match read {
            Some((corpus, _)) => Ok(corpus),
            None => take(path, config, given),
        };
        agreed_on(group, corpus)
    }
}

/// What tells a file from others, wherever it is seen; empty of what is not shared.
#[cfg(unix)]
fn mark(path: &Path, config: &Config) -> String {
    use std::os::unix::fs::MetadataExt;

    let part = config.data.part();
    let images = ["images-idx3-ubyte", "labels-idx1-ubyte"].into_iter();
    let images = images.flat_map(|kind| ["", ".gz"].map(|end| format!("{part}-{kind}{end}")));
    let files = match config.data.format {
        Format::Pairs | Format::Text | Format::Shards => vec![path.to_owned()],
        Format::Idx => images.map(|name| path.join(name)).collect(),
        // Each rank reads its batches' files for itself.
        Format::Cifar10 => Vec::new(),
        Format::AsciiPairs | Format::Digits | Format::ColouredDigits => Vec::new(),
    };
    let found = files.iter().filter_map(|file| file.metadata().ok());
    let found = found.filter(|found| found.is_file() && found.len() > 0);
    let of = |found: std::fs::Metadata| {
        let times = [
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec(),
        ];
        format!("{} {} {times:?};", found.len(), found.ino())
    };
    found.map(of).collect()
}

#[cfg(not(unix))]
fn mark(_: &Path, _: &Config) -> String {
    String::new()
}

/// Reads the data, and returns besides what the ranks need that take them.
fn read(path: &Path, config: &Config) -> Result<(Corpus, Vec<Source>)> {
    if config.data.format == Format::Pairs {
        let name = path.display().to_string();
        let file = files::read(path).with_context(|| name.clone())?;
        let file = Source::from(file);
        let data = Dataset::of_file(file.clone(), &name, Format::Pairs, config.positions())?;
        return Ok((Corpus::Tokens(data), vec![file]));
    }
    let corpus = Corpus::load(path, config)?;
    let given = match &corpus {
        Corpus::Images(images) => {
            let set = &images.set;
            let sizes = serde_json::to_vec(&(set.shape(), set.n_classes()))?;
            let labels = set.labels().iter().flat_map(|label| label.to_le_bytes());
            vec![sizes, set.all_pixels().to_vec(), labels.collect()]
        }
        Corpus::Tokens(_) | Corpus::Shards(_) => vec![corpus.digest().as_bytes().to_vec()],
    };
    Ok((corpus, given.into_iter().map(Source::from).collect()))
}

/// Makes the data of what rank 0 has read.
fn take(path: &Path, config: &Config, given: Vec<Vec<u8>>) -> Result<Corpus> {
    let (name, positions) = (path.display().to_string(), config.positions());
    let n_given = given.len();
    let mut given = given.into_iter();
    let mut next = || given.next().unwrap_or_default();
    let first = next();
    Ok(match config.data.format {
        Format::Idx => {
            ensure!(
                n_given == 3,
                "{name}: rank 0 gave {n_given} parts, expected 3"
            );
            let (shape, n_classes) = serde_json::from_slice(&first)?;
            let (pixels, labels) = (next(), next());
            let labels = labels.as_chunks::<4>().0.iter();
            let labels = labels.map(|&label| u32::from_le_bytes(label)).collect();
            Corpus::Images(ImageSet::new(shape, n_classes, pixels, labels)?.into())
        }
        Format::Text => {
            let digest = String::from_utf8(first)?;
            Corpus::Tokens(Dataset::of_checked_text(path, positions, digest)?)
        }
        Format::Shards => Corpus::Shards(Tokens::open_with(path, Some(String::from_utf8(first)?))?),
        format => Corpus::Tokens(Dataset::of_file(first.into(), &name, format, positions)?),
    })
}

/// Brings rank 0's parts to all ranks, piece by piece; those that do not take them store nothing.
fn send(group: &Group, parts: &[Source], is_taker: bool) -> Result<Vec<Vec<u8>>> {
    let parts: Vec<&[u8]> = parts.iter().filter_map(Source::memory).collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let lengths = group.from_first(&serde_json::to_vec(&lengths)?)?;
    let lengths: Vec<usize> = serde_json::from_slice(&lengths)?;
    let mut taken = Vec::with_capacity(lengths.len());
    for (number, length) in lengths.into_iter().enumerate() {
        let mut part = Vec::new();
        for start in (0..length).step_by(PIECE) {
            let piece = start..(start + PIECE).min(length);
            let mine = match group.is_first() {
                true => parts[number].get(piece).unwrap_or_default(),
                false => &[],
            };
            let piece = group.from_first(mine)?;
            if is_taker {
                part.extend_from_slice(&piece);
            }
        }
        taken.push(part);
    }
    Ok(taken)
}
