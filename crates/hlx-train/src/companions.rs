//! What goes with a model's weights: its configuration, tokenizer, chat template, and settings of generation. A folder has
//! them in files, a GGUF file in its metadata.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hlx_core::files::{self, place};
use hlx_gguf::{Gguf, GgufModel};
use hlx_nn::CONFIG_FILE;
use hlx_text::{Preparation, TOKENIZER_FILE, Tokenizer, TokenizerFiles};
use serde_json::Value;

/// A file of a folder: its name and its bytes.
pub type NamedFile = (&'static str, Vec<u8>);

/// Where what goes with a model is read.
#[derive(Clone, Debug)]
pub enum Companions {
    /// Files of a folder.
    Folder(PathBuf),
    /// Files as a Hugging Face folder would have them, made of the metadata of a GGUF file.
    Metadata {
        /// The GGUF file.
        path: PathBuf,
        /// Their names and bytes.
        files: Vec<NamedFile>,
    },
}

impl Companions {
    /// Those of a path: a folder, or a GGUF file.
    ///
    /// # Errors
    /// A GGUF file that is damaged, or has a model or a tokenizer that is not known.
    pub fn of(path: &Path) -> Result<Self> {
        if !Gguf::is_gguf(path) {
            return Ok(Self::Folder(path.to_owned()));
        }
        let model = GgufModel::new(Gguf::open(path)?)?;
        let mut files = model.file().tokenizer_files()?;
        files.push((CONFIG_FILE, model.config_json()));
        let path = path.to_owned();
        Ok(Self::Metadata { path, files })
    }

    /// The folder or the file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::Metadata { path, .. } => path,
        }
    }

    /// What messages call a file.
    pub fn named(&self, name: &str) -> String {
        match self {
            Self::Folder(path) => path.join(name).display().to_string(),
            Self::Metadata { path, .. } => format!("{}: {name}", path.display()),
        }
    }

    fn made(&self, name: &str) -> Option<&[u8]> {
        match self {
            Self::Folder(_) => None,
            Self::Metadata { files, .. } => {
                let found = files.iter().find(|(one, _)| *one == name);
                found.map(|(_, bytes)| &bytes[..])
            }
        }
    }

    /// Whether there is a file of this name.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Folder(folder) => place(folder, name).is_file(),
            Self::Metadata { .. } => self.made(name).is_some(),
        }
    }

    /// The object of a JSON file; `None` without the file.
    ///
    /// # Errors
    /// A file that cannot be read, or is no JSON object.
    pub fn object(&self, name: &str) -> Result<Option<Value>> {
        let (file, bytes) = match self {
            Self::Folder(folder) => {
                let path = place(folder, name);
                if !path.is_file() {
                    return Ok(None);
                }
                let file = path.display().to_string();
                let bytes = files::read_json(&path).with_context(|| file.clone())?;
                (file, bytes)
            }
            Self::Metadata { .. } => match self.made(name) {
                Some(bytes) => (self.named(name), bytes.to_vec()),
                None => return Ok(None),
            },
        };
        let value: Value = serde_json::from_slice(&bytes).with_context(|| file.clone())?;
        match value.is_object() {
            true => Ok(Some(value)),
            false => bail!("{file}: is no object"),
        }
    }

    /// The tokenizer, if there is one.
    ///
    /// # Errors
    /// A file that cannot be read, or is no tokenizer.
    pub fn tokenizer(&self) -> Result<Option<Tokenizer>> {
        if !self.has(TOKENIZER_FILE) {
            return Ok(None);
        }
        let Self::Metadata { path, files } = self else {
            return Ok(Some(Tokenizer::open(self.path())?));
        };
        let beside = files.iter().filter(|(name, _)| *name != TOKENIZER_FILE);
        let beside = beside.map(|(name, bytes)| ((*name).to_owned(), bytes.clone()));
        let json = self.made(TOKENIZER_FILE).unwrap_or_default();
        let tokenizer = Tokenizer::from_files(json, TokenizerFiles::new(beside));
        let tokenizer = tokenizer.with_context(|| path.display().to_string())?;
        Ok(Some(tokenizer))
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// As [`Companions::tokenizer`], and a model without one.
    pub fn need_tokenizer(&self) -> Result<Tokenizer> {
        let path = self.path().display();
        self.tokenizer()?.with_context(|| match self {
            Self::Folder(_) => format!("{path}: holds no {TOKENIZER_FILE}"),
            Self::Metadata { .. } => format!("{path}: its metadata have no tokenizer"),
        })
    }

    /// How texts became the documents that the model was trained on.
    ///
    /// # Errors
    /// A file that cannot be read, or is of another version.
    pub fn preparation(&self, tokenizer: &Tokenizer) -> Result<Preparation> {
        match self {
            Self::Folder(folder) => Ok(Preparation::beside(folder, tokenizer)?),
            Self::Metadata { .. } => Ok(Preparation::of(tokenizer)),
        }
    }
}
