//! A model on disk, whatever its form, and the one place that opens it for use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use hlx_core::Device;
use hlx_nn::CausalModel;
use hlx_text::{Preparation, TOKENIZER_FILE, Tokenizer};

use crate::companions::Companions;
use crate::config::Format;
use crate::generate::{TextModel, Wanted, check_settings};
use crate::model_folder;
use crate::opening::{Opened, Opening, is_model};
use crate::run::RunFolder;
use crate::special_tokens::SpecialTokens;
use crate::text_source::TextSource;
use crate::trained::Trained;

/// A run, one of its checkpoints, an imported model's folder, a Hugging Face folder, or a GGUF file.
#[derive(Debug)]
pub struct ModelSource {
    path: PathBuf,
    /// Of a run the format of its data.
    format: Option<Format>,
    companions: Companions,
}

impl ModelSource {
    /// Finds what lies at a path. Of several files of a GGUF model any may be given.
    ///
    /// # Errors
    /// A path that is none of a model's; an adapter alone; a GGUF file that is damaged or of a model that is not known.
    pub fn at(path: &Path) -> Result<Self> {
        let (format, companions) = match RunFolder::open_checkpoint(path) {
            Ok((run, _)) => {
                let companions = Companions::Folder(run.path().to_owned());
                (Some(run.config()?.data.format), companions)
            }
            // What is wrong with a run is said as it is.
            Err(error) if RunFolder::open(path).is_ok() => return Err(error),
            Err(error) => {
                model_folder::check_no_adapter(path)?;
                ensure!(
                    !path.is_file() || is_model(path),
                    "{}: is no GGUF file",
                    path.display()
                );
                ensure!(is_model(path), "{error:#}, and no model's folder");
                (None, Companions::of(path)?)
            }
        };
        let path = path.to_owned();
        Ok(Self {
            path,
            format,
            companions,
        })
    }

    /// What goes with the model.
    pub fn companions(&self) -> &Companions {
        &self.companions
    }

    /// Checks that texts can be written as the model's settings of generation say ([`check_settings`]).
    ///
    /// # Errors
    /// As [`check_settings`].
    pub fn check_settings(&self, wanted: &Wanted) -> Result<()> {
        check_settings(&self.companions, wanted)
    }

    /// Whether it is a run over bytes or characters, whose tokens no file lists.
    fn is_of_bytes(&self) -> bool {
        self.format.is_some_and(|format| format != Format::Shards)
    }

    /// Opens the model with its tokenizer.
    ///
    /// # Errors
    /// No tokenizer beside the model; an average of a model that is not a run's; an adapter of a run or of another
    /// model; a weight that the opening's type does not reach; a damaged file; a device without the memory.
    pub fn text_model(&self, device: &Device, opening: Opening<'_>) -> Result<TextModel> {
        let from = &self.companions;
        if self.is_of_bytes() {
            let (model, config) = Trained::open_as(device, &self.path, opening)?;
            let of_pairs = config.data.format.is_of_pairs();
            return TextModel::with_companions(from, model, Tokenizer::bytes(), of_pairs);
        }
        let tokenizer = from.need_tokenizer()?;
        let model = model_folder::open_as(device, &self.path, opening)?;
        TextModel::with_companions(from, model, tokenizer, false)
    }

    /// Opens the model to write texts with: its settings of generation are checked before its weights are read.
    fn text_to_write(
        &self,
        device: &Device,
        opening: Opening<'_>,
        wanted: &Wanted,
    ) -> Result<TextModel> {
        self.check_settings(wanted)?;
        self.text_model(device, opening)
    }

    /// Opens the model with a tokenizer if it has one.
    ///
    /// # Errors
    /// As [`ModelSource::text_model`], but not for a tokenizer that is missing.
    pub fn text_source(&self, device: &Device, opening: Opening<'_>) -> Result<TextSource> {
        if self.is_of_bytes() {
            let (model, config) = Trained::open_as(device, &self.path, opening)?;
            return Ok(TextSource::Bytes(Box::new(model), config.data.format));
        }
        Ok(match self.companions.has(TOKENIZER_FILE) {
            true => TextSource::Tokens(Arc::new(self.text_model(device, opening)?)),
            false => {
                let model = model_folder::open_as(device, &self.path, opening)?;
                TextSource::Ids(Box::new(model))
            }
        })
    }

    /// A model that was read from this path, with what goes with it.
    ///
    /// # Errors
    /// A tokenizer that cannot be read.
    pub fn with_model(&self, model: Opened) -> Result<TextSource> {
        Ok(match self.companions.tokenizer()? {
            Some(tokenizer) => {
                let text = TextModel::with_companions(&self.companions, model, tokenizer, false)?;
                TextSource::Tokens(Arc::new(text))
            }
            None => TextSource::Ids(Box::new(model)),
        })
    }
}

impl TextSource {
    /// Opens a run, one of its checkpoints, an imported model, a Hugging Face folder or a GGUF file.
    ///
    /// # Errors
    /// As [`ModelSource::text_source`].
    pub fn open(device: &Device, path: &Path, opening: Opening<'_>) -> Result<Self> {
        ModelSource::at(path)?.text_source(device, opening)
    }

    /// As [`TextSource::open`], to write texts with: without a tokenizer there are none, and the model's settings of
    /// generation must be known.
    ///
    /// # Errors
    /// As [`ModelSource::text_model`] and [`ModelSource::check_settings`].
    pub fn open_to_write(
        device: &Device,
        path: &Path,
        opening: Opening<'_>,
        wanted: &Wanted,
    ) -> Result<Self> {
        let source = ModelSource::at(path)?;
        if source.is_of_bytes() {
            return source.text_source(device, opening);
        }
        let text = source.text_to_write(device, opening, wanted)?;
        text.warn_of_pairs();
        Ok(Self::Tokens(Arc::new(text)))
    }
}

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
        ModelSource::at(path)?.text_to_write(device, opening, wanted)
    }

    /// A model that was read, with what goes with it; of pairs if it answers inputs that its tokenizer's separator ends.
    fn with_companions(
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
