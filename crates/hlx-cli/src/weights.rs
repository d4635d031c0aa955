//! The arguments that say which weights are read, and in which type they are held.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use hlx_autograd::DType;
use hlx_core::{Arithmetic, Device};
use hlx_train::generate::{TextModel, Wanted};
use hlx_train::opening::Opening;
use hlx_train::text_source::TextSource;

use crate::DeviceArgument;

/// A model, where it is computed, and how its weights are held.
#[derive(clap::Args)]
pub struct ModelArguments {
    /// The run folder, one of its checkpoints, RUN/best, an imported model's or a Hugging Face folder, or a GGUF file.
    #[arg(value_name = "MODEL")]
    pub path: PathBuf,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    weights: WeightsArguments,
}

impl ModelArguments {
    /// Opens the device.
    pub fn device(&self) -> Result<Device> {
        self.device.open()
    }

    /// Opens the model with its tokenizer on a device.
    pub fn text_model(&self, device: &Device) -> Result<TextModel> {
        TextModel::open(device, &self.path, self.weights.opening())
    }

    /// As [`ModelArguments::text_model`], to write texts with.
    pub fn text_model_to_write(&self, wanted: &Wanted) -> Result<TextModel> {
        TextModel::open_to_write(&self.device()?, &self.path, self.weights.opening(), wanted)
    }

    /// As [`ModelArguments::text_model_to_write`], of a run over bytes too.
    pub fn source_to_write(&self, wanted: &Wanted) -> Result<TextSource> {
        TextSource::open_to_write(&self.device()?, &self.path, self.weights.opening(), wanted)
    }
}

/// Which weights of a checkpoint are read.
#[derive(clap::Args)]
pub struct AverageArgument {
    /// Read the moving average of the weights (train.ema_decay).
    #[arg(long)]
    pub average: bool,
}

/// The type of a model's matrices.
#[derive(clap::Args)]
pub struct DtypeArgument {
    /// Keep the matrices in this type: the bits of the model whose matrices are rounded to it. If left out,
    /// that of 16 bits in which a Hugging Face folder without an adapter stores all of them, else f32.
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<MatrixType>,
}

/// An adapter that is added to a model.
#[derive(clap::Args)]
pub struct AdapterArgument {
    /// For a model folder: add an adapter of the library PEFT without merging it: the folder with
    /// adapter_config.json and adapter_model.safetensors.
    #[arg(long, value_name = "DIR")]
    adapter: Option<PathBuf>,
}

/// The arithmetic of a model's products.
#[derive(clap::Args)]
pub struct ArithmeticArgument {
    /// Compute products in this arithmetic, portable, integer, fast or fast_f16; that of the run if left
    /// out, and of a model folder portable.
    #[arg(long, value_name = "NAME")]
    pub arithmetic: Option<Arithmetic>,
}

/// Which weights are read, how they are held, and what is computed with them.
#[derive(clap::Args)]
pub struct WeightsArguments {
    #[command(flatten)]
    pub average: AverageArgument,
    #[command(flatten)]
    pub dtype: DtypeArgument,
    #[command(flatten)]
    pub adapter: AdapterArgument,
    #[command(flatten)]
    pub arithmetic: ArithmeticArgument,
}

/// The types that matrices are held in.
#[derive(Clone, Copy, ValueEnum)]
pub enum MatrixType {
    F32,
    F16,
    Bf16,
}

impl DtypeArgument {
    pub fn dtype(&self) -> Option<DType> {
        self.dtype.map(|dtype| match dtype {
            MatrixType::F32 => DType::F32,
            MatrixType::F16 => DType::F16,
            MatrixType::Bf16 => DType::BF16,
        })
    }
}

impl AdapterArgument {
    pub fn folder(&self) -> Option<&Path> {
        self.adapter.as_deref()
    }
}

impl WeightsArguments {
    pub fn opening(&self) -> Opening<'_> {
        Opening {
            average: self.average.average,
            dtype: self.dtype.dtype(),
            adapter: self.adapter.folder(),
            arithmetic: self.arithmetic.arithmetic,
        }
    }
}
