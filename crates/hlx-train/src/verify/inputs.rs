//! What a verification computes from: the run's chain, its configuration and its corpus, each proved by its digest.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::config::Config;
use crate::run::{Chain, RunFolder, check_specification};
use crate::task::Corpus;

/// A run that was read and proved, for any number of verifications.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub(super) folder: RunFolder,
    pub(super) chain: Chain,
    pub(super) config: Config,
    pub(super) corpus: Corpus,
}

impl Inputs {
    /// Reads a run and its corpus: from `data_path`, or from where the run has read it.
    ///
    /// # Errors
    /// One line: no run, a damaged chain, another configuration, another corpus.
    pub fn open(run: &Path, data_path: Option<&Path>) -> Result<Self> {
        let (folder, chain) = read(run)?;
        Self::prove(folder, chain, data_path)
    }

    pub(super) fn prove(folder: RunFolder, chain: Chain, data_path: Option<&Path>) -> Result<Self> {
        let config = proved_config(&folder, &chain)?;
        let corpus = proved_corpus(&chain, &config, data_path)?;
        Ok(Self {
            folder,
            chain,
            config,
            corpus,
        })
    }

    /// The run's folder.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// The run's chain.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The run's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// Opens a run's folder and reads its chain.
pub(super) fn read(run: &Path) -> Result<(RunFolder, Chain)> {
    let folder = RunFolder::open(run)?;
    let chain = Chain::read(&folder.chain_path())?;
    Ok((folder, chain))
}

/// Reads the configuration, and proves that it is the run's.
///
/// # Errors
/// A chain of another specification; another arithmetic or configuration than the chain names.
pub fn proved_config(folder: &RunFolder, chain: &Chain) -> Result<Config> {
    let config = folder.config()?;
    let origin = chain.origin()?;
    check_specification(chain.path(), origin.specification)?;
    ensure!(
        origin.arithmetic == config.arithmetic.name(),
        "{}: the run is of arithmetic {}, config.toml says {}",
        chain.path().display(),
        origin.arithmetic,
        config.arithmetic
    );
    let found = origin.digest_of(&config)?;
    ensure!(
        origin.config == found,
        "{}: config.toml is not what the run was made with: its digest is {found}, the chain says \
         {}",
        folder.path().display(),
        origin.config
    );
    Ok(config)
}

/// Reads the corpus, and proves that it is the run's.
///
/// # Errors
/// A corpus that cannot be read, and another one.
pub fn proved_corpus(chain: &Chain, config: &Config, data_path: Option<&Path>) -> Result<Corpus> {
    let origin = chain.origin()?;
    let path = data_path.map_or_else(|| PathBuf::from(&config.data.path), Path::to_owned);
    let hint = || "the run's corpus is needed (--data says where it lies)";
    let corpus = Corpus::load(&path, config).with_context(hint)?;
    ensure!(
        origin.data == corpus.digest(),
        "{}: is not the run's corpus: its SHA-256 is {}, the chain says {}",
        path.display(),
        corpus.digest(),
        origin.data
    );
    // The digest of shards is that of their index, which has the files'.
    if let Corpus::Shards(data) = &corpus {
        data.shards.verify()?;
    }
    Ok(corpus)
}
