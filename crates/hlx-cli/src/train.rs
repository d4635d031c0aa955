//! `hlx train`: a run from its configuration, with a log line a period and a closing report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_core::{Device, DeviceKind};
use hlx_report::text::with_commas;
use hlx_train::config::{Config, Override};
use hlx_train::ranks::{Group, agreed_on, check_count, check_program, local_rank};
use hlx_train::run::{RunFolder, latest_folder};
use hlx_train::timing::{RunTimer, RunTiming};
use hlx_train::train::{DoesNotFit, Observer, Outcome, Start, TrainOptions, TrainPlan, Trainer};

use crate::DeviceArgument;
use crate::crew::{self, Crew};
use crate::interrupt::Interrupt;
use crate::next;
use crate::print::{self, say};
use crate::report::report;
use crate::screen::Screen;

/// Where runs without `--out` lie, in the folder that the program is started in.
const RUNS: &str = "runs";

#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 trained, or the run of --plan fits; 1 an error, or it does not; 2 a wrong command line or \
                        ranks that cannot begin together, 3 a loss or parameters that are NaN or infinite, 130 \
                        interrupted by a signal."
)]
pub struct Arguments {
    /// The configuration file (TOML).
    config: PathBuf,
    #[command(flatten)]
    device: DeviceArgument,
    /// Train on several devices of this machine, a process each, with the same bits: cpu,cpu or
    /// vulkan:0,vulkan:1. The number divides train.shards.
    #[arg(long, value_name = "DEVICE,...", conflicts_with = "device")]
    devices: Option<String>,
    /// Let several ranks use one GPU.
    #[arg(long)]
    share_devices: bool,
    /// The corpus's file, or the folder of images; the configuration's data.path if left out.
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// The run folder; runs/NAME of the configuration's name if left out, or runs/NAME-2, ...
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on after the newest checkpoint of the run folder.
    #[arg(long)]
    resume: bool,
    /// Replace a value of the configuration: --set train.max_steps=40.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<Override>,
    /// Say what the run would take of the device's memory, kind by kind, and what would make it fit; nothing is
    /// allocated, written or trained.
    #[arg(long, conflicts_with_all = ["devices", "resume", "out", "tui", "profile"])]
    plan: bool,
    /// Print JSON lines instead of text.
    #[arg(long)]
    json: bool,
    /// Fill the terminal with the run's curves, time left, memory, last sample and messages; plain lines where
    /// standard output is no terminal.
    #[arg(long, conflicts_with = "json")]
    tui: bool,
    /// Measure every launch: print time, bytes, operations and share of the device's peak by
    /// kernel at the end, and write a trace for Perfetto; profile.json in the run folder if no
    /// file is named.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    profile: Option<Option<PathBuf>>,
}

/// Trains; the exit status is as [`Arguments`] says.
pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.plan {
        return match arguments.show_plan() {
            Ok(fits) => ExitCode::from(u8::from(!fits)),
            Err(error) => {
                print::error(&error);
                ExitCode::FAILURE
            }
        };
    }
    let joined = arguments.devices().and_then(|devices| {
        let n_ranks = devices.len();
        Ok((Crew::join(n_ranks)?, devices))
    });
    let (crew, devices) = match joined {
        Ok(joined) => joined,
        Err(error) => {
            print::error(&error);
            return ExitCode::from(2);
        }
    };
    let trained = crew.check();
    match trained.and_then(|()| arguments.train(crew.group(), &devices)) {
        Ok(Ended { outcome, unprinted }) => {
            if let Some(error) = &unprinted {
                print::error(error);
            }
            crew.end(&outcome, unprinted.is_none())
        }
        Err(error) => crew.fail(&error),
    }
}

/// How a run has ended.
struct Ended {
    outcome: Outcome,
    /// Why standard output took not all that was printed, unless its reader was gone.
    unprinted: Option<anyhow::Error>,
}

impl Arguments {
    /// The devices of `--devices`; none without it.
    fn devices(&self) -> Result<Vec<String>> {
        self.devices
            .as_deref()
            .map_or(Ok(Vec::new()), crew::devices)
    }

    /// Prints what the run would take, and returns whether it fits.
    fn show_plan(&self) -> Result<bool> {
        let config = self.configuration()?;
        let options = TrainOptions {
            start: Start::New(PathBuf::new()),
            data_path: self.data_path(&config),
        };
        let plan = TrainPlan::new(&self.device.open()?, config, &options)?;
        match self.json {
            true => say!("{}", plan.to_json())?,
            false => {
                say!(
                    "model        {} parameters",
                    with_commas(plan.n_parameters as u64)
                )?;
                say!("{plan}")?;
            }
        }
        Ok(plan.memory.fits())
    }

    /// Where the corpus lies.
    fn data_path(&self, config: &Config) -> PathBuf {
        let folder = self.config.parent().unwrap_or(Path::new("."));
        match &self.data {
            Some(path) => path.clone(),
            None => folder.join(&config.data.path),
        }
    }

    /// Opens the device of this rank.
    fn open(&self, group: &Group, devices: &[String]) -> Result<Device> {
        let (local, n_local) = local_rank(group);
        let Some(device) = devices.get(group.rank()) else {
            hlx_core::cpu::share_threads(n_local);
            return match self.gpu_of(group, local) {
                Some(gpu) => Ok(Device::open(&gpu)?),
                None => self.device.open(),
            };
        };
        let on_cpu = devices.iter().filter(|device| *device == "cpu").count();
        hlx_core::cpu::share_threads(on_cpu.min(n_local));
        Ok(Device::open(device)?)
    }

    /// The GPU of a rank that a launcher has started and that names no device: those of a host go to its
    /// ranks one after another.
    fn gpu_of(&self, group: &Group, local: usize) -> Option<String> {
        let is_named = std::env::var_os("HLX_DEVICE").is_some_and(|name| !name.is_empty());
        if group.is_alone() || is_named || self.device.device != "auto" {
            return None;
        }
        let devices = Device::devices().into_iter();
        let gpus = devices.filter(|info| info.kind == DeviceKind::VulkanGpu);
        let gpus: Vec<String> = gpus.map(|info| info.selector).collect();
        let n = gpus.len().max(1);
        gpus.into_iter().nth(local % n)
    }

    /// Trains, and returns how the run ended.
    fn train(&self, group: &Group, devices: &[String]) -> Result<Ended> {
        check_program(group)?;
        let config = agreed_on(group, self.configuration())?;
        agreed_on(group, check_count(group, &config))?;
        agreed_on(group, check_devices(devices, group.n_ranks()))?;
        let data_path = self.data_path(&config);
        if let Some(Some(path)) = &self.profile {
            let inputs = [self.config.clone(), data_path.clone()];
            agreed_on(group, crate::output::output(path, &inputs))?;
        }
        let options = TrainOptions {
            start: self.start()?,
            data_path,
        };
        let device = agreed_on(group, self.open(group, devices))?;
        let timer = match self.profile {
            Some(_) => Some(RunTimer::start(&device)?),
            None => None,
        };
        let shares = self.share_devices;
        let made = Trainer::of_rank(&device, config, &options, group, shares);
        let mut trainer = made.inspect_err(|error| self.say_what_fits(error, group))?;
        if !group.is_first() {
            let interrupt = Interrupt::catch()?;
            let outcome = trainer.run(&mut Quiet(interrupt))?;
            group.leave()?;
            return Ok(Ended {
                outcome,
                unprinted: None,
            });
        }
        let mut screen = Screen::new(self.json, &trainer)?;
        if self.tui {
            screen.fill(&trainer);
        }
        let head = screen.head(&trainer);
        screen.note(head)?;
        let ran = trainer.run(&mut screen);
        // The terminal is given back before anything else is printed on it.
        screen.finish()?;
        let outcome = ran?;
        group.leave()?;
        let timing = timer.map(RunTimer::end).transpose()?;
        match &outcome.not_finite {
            _ if outcome.interrupted => {
                let said = self.say_how_to_go_on(&trainer, &screen);
                screen.note(said)?;
            }
            Some(reason) if !reason.at_end => {}
            _ => screen.note(report(&trainer, &outcome, self.json))?,
        }
        if let Some(reason) = outcome.not_finite.clone() {
            print::error(&reason.into());
        }
        if let Some(timing) = timing {
            let timing = timing.with_exchange(trainer.exchange_times());
            screen.note(self.show_timing(&timing, trainer.folder().path()))?;
        }
        Ok(Ended {
            outcome,
            unprinted: screen.unprinted,
        })
    }

    /// With `--json`: of a run that does not fit, the figures that the error has, too.
    fn say_what_fits(&self, error: &anyhow::Error, group: &Group) {
        if let (true, true, Some(DoesNotFit(memory))) =
            (self.json, group.is_first(), error.downcast_ref())
        {
            // The error is printed in any case.
            let _ = say!("{}", memory.to_json());
        }
    }

    /// Reads the configuration; `--data` stands for its `data.path`.
    fn configuration(&self) -> Result<Config> {
        let mut overrides = self.overrides.clone();
        if let Some(path) = &self.data {
            overrides.push(Override::text("data.path", &path.to_string_lossy()));
        }
        if let Ok(run) = RunFolder::open(&self.config) {
            let run = run.path().display();
            bail!(
                "{run}: is a run, expected a configuration: `hlx train {run}/config.toml --out {run} --resume` goes on with it"
            );
        }
        Config::load(&self.config, &overrides)
    }

    /// Says where the run was interrupted, and the command that continues with it.
    fn say_how_to_go_on(&self, trainer: &Trainer, screen: &Screen) -> Result<()> {
        let run = trainer.folder().path();
        let (step, total) = (trainer.step(), trainer.total_steps());
        let resume = self.resume_command(run);
        let text = if self.json {
            serde_json::json!({
                "kind": "interrupted", "step": step, "total_steps": total, "run": run,
                "resume": resume,
            })
            .to_string()
        } else {
            format!(
                "\ninterrupted after step {step} of {total}; its checkpoint is in {}\ngo on with  {resume}",
                run.display()
            )
        };
        screen.line(&text)
    }

    /// The command line that continues with this run.
    fn resume_command(&self, run: &Path) -> String {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = vec!["train".to_owned(), path(&self.config)];
        words.extend(["--out".to_owned(), path(run), "--resume".to_owned()]);
        if self.device.device != "auto" {
            words.extend(["--device".to_owned(), self.device.device.clone()]);
        }
        if let Some(devices) = &self.devices {
            words.extend(["--devices".to_owned(), devices.clone()]);
        }
        if self.tui {
            words.push("--tui".to_owned());
        }
        if self.share_devices {
            words.push("--share-devices".to_owned());
        }
        if let Some(data) = &self.data {
            words.extend(["--data".to_owned(), path(data)]);
        }
        for change in &self.overrides {
            words.extend(["--set".to_owned(), change.to_string()]);
        }
        if self.json {
            words.push("--json".to_owned());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        next::command(&words)
    }

    fn show_timing(&self, timing: &RunTiming, run: &Path) -> Result<()> {
        let named = self.profile.clone().flatten();
        let path = named.unwrap_or_else(|| run.join("profile.json"));
        timing.write_trace(&path)?;
        if self.json {
            return say!("{}", timing.to_json());
        }
        say!("\n{}", timing.table())?;
        say!("trace      {} (opens in ui.perfetto.dev)", path.display())
    }

    fn start(&self) -> Result<Start> {
        let name = self
            .config
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        let runs = Path::new(RUNS);
        Ok(match (&self.out, self.resume) {
            (Some(out), true) => Start::Resume(out.clone()),
            (Some(out), false) => Start::New(out.clone()),
            (None, false) => Start::Numbered {
                runs: runs.to_owned(),
                name: name.into_owned(),
            },
            (None, true) => {
                let latest = latest_folder(runs, &name);
                Start::Resume(latest.with_context(|| format!("{RUNS}/{name}: there is no run"))?)
            }
        })
    }
}

/// Fails for `--devices` that are not one per rank, where a launcher has started the ranks.
fn check_devices(devices: &[String], n_ranks: usize) -> Result<()> {
    let n = devices.len();
    ensure!(
        n == 0 || n == n_ranks,
        "--devices: {n} devices, expected one for each of the {n_ranks} ranks"
    );
    Ok(())
}

/// Ranks other than 0 print nothing, and stop as it does.
struct Quiet(Interrupt);

impl Observer for Quiet {
    fn must_stop(&self) -> bool {
        self.0.has_arrived()
    }
}
