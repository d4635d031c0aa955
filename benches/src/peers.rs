//! HLX and PyTorch in turns: both stay running and measure one case after the other, A B A B, so
//! that a drifting clock or a busy neighbour affects both alike.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Device, DeviceKind};

use crate::cases::{Case, cases, scale_of, select};
use crate::facts::facts;
use crate::peer_table::{Comparison, PeerRow, StartRow};
use crate::power::PowerMeter;
use crate::side::{Answer, Measured, Session, Side, known, number};
use crate::step_table::{ARITHMETICS, MODES, Mode, StepRow, StepTable};
use crate::{note, say};

/// Where the measurements go, and what is to be measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder for steps.csv, peers.csv, start.csv and peers.md.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A family, an operation, one case, or `start`: the time to the first step; may be repeated.
    #[arg(long = "kernel", value_name = "NAME")]
    kernels: Vec<String>,
    /// Modes of PyTorch's training steps, with commas; all that the device has if left out.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = mode_names())]
    modes: Vec<String>,
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// The threads of both sides on the CPU.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Rounds: measurements of each case on each side, of which the median counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Small sizes, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// The Python that has PyTorch.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    /// PyTorch's side; benches/peers/peers.py of the repository if left out.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Another program with the same protocol instead of PyTorch, with its first arguments.
    #[arg(long, value_name = "COMMAND", conflicts_with = "script")]
    peer: Option<String>,
}

/// Measures both sides and writes the tables.
///
/// # Errors
/// A side that cannot be started or ends early; what one side cannot run is left out, and says why on standard error.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (run_facts, scale, is_cpu) = {
        let device = Device::open_from_env(&arguments.device)?;
        let scale = scale_of(&device, arguments.quick);
        // A software driver computes on the CPU, and so does PyTorch beside it.
        let is_gpu = device.info().kind == DeviceKind::VulkanGpu;
        (facts(&device), scale, !is_gpu)
    };
    let all = arguments.kernels.is_empty();
    let with_start = all || arguments.kernels.iter().any(|name| name == "start");
    let chosen = match all {
        true => cases(scale),
        false => {
            let named = arguments.kernels.iter().filter(|name| *name != "start");
            let named = named.map(|name| select(cases(scale), Some(name)));
            named.collect::<Result<Vec<_>>>()?.concat()
        }
    };
    let sides = sides(arguments, is_cpu)?;
    let mut comparison = Comparison {
        facts: run_facts,
        ..Comparison::default()
    };
    let (chosen_steps, chosen): (Vec<Case>, Vec<Case>) =
        chosen.into_iter().partition(|case| case.label.is_some());
    let mut step_table = StepTable::default();
    if with_start {
        let configuration = match (arguments.quick, is_cpu) {
            (true, _) => "mini",
            (false, true) => "tiny",
            (false, false) => "medium",
        };
        comparison.starts = starts(&sides, configuration, is_cpu)?;
    }
    if !chosen.is_empty() || !chosen_steps.is_empty() {
        let with_steps = !chosen_steps.is_empty();
        let mut turns = Turns::start(&sides, arguments, is_cpu, with_steps)?;
        turns.describe(&mut comparison.facts);
        step_table.facts.clone_from(&comparison.facts);
        for case in &chosen_steps {
            step_table.rows.push(turns.step(case)?);
        }
        for case in &chosen {
            comparison.rows.push(turns.operation(case)?);
        }
        turns.end()?;
    }
    let page = step_table.to_markdown() + &comparison.to_markdown();
    say!("{page}");
    if let Some(out) = &arguments.out {
        comparison.write(out)?;
        step_table.write(out)?;
        hlx_core::files::write_atomically(&out.join("peers.md"), page.as_bytes())?;
        note!("wrote {}", out.display());
    }
    Ok(())
}

fn mode_names() -> clap::builder::PossibleValuesParser {
    MODES.map(|mode| mode.request).into()
}

fn sides(arguments: &Arguments, is_cpu: bool) -> Result<[Side; 2]> {
    let program = std::env::current_exe()?.display().to_string();
    let hlx = Side {
        program,
        first_arguments: Vec::new(),
        last_arguments: Vec::new(),
        device: std::env::var("HLX_DEVICE").unwrap_or(arguments.device.clone()),
        threads: arguments.threads,
    };
    if let Some(peer) = &arguments.peer {
        let mut words = peer.split_whitespace().map(str::to_owned);
        let program = words.next().context("--peer names no program")?;
        let peer = Side {
            program,
            first_arguments: words.collect(),
            last_arguments: Vec::new(),
            device: hlx.device.clone(),
            threads: arguments.threads,
        };
        return Ok([hlx, peer]);
    }
    let script = match &arguments.script {
        Some(script) => script.clone(),
        None => default_script(),
    };
    ensure!(
        script.is_file(),
        "{}: there is no such file",
        script.display()
    );
    let peer = Side {
        program: arguments.python.clone(),
        first_arguments: vec![script.display().to_string()],
        last_arguments: Vec::new(),
        device: if is_cpu { "cpu" } else { "cuda" }.to_owned(),
        threads: arguments.threads,
    };
    Ok([hlx, peer])
}

/// The script in the repository, from wherever Cargo runs us, or from the current folder.
pub(crate) fn default_script() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(benches) => Path::new(&benches).join("peers/peers.py"),
        None => PathBuf::from("benches/peers/peers.py"),
    }
}

/// Both sides, running.
struct Turns {
    hlx: Session,
    /// HLX in its other arithmetics, which training steps alone ask.
    others: Vec<Session>,
    peer: Session,
    rounds: u32,
    modes: Vec<String>,
    is_cpu: bool,
    meter: Option<PowerMeter>,
}

impl Turns {
    fn start(
        [hlx, peer]: &[Side; 2],
        arguments: &Arguments,
        is_cpu: bool,
        with_steps: bool,
    ) -> Result<Self> {
        let others = match (with_steps, is_cpu) {
            (false, _) => &ARITHMETICS[..0],
            (true, true) => &ARITHMETICS[..1],
            (true, false) => &ARITHMETICS[..],
        };
        let other = |arithmetic: &&str| {
            let mut side = hlx.clone();
            side.last_arguments
                .extend(["--arithmetic", arithmetic].map(str::to_owned));
            Session::serve(&side)
        };
        Ok(Self {
            hlx: Session::serve(hlx)?,
            others: others.iter().map(other).collect::<Result<_>>()?,
            peer: Session::serve(peer)?,
            rounds: arguments.rounds,
            modes: arguments.modes.clone(),
            is_cpu,
            // The meter reads the GPU's power, which says nothing of work on the CPU.
            meter: (!is_cpu).then(PowerMeter::start),
        })
    }

    /// Adds what the sides call themselves; HLX's own line counts the threads it was given.
    fn describe(&self, facts: &mut Vec<(String, String)>) {
        facts.retain(|(key, _)| !["driver", "threads"].contains(&key.as_str()));
        facts.push(("hlx".to_owned(), self.hlx.description.clone()));
        facts.push(("peer".to_owned(), self.peer.description.clone()));
        facts.push(("rounds".to_owned(), self.rounds.to_string()));
    }

    /// Measures HLX's side of a case and the peer's requests in turns; the first round, which
    /// makes the data while the GPU's clock falls, does not count.
    fn measure(&mut self, case: &str, requests: &[String]) -> Result<InTurns> {
        note!("{case}");
        let some = |n: usize| (0..n).map(|_| Measured::default()).collect();
        let mut all = InTurns {
            hlx: Measured::default(),
            others: some(self.others.len()),
            peer: some(requests.len()),
        };
        let meter = self.meter.as_ref();
        for round in 0..=self.rounds {
            all.hlx.measure(&mut self.hlx, case, meter)?;
            for (measured, session) in all.others.iter_mut().zip(&mut self.others) {
                measured.measure(session, case, meter)?;
            }
            for (measured, request) in all.peer.iter_mut().zip(requests) {
                measured.measure(&mut self.peer, request, meter)?;
            }
            if round == 0 {
                all.clear();
            }
        }
        Ok(all)
    }

    /// Measures an operation.
    fn operation(&mut self, case: &Case) -> Result<PeerRow> {
        let name = case.name();
        let found = self.measure(&name, std::slice::from_ref(&name))?;
        let (ours, theirs) = (found.hlx, found.peer);
        let hlx_ms = ours.median_ms();
        let row = PeerRow {
            case: name,
            unit: case.amount().unit().to_owned(),
            hlx_ms,
            peer_ms: theirs[0].median_ms(),
            prepared_ms: known(&theirs[0].prepared),
            hlx_watts: known(&ours.watts),
            peer_watts: known(&theirs[0].watts),
            hlx_rate: hlx_ms.map(|ms| case.amount().rate(ms)),
        };
        note!("    {}", row.line());
        Ok(row)
    }

    /// Measures a training step in each of PyTorch's modes: those of f32 alone on the CPU.
    fn step(&mut self, case: &Case) -> Result<StepRow> {
        let name = case.name();
        let is_wanted = |mode: &Mode| {
            let is_named = self.modes.iter().any(|name| name == mode.request);
            (self.modes.is_empty() || is_named) && (!self.is_cpu || mode.on_cpu)
        };
        let places: Vec<usize> = (0..MODES.len())
            .filter(|&place| is_wanted(&MODES[place]))
            .collect();
        let requests: Vec<String> = places
            .iter()
            .map(|&place| format!("{name} {}", MODES[place].request))
            .collect();
        let found = self.measure(&name, &requests)?;
        let (ours, theirs) = (found.hlx, found.peer);
        let of_other = |place: usize| found.others.get(place).and_then(Measured::median_ms);
        let mut peer_ms = [None; MODES.len()];
        for (&place, measured) in places.iter().zip(&theirs) {
            peer_ms[place] = measured.median_ms();
        }
        let hlx_ms = ours.median_ms();
        let row = StepRow {
            name: name.trim_start_matches("step ").to_owned(),
            hlx_ms,
            arithmetic_ms: std::array::from_fn(of_other),
            peer_ms,
            hlx_tflops: hlx_ms.map(|ms| case.amount().rate(ms)),
            hlx_watts: known(&ours.watts),
            peer_watts: theirs.first().and_then(|first| known(&first.watts)),
        };
        note!("    {}", row.line());
        Ok(row)
    }

    fn end(self) -> Result<()> {
        self.hlx.end()?;
        self.others.into_iter().try_for_each(Session::end)?;
        self.peer.end()
    }
}

/// What was measured of a case: HLX, HLX in its other arithmetics, and the peer's requests.
struct InTurns {
    hlx: Measured,
    others: Vec<Measured>,
    peer: Vec<Measured>,
}

impl InTurns {
    fn clear(&mut self) {
        self.hlx.clear();
        let all = self.others.iter_mut().chain(&mut self.peer);
        all.for_each(Measured::clear);
    }
}

/// The first step of each side, with empty caches and again with what the first left there.
fn starts([hlx, peer]: &[Side; 2], configuration: &str, is_cpu: bool) -> Result<Vec<StartRow>> {
    let caches = std::env::temp_dir().join(format!("hlx-bench-{}", std::process::id()));
    let mut rows = Vec::new();
    let modes: &[(&str, &Side, &[&str])] = &[
        ("HLX", hlx, &[]),
        ("PyTorch, eager", peer, &["--mode", "eager"]),
        ("PyTorch, compiled", peer, &["--mode", "compiled"]),
    ];
    for (place, (name, side, mode)) in modes.iter().enumerate() {
        for cache in ["cold", "warm"] {
            let mut verb = vec!["first-step", configuration];
            // A peer that is not a script is another hlx-bench, which has one mode.
            if side
                .first_arguments
                .iter()
                .any(|word| word.ends_with(".py"))
            {
                verb.extend_from_slice(mode);
            }
            note!("first step of {configuration}: {name}, {cache}");
            let mut command = side.command(&verb);
            let folder = caches.join(place.to_string());
            for variable in [
                "HLX_CACHE_DIR",
                "__GL_SHADER_DISK_CACHE_PATH",
                "TORCHINDUCTOR_CACHE_DIR",
                "TRITON_CACHE_DIR",
            ] {
                let own = folder.join(variable);
                std::fs::create_dir_all(&own)?;
                command.env(variable, own);
            }
            let what = format!("{configuration}, {name}, {cache}");
            match first_step(&mut command, what.clone(), is_cpu) {
                Ok(row) => rows.push(row),
                Err(error) => note!("{what}: {error:#}"),
            }
        }
    }
    let _ = std::fs::remove_dir_all(&caches);
    Ok(rows)
}

fn first_step(command: &mut Command, what: String, is_cpu: bool) -> Result<StartRow> {
    let before = if is_cpu {
        None
    } else {
        crate::power::memory_in_use()
    };
    let start = Instant::now();
    let mut session = Session::start(command)?;
    let fine = |answer: Result<Answer, String>| answer.map_err(anyhow::Error::msg);
    fine(session.answer()?)?;
    let seconds = start.elapsed().as_secs_f64();
    let later = fine(session.answer()?)?;
    let after = before.and_then(|_| crate::power::memory_in_use());
    session.end()?;
    Ok(StartRow {
        what,
        seconds,
        // PyTorch does not say what it holds on the CPU.
        held_bytes: number(&later, "held_bytes").filter(|&bytes| bytes > 0.0),
        device_bytes: after.zip(before).map(|(after, before)| after - before),
    })
}
