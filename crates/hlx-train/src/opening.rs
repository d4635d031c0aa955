//! How a language model is opened for inference, and what it is then.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use hlx_autograd::DType;
use hlx_core::Arithmetic;
use hlx_core::files::place;
use hlx_gguf::Gguf;
use hlx_nn::{CausalLm, InferenceModel, Model};

/// How a model is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening<'a> {
    /// For a run: with the moving average of its weights.
    pub average: bool,
    /// The type that its matrices are held in; without one, that of 16 bits in which a Hugging Face folder
    /// stores all of them, else f32. With an adapter it is f32 without one: the adapter's factors are matrices too. Matrices in blocks stay so
    /// without one, also under an adapter.
    pub dtype: Option<DType>,
    /// The arithmetic of its products; without one, that of its run, `integer` where it has matrices in blocks, or `portable`.
    pub arithmetic: Option<Arithmetic>,
    /// For a model folder: the folder of an adapter of the library PEFT that is added to it.
    pub adapter: Option<&'a Path>,
}

impl Opening<'_> {
    /// Fails where an adapter is to be added to a run.
    ///
    /// # Errors
    /// One line with the run.
    pub fn check_run(&self, run: &Path) -> Result<()> {
        ensure!(
            self.adapter.is_none(),
            "{}: is a run, expected a model's folder",
            run.display()
        );
        Ok(())
    }
}

/// A language model as it is held in memory. It can be used as the model itself. Clones share it.
#[derive(Clone, Debug)]
pub enum Opened {
    /// In f32.
    Whole(Arc<Model<CausalLm>>),
    /// With matrices in 16 bits, or in blocks.
    Half(Arc<InferenceModel<CausalLm>>),
}

impl Deref for Opened {
    type Target = CausalLm;

    fn deref(&self) -> &CausalLm {
        match self {
            Self::Whole(model) => model.module(),
            Self::Half(model) => model.module(),
        }
    }
}

/// Whether a folder holds a model's configuration, as those of HLX and of Hugging Face do, or a path is that of a GGUF
/// file.
pub fn is_model(path: &Path) -> bool {
    place(path, hlx_nn::CONFIG_FILE).is_file() || Gguf::is_gguf(path)
}
