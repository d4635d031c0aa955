//! The data of a run, read as its configuration says.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use hlx_data::ImageSet;
use hlx_text::{Preparation, TokenShards, Tokenizer};

use crate::config::{Config, Format};
use crate::data::Dataset;

/// The data of a run.
#[derive(Clone, Debug)]
pub enum Corpus {
    /// Pairs or a text, byte by byte.
    Tokens(Dataset),
    /// Prepared tokens.
    Shards(Tokens),
    /// Images with their classes.
    Images(Images),
}

/// Tokens on disk, with the tokenizer that made them where it lies beside them.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// The tokens.
    pub shards: TokenShards,
    /// The tokenizer.
    pub tokenizer: Option<Tokenizer>,
    /// How texts were encoded, where it is known.
    pub preparation: Option<Preparation>,
    /// The digest of the tokens.
    pub digest: String,
}

/// Images with the digest of all of them.
#[derive(Clone, Debug)]
pub struct Images {
    /// The images.
    pub set: Arc<ImageSet>,
    /// SHA-256 over pixels and labels.
    pub digest: String,
}

impl From<ImageSet> for Images {
    fn from(set: ImageSet) -> Self {
        let digest = set.digest();
        let set = Arc::new(set);
        Self { set, digest }
    }
}

impl Corpus {
    /// Reads the data of a configuration from a file, or of images from a folder, or draws them.
    ///
    /// # Errors
    /// One line with the file and what is wrong in it.
    pub fn load(path: &Path, config: &Config) -> Result<Self> {
        let section = &config.data;
        Ok(match section.format {
            Format::Pairs | Format::Text => {
                let data = Dataset::load(path, section.format, config.positions())?;
                Self::Tokens(data)
            }
            Format::AsciiPairs => {
                let count = section.count.unwrap_or(0);
                Self::Tokens(Dataset::drawn_pairs(
                    count,
                    config.seed,
                    config.positions(),
                )?)
            }
            Format::Shards => Self::Shards(Tokens::open(path)?),
            Format::Idx => Self::Images(ImageSet::from_idx_folder(path, section.part())?.into()),
            Format::Cifar10 => {
                Self::Images(ImageSet::from_cifar10_folder(path, section.part())?.into())
            }
            Format::ColouredDigits => {
                let count = section.count.unwrap_or(0);
                Self::Images(ImageSet::drawn_coloured_digits(count, config.seed)?.into())
            }
            Format::Digits => {
                let count = section.count.unwrap_or(0);
                Self::Images(ImageSet::drawn_digits(count, config.seed)?.into())
            }
        })
    }

    /// SHA-256 of the data.
    pub fn digest(&self) -> &str {
        match self {
            Self::Tokens(data) => data.digest(),
            Self::Shards(data) => &data.digest,
            Self::Images(images) => &images.digest,
        }
    }
}
