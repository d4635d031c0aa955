//! `hlx eval`: a trained model's loss on a file, or on a folder of images, and a model folder's on prepared
//! tokens.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_nn::CausalModel;
use hlx_text::{Preparation, TOKENIZER_FILE, Tokenizer};
use hlx_train::companions::Companions;
use hlx_train::config::RowKind;
use hlx_train::evaluate::Evaluation;
use hlx_train::generate::{answer_pairs, count_exact};
use hlx_train::image_report::{report_images, write_picture};
use hlx_train::model_folder::{self, is_run};
use hlx_train::opening::is_model;
use hlx_train::perplexity::{rows_at_a_time, usual_length};
use hlx_train::run::RunFolder;
use hlx_train::task::{PreparedRows, Task, Tokens};
use hlx_train::trained::open_task;

use crate::DeviceArgument;
use crate::next;
use crate::numbers::{MAX_TOKENS, within};
use crate::output::output;
use crate::print::say;
use crate::report::print_matrix;
use crate::weights::WeightsArguments;

/// Samples computed at a time; no bit depends on it.
const BATCH: usize = 16;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, RUN/best, an imported model's or a Hugging Face folder, or a GGUF file.
    #[arg(value_name = "MODEL")]
    run: PathBuf,
    /// The file or the folder, of the format that the model was trained on; the run's own if left out. Of a
    /// model folder, what `hlx data prepare` wrote with its tokenizer.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// For a model folder: what a row of tokens is; windows if left out.
    #[arg(long, value_name = "KIND", value_enum)]
    rows: Option<RowKindArgument>,
    /// For a model folder: the predicted tokens of a row at most; the model's positions, at most 2,048, if
    /// left out.
    #[arg(long, value_name = "N", value_parser = within::<usize>(1..=MAX_TOKENS), allow_negative_numbers = true)]
    length: Option<usize>,
    #[command(flatten)]
    device: DeviceArgument,
    #[command(flatten)]
    weights: WeightsArguments,
    /// For pairs, and for prepared records of input and output: answer every input and count the exact ones.
    #[arg(long)]
    exact: bool,
    /// Evaluate only the samples that the run held out; the data must be the run's.
    #[arg(long)]
    held_out: bool,
    /// For a classifier: write a picture of the misread images: a PNG file.
    #[arg(long, value_name = "FILE")]
    misread: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// What a row of tokens is, as `data.rows` of a run's configuration.
#[derive(Clone, Copy, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum RowKindArgument {
    /// Contiguous windows, whatever documents they cross.
    Windows,
    /// The same, in which no position sees another document than its own.
    SeparateWindows,
    /// Documents one after another, none of which sees another.
    Packed,
    /// One document.
    Padded,
}

impl RowKindArgument {
    fn kind(self) -> RowKind {
        match self {
            Self::Windows => RowKind::Windows,
            Self::SeparateWindows => RowKind::SeparateWindows,
            Self::Packed => RowKind::Packed,
            Self::Padded => RowKind::Padded,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if is_model(&arguments.run) && !is_run(&arguments.run)? {
        return arguments.evaluate_folder();
    }
    for (name, is_given) in [
        ("--rows", arguments.rows.is_some()),
        ("--length", arguments.length.is_some()),
    ] {
        ensure!(
            !is_given,
            "{name}: a run's rows are those of its configuration"
        );
    }
    let device = arguments.device.open()?;
    let opening = arguments.weights.opening();
    opening.check_run(&arguments.run)?;
    let data = arguments.data()?;
    if let Some(path) = &arguments.misread {
        let folders = model_folder::folders_of(&arguments.run)?;
        let inputs = [model_folder::files_of(&folders), files_below(&data)].concat();
        output(path, &inputs)?;
    }
    let (task, digests) = open_task(&device, &arguments.run, &data, opening, arguments.held_out)?;
    if let Some(dtype) = opening.dtype {
        ensure!(
            !matches!(task, Task::Images(_)),
            "--dtype: a classifier is evaluated in f32"
        );
        // The bits of matrices held in this type, without their saving of memory.
        task.weights().round_matrices(dtype)?;
    }
    for warning in task.warnings()? {
        tracing::warn!("{}: {warning}", data.display());
    }
    let samples = arguments.samples(&task)?;
    let found = task.evaluate(&samples, BATCH)?;
    let is_of_pairs = matches!(&task, Task::Bytes(task) if task.is_of_pairs());
    let exact = match arguments.exact {
        true => arguments.exact_answers(&task, &samples)?,
        false => None,
    };
    let images = match &task {
        Task::Images(images) => {
            let report = report_images(images, &samples)?;
            if let Some(path) = &arguments.misread {
                write_picture(path, images, &report)?;
            }
            Some(report)
        }
        Task::Bytes(_) | Task::Tokens(_) => None,
    };
    if arguments.json {
        let line = serde_json::json!({
            "kind": "evaluation", "step": digests.step, "evaluation": found,
            "exact_answers": exact.map(|(n_exact, _)| n_exact), "answers": exact.map(|(_, n)| n),
            "misread": images.map(|report| report.misread.len()),
        });
        say!("{line}")?;
        return Ok(());
    }
    print_loss(&found)?;
    if let Some(loss) = found.loss_with_end.filter(|_| is_of_pairs) {
        say!("           {loss:.5} with the end bytes")?;
    }
    say!("samples    {}", found.n_samples)?;
    print_exact(exact)?;
    if let Some(report) = images {
        print_matrix(&report)?;
    }
    Ok(())
}

/// The file of a path, or the files of a folder.
fn files_below(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    files.chain([path.to_owned()]).collect()
}

fn print_loss(found: &Evaluation) -> Result<()> {
    let (over, more) = (found.over(), found.right() + &found.perplexity_text());
    say!("loss       {:.5} over {over}{more}", found.loss)
}

fn print_exact(exact: Option<(usize, usize)>) -> Result<()> {
    match exact {
        Some((n_exact, n)) => say!("exact      {n_exact} of {n} answers (greedy decoding)"),
        None => Ok(()),
    }
}

impl Arguments {
    /// Evaluates a model folder, which has no data of its own, on prepared tokens.
    fn evaluate_folder(&self) -> Result<()> {
        let folder = self.run.display();
        let data = self.data.as_ref();
        let data = data.with_context(|| {
            let tokenizer = self.run.to_string_lossy();
            let prepare = [
                "data",
                "prepare",
                "FILE",
                "--tokenizer",
                &tokenizer,
                "--out",
                "TOKENS",
            ];
            format!(
                "--data: {folder} is no run, and has no data: {} and then --data TOKENS",
                next::command(&prepare)
            )
        })?;
        ensure!(
            !self.held_out,
            "--held-out: {folder} is no run, and holds no sample out"
        );
        ensure!(
            self.misread.is_none(),
            "--misread: {folder} is no classifier"
        );
        let tokens = Tokens::open(data)?;
        let device = self.device.open()?;
        let model = model_folder::open_as(&device, &self.run, self.weights.opening())?;
        self.check_tokenizer(&tokens, model.vocabulary())?;
        let positions = model.max_positions();
        let length = self.length.unwrap_or_else(|| usual_length(&model));
        ensure!(
            (1..=positions).contains(&length),
            "--length {length}: expected 1 to the model's {positions} positions"
        );
        let kind = self.rows.unwrap_or(RowKindArgument::Windows).kind();
        let rows = PreparedRows::new(tokens, kind, length, 0.0)?;
        let [n_rows, _] = rows.counts();
        ensure!(n_rows > 0, "{}: holds nothing to predict", data.display());
        for warning in rows.warnings()? {
            tracing::warn!("{}: {warning}", data.display());
        }
        let samples: Vec<usize> = (0..n_rows).collect();
        let found = rows.evaluate(&model, &samples, rows_at_a_time(&model, length))?;
        let exact = match self.exact {
            true => {
                let records = rows.records(false).context("--exact")?;
                Some((count_exact(&model, &records)?, records.len()))
            }
            false => None,
        };
        if self.json {
            let line = serde_json::json!({
                "kind": "evaluation", "length": length, "evaluation": found,
                "exact_answers": exact.map(|(n_exact, _)| n_exact), "answers": exact.map(|(_, n)| n),
            });
            say!("{line}")?;
            return Ok(());
        }
        print_loss(&found)?;
        say!("rows       {n_rows} of at most {length} tokens")?;
        print_exact(exact)
    }

    /// The data's tokens must be the model's: those of its tokenizer, where one lies beside it.
    fn check_tokenizer(&self, data: &Tokens, vocabulary: usize) -> Result<()> {
        let (n_tokens, is_known) = data.vocabulary();
        if n_tokens > vocabulary && is_known {
            let what = || {
                format!("--data: its tokenizer has {n_tokens} tokens, and the model {vocabulary}")
            };
            data.shards.check_below(vocabulary).with_context(what)?;
        }
        let from = Companions::of(&self.run)?;
        let known = match &from {
            Companions::Folder(folder) => Preparation::read(folder)?,
            Companions::Metadata { .. } => None,
        };
        if let Some((own, other)) = known.as_ref().zip(data.preparation.as_ref())
            && (own.begin != other.begin || own.pair_separator != other.pair_separator)
        {
            tracing::warn!(
                "--data: was prepared with another beginning of documents or another separator of pairs than what {} was \
                 trained on",
                self.run.display()
            );
        }
        let stated = data.shards.tokenizer_digest();
        if let (Some(stated), Some(own)) = (stated, from.tokenizer()?) {
            // Bytes and characters are exported as another file with the same tokens.
            let exported = data.tokenizer.as_ref().map(Tokenizer::to_tokenizer_json);
            ensure!(
                own.digest() == stated || exported.is_some_and(|json| json == own.to_json()),
                "--data: was prepared with another tokenizer than {}",
                from.named(TOKENIZER_FILE)
            );
        }
        Ok(())
    }

    fn data(&self) -> Result<PathBuf> {
        let (folder, _) = RunFolder::open_checkpoint(&self.run)?;
        let of_run = folder.config()?.data;
        let Some(data) = &self.data else {
            return Ok(PathBuf::from(of_run.path));
        };
        ensure!(
            of_run.format.has_path(),
            "--data: the run's samples are drawn, and lie in no file"
        );
        Ok(data.clone())
    }

    /// How many inputs are answered exactly, and how many there are; `None` where there are no answers.
    fn exact_answers(&self, task: &Task, samples: &[usize]) -> Result<Option<(usize, usize)>> {
        Ok(match task {
            Task::Tokens(task) => {
                let records = task.rows.records(self.held_out).context("--exact")?;
                Some((count_exact(&task.model, &records)?, records.len()))
            }
            Task::Bytes(task) if task.is_of_pairs() => {
                let answers = answer_pairs(&task.model, &task.data, samples)?;
                let n_exact = answers.iter().filter(|answer| answer.is_exact()).count();
                Some((n_exact, answers.len()))
            }
            Task::Bytes(_) | Task::Images(_) => None,
        })
    }

    /// All samples of the data, or those that the run has held out of its own.
    fn samples(&self, task: &Task) -> Result<Vec<usize>> {
        if !self.held_out {
            return Ok((0..task.n_samples()).collect());
        }
        let (folder, _) = RunFolder::open_checkpoint(&self.run)?;
        let config = folder.config()?;
        let samples = task.split(config.data.eval_fraction, config.seed).eval;
        ensure!(
            !samples.is_empty(),
            "--held-out: the run holds no sample out (`data.eval_fraction` of its configuration does); \
             {} measures the loss on what it was trained on",
            next::eval(&self.run)
        );
        Ok(samples)
    }
}
