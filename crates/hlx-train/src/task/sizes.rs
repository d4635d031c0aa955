//! The sizes of a model as a checkpoint's `config.json` holds them.

use anyhow::Result;
use hlx_nn::{CausalConfig, CausalLm, Classifier, ClassifierConfig, Module, ParameterBuilder};
use serde::{Deserialize, Serialize};

/// The sizes of one of the models that runs train. A file with a `kind` is a classifier's.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Sizes {
    /// The sizes of a language model.
    Language(Box<CausalConfig>),
    /// The sizes of a classifier of images.
    Classifier(ClassifierConfig),
}

impl Sizes {
    /// Reads the file's bytes.
    ///
    /// # Errors
    /// The parser's message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        /// What tells the kinds apart.
        #[derive(Deserialize)]
        struct Kind {
            kind: Option<serde_json::Value>,
        }
        let kind: Kind = serde_json::from_slice(bytes)?;
        Ok(match kind.kind {
            None => Self::Language(serde_json::from_slice(bytes)?),
            Some(_) => Self::Classifier(serde_json::from_slice(bytes)?),
        })
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// The serialiser's message; it is not expected to fail.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Checks that such a model can be made.
    ///
    /// # Errors
    /// Sizes that no model can have.
    pub fn validate(&self) -> hlx_nn::Result<()> {
        match self {
            Self::Language(sizes) => sizes.validate(),
            Self::Classifier(sizes) => sizes.validate(),
        }
    }

    /// Declares the model.
    ///
    /// # Errors
    /// Sizes that no model can have.
    pub fn declare(&self, b: &mut ParameterBuilder) -> hlx_nn::Result<Box<dyn Module>> {
        Ok(match self {
            Self::Language(sizes) => Box::new(CausalLm::new(b, sizes)?),
            Self::Classifier(sizes) => Box::new(Classifier::new(b, sizes)?),
        })
    }
}
