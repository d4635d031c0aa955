//! Opens a model with its tokenizer.

use std::path::Path;

use anyhow::Result;
use hlx_core::Device;
use hlx_nn::CausalModel;
use hlx_text::{Preparation, Tokenizer};

use crate::companions::Companions;
use crate::generate::{TextModel, Wanted};
use crate::model_source::ModelSource;
use crate::opening::{Opened, Opening};
use crate::special_tokens::SpecialTokens;

impl TextModel {
    /// Opens a run, one of its checkpoints, an imported model, a Hugging Face folder or a GGUF file.
    ///
    /// # Errors
    /// As [`ModelSource::text_model`].
    pub fn open(device: &Device, path: &Path, opening: Opening<'_>) -> Result<Self> {
        ModelSource::at(path)?.text_model(device, opening)
    }

    /// As [`TextModel::open`], to write texts with: the model's settings of generation must be known.
    ///
    /// # Errors
    /// As [`TextModel::open`] and [`ModelSource::check_settings`].
    pub fn open_to_write(
        device: &Device,
        path: &Path,
        opening: Opening<'_>,
        wanted: &Wanted,
    ) -> Result<Self> {
        let source = ModelSource::at(path)?;
        source.check_settings(wanted)?;
        source.text_model(device, opening)
    }

    /// A model that was read, with what goes with it; of pairs if it answers inputs that its tokenizer's separator ends.
    pub(crate) fn with_companions(
        from: &Companions,
        model: Opened,
        tokenizer: Tokenizer,
        of_pairs: bool,
    ) -> Result<Self> {
        let specials = SpecialTokens::read(from, Some(&tokenizer))?;
        specials.warn_of_missing(from.path(), model.vocabulary());
        Ok(Self {
            end_tokens: specials.ends,
            preparation: match of_pairs {
                true => Preparation::of_pairs(&tokenizer),
                false => from.preparation(&tokenizer)?,
            },
            model,
            tokenizer,
        })
    }
}
