//! `hlx watch`: a run that another process trains, on the terminal or line by line.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hlx_report::text::{moment, name_of, with_commas};
use hlx_report::{Follower, RunState, View, planned_steps};
use hlx_train::config::Config;
use hlx_train::curve::LossUnit;
use hlx_train::metric_line::metric_line;
use hlx_train::run::{Metric, RunFolder, Standing, warn_of_damaged_lines};
use ratatui::crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};

use crate::interrupt::Interrupt;
use crate::print::{self, say};
use crate::terminal::{Filled, take_messages};
use crate::tui::pressed;

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long a key is waited for.
const TICK: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print the lines of the log as they are, and how the run stands at the end.
    #[arg(long)]
    json: bool,
}

/// What is watched.
struct Watched {
    folder: RunFolder,
    config: Config,
    unit: LossUnit,
    follower: Follower,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = RunFolder::open(&arguments.run)?;
    let config = folder.config()?;
    let mut watched = Watched {
        unit: LossUnit::of(config.data.format),
        follower: Follower::new(&folder),
        folder,
        config,
    };
    if !arguments.json {
        if std::io::stdout().is_terminal() {
            return watched.fill();
        }
        tracing::warn!("standard output is no terminal: plain lines");
    }
    print::or_closed(watched.print(arguments.json))
}

impl Watched {
    /// Prints the lines of the log, and follows while a process trains the run.
    fn print(&mut self, json: bool) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        loop {
            // What is written between the look and the end of the run is read by the look after it.
            let standing = self.folder.standing()?;
            let news = self.follower.look()?;
            warn_of_damaged_lines(&self.folder.metrics_path(), &news.damaged);
            for metric in &news.metrics {
                match json {
                    true => say!("{}", serde_json::to_string(metric)?)?,
                    false => say!("{}", metric_line(metric, self.unit))?,
                }
            }
            if standing.holder.is_none() || interrupt.has_arrived() {
                return self.print_standing(&standing, json);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn print_standing(&self, standing: &Standing, json: bool) -> Result<()> {
        let (state, step) = (RunState::of(standing), standing.saved_step);
        if json {
            return say!(
                "{}",
                serde_json::json!({
                    "kind": "standing", "state": state, "saved_step": step, "holder": standing.holder,
                })
            );
        }
        match (state, step) {
            (_, None) => say!("{}, without a checkpoint yet", state.name()),
            (_, Some(step)) => say!("{}, its newest checkpoint is of step {step}", state.name()),
        }
    }

    /// Fills the terminal with the run's view until a key ends it.
    fn fill(&mut self) -> Result<()> {
        let interrupt = Interrupt::catch()?;
        let mut view = View::new(name_of(self.folder.path()), self.unit.name());
        "q leaves; the run goes on".clone_into(&mut view.footer);
        if let Some(manifest) = self.folder.manifest()? {
            let device = manifest
                .stretches
                .last()
                .map_or("an unknown device", |it| &it.device);
            view.subtitle = format!(
                "{} parameters on {device}",
                with_commas(manifest.n_parameters)
            );
        }
        let mut filled = Filled::take()?;
        let mut looked: Option<Instant> = None;
        let mut last = None;
        loop {
            if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                self.update(&mut view, &mut last)?;
                looked = Some(Instant::now());
            }
            view.message(&take_messages());
            filled
                .terminal
                .draw(|frame| view.draw(frame))
                .context("the terminal cannot be drawn on")?;
            if interrupt.has_arrived() {
                return Ok(());
            }
            if poll(TICK)?
                && let Event::Key(key) = read()?
            {
                let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                match pressed(key) {
                    Some(KeyCode::Char('q') | KeyCode::Esc) => return Ok(()),
                    Some(KeyCode::Char('c')) if is_control => return Ok(()),
                    _ => {}
                }
            }
        }
    }

    fn update(&mut self, view: &mut View, last: &mut Option<Metric>) -> Result<()> {
        let standing = self.folder.standing()?;
        let news = self.follower.look()?;
        if news.begins_anew {
            view.forget();
            view.message("the run was resumed from an earlier step");
        }
        match &news.damaged[..] {
            [] => {}
            [number] => view.message(&format!("line {number} of the log is damaged and left out")),
            [first, .., last] => view.message(&format!(
                "{} lines of the log, from {first} to {last}, are damaged and left out",
                news.damaged.len()
            )),
        }
        for metric in news.metrics {
            view.metric(&metric);
            if matches!(metric, Metric::Train { .. }) {
                *last = Some(metric);
            }
        }
        let planned = planned_steps(&self.config, last.as_ref());
        view.progress(standing.saved_step.unwrap_or(0), planned);
        let state = RunState::of(&standing).name();
        if !view.state.is_empty() && view.state != state {
            view.message(&format!(
                "{}: the run is {state}",
                moment(std::time::SystemTime::now())
            ));
        }
        state.clone_into(&mut view.state);
        Ok(())
    }
}
