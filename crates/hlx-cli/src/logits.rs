//! `hlx logits`: what a model computes, for comparison with other frameworks.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use hlx_autograd::DType;
use hlx_io::{load_npy, save_npy, save_safetensors};
use hlx_train::model_folder;
use hlx_train::opening::Opening;

use crate::DeviceArgument;
use crate::output::output;
use crate::print::say;
use crate::weights::{AdapterArgument, ArithmeticArgument, DtypeArgument};

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, an imported model's or a Hugging Face folder, or a GGUF file.
    model: PathBuf,
    /// Token ids, whole numbers of [batch, time]: an npy file.
    #[arg(long, value_name = "FILE")]
    ids: PathBuf,
    /// Where to write the logits, f32 of [batch, time, vocabulary]: an npy file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The wanted next tokens, [batch, time], of which negative ones count nothing: an npy file. Prints
    /// the mean cross-entropy.
    #[arg(long, value_name = "FILE", requires = "gradients")]
    targets: Option<PathBuf>,
    /// Where to write the gradient of every parameter: a safetensors file.
    #[arg(long, value_name = "FILE", requires = "targets")]
    gradients: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    dtype: DtypeArgument,
    #[command(flatten)]
    adapter: AdapterArgument,
    #[command(flatten)]
    arithmetic: ArithmeticArgument,
    /// With --targets: print one line of JSON instead of text.
    #[arg(long, requires = "targets")]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.check_outputs()?;
    let device = arguments.device.open()?;
    let dtype = arguments.dtype.dtype();
    let arithmetic = arguments.arithmetic.arithmetic;
    let opening = Opening {
        dtype,
        arithmetic,
        adapter: arguments.adapter.folder(),
        ..Opening::default()
    };
    let Some((targets, out)) = arguments.targets.as_ref().zip(arguments.gradients.as_ref()) else {
        let model = model_folder::open_as(&device, &arguments.model, opening)?;
        let ids = load_npy(&model.device()?, &arguments.ids)?;
        save_npy(&arguments.out, &model_folder::logits(&model, &ids)?)?;
        return Ok(());
    };
    ensure!(
        dtype.is_none_or(|dtype| dtype == DType::F32),
        "--gradients: those of weights in 16 bits are not computed, leave --dtype out"
    );
    let model = match opening.adapter {
        Some(adapter) => {
            let device = device.in_arithmetic(arithmetic.unwrap_or_default())?;
            model_folder::open_adapted(&device, &arguments.model, adapter)?.0
        }
        None => model_folder::open(&device, &arguments.model, arithmetic)?,
    };
    let device = model.device()?;
    let ids = load_npy(&device, &arguments.ids)?;
    let targets = load_npy(&device, targets)?;
    let found = model_folder::gradients(&model, &ids, &targets)?;
    save_npy(&arguments.out, &found.logits)?;
    save_safetensors(out, &found.by_name)?;
    match arguments.json {
        true => say!(
            "{}",
            serde_json::json!({ "kind": "logits", "loss": found.loss })
        ),
        false => say!("loss {}", found.loss),
    }
}

impl Arguments {
    /// Fails before anything is computed where a file to write is one of those that are read, or both are one.
    fn check_outputs(&self) -> Result<()> {
        let mut folders = model_folder::folders_of(&self.model)?;
        folders.extend(self.adapter.folder().map(Path::to_owned));
        let mut inputs = model_folder::files_of(&folders);
        inputs.push(self.ids.clone());
        inputs.extend(self.targets.clone());
        let logits = output(&self.out, &inputs)?;
        if let Some(path) = &self.gradients {
            ensure!(
                !output(path, &inputs)?.is_same(&logits),
                "--gradients: {} is the file of --out",
                path.display()
            );
        }
        Ok(())
    }
}
