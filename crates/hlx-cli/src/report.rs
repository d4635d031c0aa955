//! The end of a run: its loss, a handful of translations, its digests, and where it lies.

use anyhow::Result;
use hlx_data::ImageReport;
use hlx_train::generate::{Answer, answer_pairs};
use hlx_train::image_report::{report_images, reported, write_report};
use hlx_train::run::Checkpoint;
use hlx_train::task::Task;
use hlx_train::train::{Outcome, Trainer};

use crate::next;
use crate::print::say;

/// Pairs answered at most; a larger corpus is sampled evenly.
const MAX_ANSWERS: usize = 512;
/// Translations shown.
const SHOWN: usize = 6;

/// What the answers of a run do not show that holds no pairs out.
const ALL_TRAINED_ON: &str = "\
The model was trained on all of these pairs, and may know them by heart: an input of your own can get
nonsense. `data.eval_fraction` holds pairs out and measures it; configs/ascii-pairs.toml trains a
specialist that answers what it has not seen.";

/// Prints the outcome; of pairs, how many the model answers exactly with greedy decoding.
pub fn report(trainer: &Trainer, outcome: &Outcome, json: bool) -> Result<()> {
    // A model whose logits are NaN answers nothing.
    let is_finite = outcome.train.is_none_or(|train| train.loss.is_finite());
    let answers = match trainer.task() {
        Task::Bytes(task) if task.is_of_pairs() && is_finite => {
            let samples = evenly(&trainer.split().train, MAX_ANSWERS);
            answer_pairs(&task.model, &task.data, &samples)?
        }
        _ => Vec::new(),
    };
    let images = images_of(trainer)?;
    let n_exact = answers.iter().filter(|answer| answer.is_exact()).count();
    if json {
        let end = serde_json::json!({
            "kind": "end", "step": outcome.step, "epochs": outcome.epochs,
            "reached_target": outcome.reached_target, "stopped_early": outcome.stopped_early,
            "skipped": outcome.skipped, "first_non_finite": outcome.first_non_finite,
            "train": outcome.train,
            "held_out": outcome.held_out, "answers": answers.len(), "exact_answers": n_exact,
            "accuracy": images.as_ref().map(|report| report.matrix.accuracy()),
            "parameters": outcome.digests.parameters, "optimizer": outcome.digests.optimizer,
            "run": trainer.folder().path(),
        });
        say!("{end}")?;
        return Ok(());
    }
    print_losses(outcome)?;
    print_best(trainer)?;
    print_answers(&answers, n_exact)?;
    if !answers.is_empty() && trainer.split().eval.is_empty() {
        say!("\n{ALL_TRAINED_ON}")?;
    }
    if let Some(report) = images {
        print_matrix(&report)?;
    }
    say!("\nparameters {}", outcome.digests.parameters)?;
    say!("optimizer  {}", outcome.digests.optimizer)?;
    let run = trainer.folder().path();
    say!("run        {}", run.display())?;
    let next = match trainer.task() {
        Task::Bytes(_) | Task::Tokens(_) => {
            let input = answers.first().map(|answer| answer.input.as_str());
            next::generate(run, input.unwrap_or("TEXT"))
        }
        Task::Images(_) => next::eval(run),
    };
    say!("next       {next}")
}

/// For a classifier: the confusion matrix over the images held out, or else over those trained on; it
/// and the misread images go into the run folder.
fn images_of(trainer: &Trainer) -> Result<Option<ImageReport>> {
    let Task::Images(task) = trainer.task() else {
        return Ok(None);
    };
    let report = report_images(task, reported(trainer.split()))?;
    write_report(trainer.folder().path(), task, &report)?;
    Ok(Some(report))
}

/// Prints the matrix, and how many images were misread.
pub fn print_matrix(report: &ImageReport) -> Result<()> {
    say!("\n{}", report.matrix)?;
    say!("misread    {} images", report.misread.len())
}

fn print_losses(outcome: &Outcome) -> Result<()> {
    let ended_by = match (outcome.reached_target, outcome.stopped_early) {
        (true, _) => ", the target is reached",
        (false, true) => ", stopped early: the held-out loss no longer improves",
        (false, false) => "",
    };
    say!(
        "\n{} steps, {:.2} epochs{ended_by}",
        outcome.step,
        outcome.epochs
    )?;
    if outcome.skipped > 0 {
        say!(
            "skipped    {} steps whose loss or norm was not finite",
            outcome.skipped
        )?;
    }
    if let Some(step) = outcome.first_non_finite {
        say!("not finite the loss was NaN or infinite first at step {step}")?;
    }
    match (outcome.train, outcome.last_loss) {
        (Some(train), _) => say!(
            "loss       {:.5} over the {} of the corpus{}",
            train.loss,
            train.over(),
            train.right()
        )?,
        (None, Some(loss)) => say!("loss       {loss:.5} in the last log period")?,
        (None, None) => {}
    }
    if let Some(held_out) = outcome.held_out {
        say!(
            "           {:.5} over {} held out{}{}",
            held_out.loss,
            held_out.over(),
            held_out.right(),
            held_out.perplexity_text()
        )?;
    }
    Ok(())
}

/// Names the checkpoint with the lowest loss where it is not the last.
fn print_best(trainer: &Trainer) -> Result<()> {
    let Some(path) = trainer.folder().best()? else {
        return Ok(());
    };
    let digests = Checkpoint::stated(&path)?;
    if let Some(loss) = digests.loss.filter(|_| digests.step != trainer.step()) {
        say!(
            "best       {loss:.5} at step {}: {}",
            digests.step,
            path.display()
        )?;
    }
    Ok(())
}

fn print_answers(answers: &[Answer], n_exact: usize) -> Result<()> {
    if answers.is_empty() {
        return Ok(());
    }
    say!(
        "exact      {n_exact} of {} answers (greedy decoding)\n",
        answers.len()
    )?;
    let shown: Vec<&Answer> = evenly_of(answers, SHOWN);
    let width = shown
        .iter()
        .map(|answer| answer.input.chars().count())
        .max()
        .unwrap_or(0);
    for Answer { input, found, .. } in &shown {
        say!("  {input:width$}  ->  {found}")?;
    }
    let wrong: Vec<&Answer> = answers.iter().filter(|answer| !answer.is_exact()).collect();
    for Answer {
        input,
        expected,
        found,
    } in wrong.iter().take(SHOWN)
    {
        say!("  {input}: answered {found}, expected {expected}")?;
    }
    Ok(())
}

/// At most `count` of the values, evenly spread.
fn evenly(values: &[usize], count: usize) -> Vec<usize> {
    evenly_of(values, count).into_iter().copied().collect()
}

fn evenly_of<T>(values: &[T], count: usize) -> Vec<&T> {
    let n = values.len().min(count);
    (0..n)
        .map(|place| &values[place * values.len() / n])
        .collect()
}
