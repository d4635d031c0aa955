//! `hlx eval`: a trained model's loss on a file, or on a folder of images.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use hlx_train::generate::{answer_pairs, count_exact};
use hlx_train::image_report::{report_images, write_picture};
use hlx_train::run::RunFolder;
use hlx_train::task::Task;
use hlx_train::trained::open_task;

use crate::DeviceArgument;
use crate::report::print_matrix;
use crate::weights::WeightsArguments;

/// Samples computed at a time; no bit depends on it.
const BATCH: usize = 16;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, or RUN/best.
    run: PathBuf,
    /// The file or the folder, of the format that the model was trained on; the run's own if left out.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    weights: WeightsArguments,
    /// Of pairs, and of prepared records of input and output, answer every input and count the exact ones.
    #[arg(long)]
    exact: bool,
    /// Evaluate only the samples that the run held out; the data must be the run's.
    #[arg(long)]
    held_out: bool,
    /// Of a classifier, write a picture of the misread images: a PNG file.
    #[arg(long, value_name = "FILE")]
    misread: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let ctx = arguments.device.open()?;
    let opening = arguments.weights.opening();
    let parts = (opening.average, arguments.held_out);
    let data = arguments.data()?;
    let (task, digests) = open_task(&ctx, &arguments.run, &data, parts)?;
    if let Some(dtype) = opening.dtype {
        ensure!(
            task.is_language(),
            "--dtype: a classifier is evaluated in f32"
        );
        // The bits of matrices kept in this type, without their saving of memory.
        task.weights().round_matrices(dtype)?;
    }
    let samples = arguments.samples(task.as_ref())?;
    let found = task.evaluate(&samples, BATCH)?;
    let pairs = task.as_language().filter(|task| task.is_of_pairs());
    let exact = match arguments.exact {
        true => arguments.exact_answers(task.as_ref(), &samples)?,
        false => None,
    };
    let images = match task.as_images() {
        Some(images) => Some(report_images(images, &samples)?),
        None => None,
    };
    if let Some((path, report)) = arguments.misread.as_ref().zip(images.as_ref()) {
        let images = task.as_images().context("the report is of images")?;
        write_picture(path, images, report)?;
    }
    if arguments.json {
        let line = serde_json::json!({
            "step": digests.step, "evaluation": found,
            "exact_answers": exact.map(|(n_exact, _)| n_exact), "answers": exact.map(|(_, n)| n),
            "misread": images.map(|report| report.misread.len()),
        });
        println!("{line}");
        return Ok(());
    }
    let (over, more) = (found.over(), found.right() + &found.perplexity_text());
    println!("loss       {:.5} over {over}{more}", found.loss);
    if let Some(loss) = found.loss_with_end.filter(|_| pairs.is_some()) {
        println!("           {loss:.5} with the end bytes");
    }
    println!("samples    {}", found.n_samples);
    if let Some((n_exact, n)) = exact {
        println!("exact      {n_exact} of {n} answers (greedy decoding)");
    }
    if let Some(report) = images {
        print_matrix(&report);
    }
    Ok(())
}

impl Arguments {
    fn data(&self) -> Result<PathBuf> {
        if let Some(data) = &self.data {
            return Ok(data.clone());
        }
        let (folder, _) = RunFolder::open_checkpoint(&self.run)?;
        Ok(PathBuf::from(folder.config()?.data.path))
    }

    /// How many inputs are answered exactly, and how many there are; `None` where there are no answers.
    fn exact_answers(&self, task: &dyn Task, samples: &[usize]) -> Result<Option<(usize, usize)>> {
        if let Some(task) = task.as_tokens() {
            let records = task.records(self.held_out).context("--exact")?;
            return Ok(Some((count_exact(&task.model, &records)?, records.len())));
        }
        let Some(task) = task.as_language().filter(|task| task.is_of_pairs()) else {
            return Ok(None);
        };
        let answers = answer_pairs(&task.model, &task.data, samples)?;
        let n_exact = answers.iter().filter(|answer| answer.is_exact()).count();
        Ok(Some((n_exact, answers.len())))
    }

    /// All samples of the data, or those that the run has held out of its own.
    fn samples(&self, task: &dyn Task) -> Result<Vec<usize>> {
        if !self.held_out {
            return Ok((0..task.n_samples()).collect());
        }
        let (folder, _) = RunFolder::open_checkpoint(&self.run)?;
        let config = folder.config()?;
        let samples = task.split(config.data.eval_fraction, config.seed).eval;
        ensure!(
            !samples.is_empty(),
            "--held-out: the run holds no sample out"
        );
        Ok(samples)
    }
}
