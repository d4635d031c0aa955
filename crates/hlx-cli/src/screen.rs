//! What `hlx train` shows of a run while it goes on: its beginning, a line a log period, a bar on a terminal.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use hlx_core::{Device, why_no_gpu};
use hlx_report::View;
use hlx_report::text::{duration, name_of, with_commas};
use hlx_train::config::Format;
use hlx_train::curve::LossUnit;
use hlx_train::metric_line::metric_line;
use hlx_train::run::{Metric, RankPlace, read_metrics};
use hlx_train::train::{Observer, RunMemory, Trainer, written};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::interrupt::Interrupt;
use crate::print::{self, say};
use crate::tui::Tui;

/// The progress of the run on the screen: a bar on a terminal, lines everywhere. A run continues without
/// standard output: its metrics are in its folder, too.
pub struct Screen {
    json: bool,
    bar: ProgressBar,
    interrupt: Interrupt,
    /// What standard output failed with first.
    pub unprinted: Option<anyhow::Error>,
    /// What the run predicts.
    unit: LossUnit,
    steps_left: u64,
    /// The view that fills the terminal.
    tui: Option<Tui>,
    /// Lines that are printed when the terminal is given back.
    held: RefCell<Vec<String>>,
}

impl Screen {
    /// Prepares the bar, and catches the signals that end the run early.
    pub fn new(json: bool, trainer: &Trainer) -> Result<Self> {
        let shown = !json && std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(trainer.total_steps()), target);
        let template = "{bar:32} step {pos}/{len}  {elapsed} of about {duration}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_position(trainer.step());
        bar.reset_eta();
        let interrupt = Interrupt::catch()?;
        Ok(Self {
            json,
            bar,
            interrupt,
            unprinted: None,
            unit: LossUnit::of(trainer.config().data.format),
            steps_left: trainer.total_steps().saturating_sub(trainer.step()),
            tui: None,
            held: RefCell::default(),
        })
    }

    /// Fills the terminal with the run's view; plain lines follow where there is none, and a line says so.
    pub fn fill(&mut self, trainer: &Trainer) {
        if !std::io::stdout().is_terminal() {
            tracing::warn!("--tui: standard output is no terminal: plain lines");
            return;
        }
        let folder = trainer.folder();
        let parameters = with_commas(trainer.weights().n_elements() as u64);
        let mut view = View::new(name_of(folder.path()), self.unit.name());
        view.subtitle = format!("{parameters} parameters on {}", trainer.device().info());
        "training".clone_into(&mut view.state);
        view.memory = Some(trainer.memory().clone());
        if trainer.step() > 0
            && let Ok(metrics) = read_metrics(&folder.metrics_path())
        {
            metrics.iter().for_each(|metric| view.metric(metric));
        }
        view.progress(trainer.step(), Some(trainer.total_steps()));
        self.bar.finish_and_clear();
        match Tui::new(view, &self.interrupt) {
            Ok(tui) => {
                self.bar.set_draw_target(ProgressDrawTarget::hidden());
                self.tui = Some(tui);
            }
            Err(error) => tracing::warn!("--tui: {error:#}: plain lines"),
        }
    }

    /// Says what is about to run.
    pub fn head(&self, trainer: &Trainer) -> Result<()> {
        let device = trainer.device();
        let info = device.info();
        let parameters = trainer.weights().n_elements();
        let (n_train, n_eval) = (trainer.split().train.len(), trainer.split().eval.len());
        let (step, total) = (trainer.step(), trainer.total_steps());
        if self.json {
            self.line(&trainer.facts().to_string())?;
            return self.line(&trainer.memory().to_json().to_string());
        }
        let places = trainer.places();
        for (rank, place) in places.iter().enumerate().filter(|_| places.len() > 1) {
            let RankPlace {
                host,
                selector,
                device,
                ..
            } = place;
            self.line(&format!("rank {rank:<3} {host}  {device} [{selector}]"))?;
        }
        if let Some(carrier) = trainer.carrier() {
            self.line(&format!("exchange {carrier}"))?;
        }
        self.line(&format!(
            "device   {info}{}, arithmetic {}{}",
            driver_of(device),
            device.arithmetic(),
            why_cpu(device)
        ))?;
        self.line(&format!(
            "model    {} parameters",
            with_commas(parameters as u64)
        ))?;
        let held_out = if n_eval > 0 {
            format!(", {n_eval} held out")
        } else {
            String::new()
        };
        let samples = match trainer.config().data.format {
            Format::Digits | Format::ColouredDigits => "drawn digits",
            Format::AsciiPairs => "drawn pairs",
            Format::Idx | Format::Cifar10 => "images",
            Format::Shards => "rows",
            Format::Pairs | Format::Text => "samples",
        };
        self.line(&format!("corpus   {n_train} {samples}{held_out}"))?;
        let from = if step > 0 {
            format!(", from step {step}")
        } else {
            String::new()
        };
        self.line(&format!("memory   {}", memory_text(trainer.memory())))?;
        self.line(&format!(
            "run      {} ({total} steps{from})",
            trainer.folder().path().display()
        ))
    }

    /// Takes the bar or the view away, and prints what was held back meanwhile.
    pub fn finish(&mut self) -> Result<()> {
        self.bar.finish_and_clear();
        if let Some(mut tui) = self.tui.take() {
            tui.end();
        }
        for line in self.held.take() {
            let printed = say!("{line}");
            self.note(printed)?;
        }
        Ok(())
    }

    /// Prints a line above the bar; while a view fills the terminal, afterwards.
    pub fn line(&self, text: &str) -> Result<()> {
        match self.tui {
            Some(_) => {
                self.held.borrow_mut().push(text.to_owned());
                Ok(())
            }
            None => self.bar.suspend(|| say!("{text}")),
        }
    }

    /// Notes the first error of a standard output that is full, which the program ends with, and forgets that
    /// of a closed one.
    pub fn note(&mut self, printed: Result<()>) -> Result<()> {
        match print::or_closed(printed) {
            Err(error) if print::is_of_output(&error) => {
                self.unprinted.get_or_insert(error);
                Ok(())
            }
            printed => printed,
        }
    }
}

impl Observer for Screen {
    fn step(&mut self, step: u64, total_steps: u64) {
        self.bar.set_position(step);
        self.steps_left = total_steps.saturating_sub(step);
        if let Some(tui) = &self.tui {
            tui.view().progress(step, Some(total_steps));
        }
    }

    fn pace(&mut self, ms_per_step: f64) {
        if let Some(tui) = &self.tui {
            return tui.view().pace(ms_per_step);
        }
        let left = Duration::from_secs_f64(ms_per_step * 1e-3 * self.steps_left as f64);
        let text = match self.json {
            true => serde_json::json!({
                "kind": "pace", "ms_per_step": ms_per_step, "steps_left": self.steps_left,
                "seconds_left": left.as_secs_f64(),
            })
            .to_string(),
            false => format!(
                "time     about {} for the {} steps left ({ms_per_step:.1} ms a step, evaluations left out)",
                duration(left),
                self.steps_left
            ),
        };
        let printed = self.line(&text);
        let _ = self.note(printed);
    }

    fn metric(&mut self, metric: &Metric) {
        if let Some(tui) = &self.tui {
            return tui.view().metric(metric);
        }
        let text = if self.json {
            serde_json::to_string(metric).unwrap_or_default()
        } else {
            metric_line(metric, self.unit)
        };
        let printed = self.line(&text);
        // Nothing but standard output fails here.
        let _ = self.note(printed);
    }

    fn must_stop(&self) -> bool {
        self.interrupt.has_arrived()
    }

    fn checkpoint(&mut self, step: u64, folder: &Path) {
        tracing::info!(step, folder = %folder.display(), "checkpoint");
        if let Some(tui) = &self.tui {
            tui.view().message(&format!(
                "checkpoint of step {step} in {}",
                folder.display()
            ));
        }
    }
}

/// The driver, where the bits depend on it.
fn driver_of(device: &Device) -> String {
    match device.arithmetic().is_same_everywhere() {
        true => String::new(),
        false => format!(", driver {}", device.info().driver),
    }
}

/// Says why the CPU device runs where `auto` would rather have had a GPU.
fn why_cpu(device: &Device) -> String {
    let why = device.is_cpu().then(why_no_gpu).flatten();
    why.map_or_else(String::new, |why| format!(" (no Vulkan GPU: {why})"))
}

/// What a run takes, and what there is.
fn memory_text(memory: &RunMemory) -> String {
    let in_host = match memory.host_bytes {
        0 => String::new(),
        bytes => format!(", and {} of the host's", written(bytes)),
    };
    format!(
        "{} of {}: {} in place, {} in a step{in_host}",
        written(memory.total_bytes()),
        written(memory.device_bytes),
        written(memory.state_bytes),
        written(memory.pass_bytes)
    )
}
