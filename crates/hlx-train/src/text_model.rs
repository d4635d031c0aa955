//! Opens a model with its tokenizer.

use std::path::Path;

use anyhow::{Result, ensure};
use hlx_core::Device;
use hlx_core::files::place;
use hlx_nn::CausalModel;
use hlx_text::{Preparation, TOKENIZER_FILE, Tokenizer};

use crate::config::Format;
use crate::generate::{TextModel, Wanted, check_settings};
use crate::model_folder;
use crate::opening::{Opened, Opening, is_model};
use crate::run::RunFolder;
use crate::special_tokens::SpecialTokens;
use crate::trained::Trained;

impl TextModel {
    /// Opens a run, one of its checkpoints, an imported model or a Hugging Face folder.
    ///
    /// # Errors
    /// A path that is none of these, no tokenizer beside the model; an average of a model that is not a run's; an adapter of a run or of another model; a weight that
    /// the opening's type does not reach.
    pub fn open(device: &Device, path: &Path, opening: Opening<'_>) -> Result<Self> {
        let mut of_pairs = false;
        let (model, tokenizer, folder) = match RunFolder::open_checkpoint(path) {
            Ok((run, _)) => {
                let (model, config) = Trained::open_as(device, path, opening)?;
                let tokenizer = match config.data.format {
                    Format::Shards => open_tokenizer(run.path())?,
                    _ => Tokenizer::bytes(),
                };
                of_pairs = config.data.format.is_of_pairs();
                (model, tokenizer, run.path().to_owned())
            }
            Err(error) => {
                model_folder::check_no_adapter(path)?;
                ensure!(is_model(path), "{error:#}, and no model's folder");
                let tokenizer = open_tokenizer(path)?;
                let model = model_folder::open_as(device, path, opening)?;
                (model, tokenizer, path.to_owned())
            }
        };
        Self::with_tokenizer_of(&folder, model, tokenizer, of_pairs)
    }

    /// A model that was read from a folder, with the tokenizer that lies there.
    ///
    /// # Errors
    /// As [`TextModel::open`].
    pub fn of_folder(folder: &Path, model: Opened) -> Result<Self> {
        let tokenizer = open_tokenizer(folder)?;
        Self::with_tokenizer_of(folder, model, tokenizer, false)
    }

    fn with_tokenizer_of(
        folder: &Path,
        model: Opened,
        tokenizer: Tokenizer,
        of_pairs: bool,
    ) -> Result<Self> {
        let specials = SpecialTokens::read(folder, Some(&tokenizer))?;
        specials.warn_of_missing(folder, model.vocabulary());
        Ok(Self {
            end_tokens: specials.ends,
            preparation: match of_pairs {
                true => Preparation::of_pairs(&tokenizer),
                false => Preparation::beside(folder, &tokenizer)?,
            },
            model,
            tokenizer,
        })
    }

    /// As [`TextModel::open`], to write texts with: the folder's settings of generation must be known
    /// ([`check_settings`]).
    ///
    /// # Errors
    /// As [`TextModel::open`] and [`check_settings`].
    pub fn open_to_write(
        device: &Device,
        path: &Path,
        opening: Opening<'_>,
        wanted: &Wanted,
    ) -> Result<Self> {
        let run = RunFolder::open_checkpoint(path).map(|(run, _)| run.path().to_owned());
        check_settings(&run.unwrap_or_else(|_| path.to_owned()), wanted)?;
        Self::open(device, path, opening)
    }
}

fn open_tokenizer(folder: &Path) -> Result<Tokenizer> {
    ensure!(
        place(folder, TOKENIZER_FILE).is_file(),
        "{}: holds no {TOKENIZER_FILE}",
        folder.display()
    );
    Ok(Tokenizer::open(folder)?)
}
