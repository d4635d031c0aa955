//! HLX and PyTorch in turns: both are kept alive and asked for one case after the other, A B A B,
//! so that a clock that drifts or a neighbour that wakes up meets both alike.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_core::Context;

use crate::cases::{Case, cases, scale_of, select};
use crate::facts::facts;
use crate::peer_table::{Comparison, PeerRow, StartRow};
use crate::power::PowerMeter;
use crate::statistics::median;

/// Where the measurements go, and what is to be measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder for peers.csv, start.csv and peers.md.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A family, an operation, one case, or `start`: the time to the first step.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// The threads of both sides on the CPU.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// How often each side is asked for each case.
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
    /// Another program that speaks the same protocol, with its first arguments, instead of PyTorch.
    #[arg(long, value_name = "COMMAND", conflicts_with = "script")]
    peer: Option<String>,
}

/// A side: a program and what every call of it has in front.
struct Side {
    program: String,
    first_arguments: Vec<String>,
    device: String,
    threads: Option<usize>,
}

/// A side that answers.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    description: String,
}

/// The answer to a request: its numbers by name.
type Answer = Vec<(String, f64)>;

/// Finds a number of an answer.
fn number(answer: &Answer, key: &str) -> Option<f64> {
    let found = answer.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| *value)
}

impl Side {
    fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.first_arguments).args(verb);
        command.args(["--device", &self.device]);
        if let Some(threads) = self.threads {
            // Both sides read it; PyTorch's libraries have names of their own.
            for variable in ["HLX_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
                command.env(variable, threads.to_string());
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn start(&self, verb: &[&str]) -> Result<Session> {
        Session::start(&mut self.command(verb))
    }
}

impl Session {
    fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {name}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("a program without output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
            description: name,
        })
    }

    /// Starts a side that serves, and reads what it calls itself.
    fn serve(side: &Side) -> Result<Self> {
        let mut session = side.start(&["serve"])?;
        let line = session.line()?;
        let Some(description) = line.strip_prefix("ready ") else {
            bail!("{} said `{line}`, expected `ready ..`", session.description);
        };
        session.description = description.to_owned();
        Ok(session)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let count = self.output.read_line(&mut line)?;
        ensure!(count > 0, "{} ended before it answered", self.description);
        Ok(line.trim_end().to_owned())
    }

    /// Reads an answer; what the side could not do is `Err` inside.
    fn answer(&mut self) -> Result<Result<Answer, String>> {
        let line = self.line()?;
        if let Some(message) = line.strip_prefix("error ") {
            return Ok(Err(message.to_owned()));
        }
        let Some(rest) = line.strip_prefix("ok ") else {
            bail!("{} said `{line}`, expected `ok ..`", self.description);
        };
        let pairs = rest.split(' ').filter_map(|pair| pair.split_once('='));
        let numbers = pairs.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)));
        Ok(Ok(numbers.collect()))
    }

    fn ask(&mut self, case: &str) -> Result<Result<Answer, String>> {
        let input = self.input.as_mut().context("a side that has ended")?;
        writeln!(input, "run {case}")?;
        input.flush()?;
        self.answer()
    }

    /// Ends the side's input and waits for it.
    fn end(mut self) -> Result<()> {
        self.input = None;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without effect on a side that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures both sides and writes the tables.
///
/// # Errors
/// A side that cannot be started or ends early; what one side cannot run is left out with a line.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (run_facts, scale, is_cpu) = {
        let ctx = Context::open_from_env(&arguments.device)?;
        let scale = scale_of(&ctx, arguments.quick);
        (facts(&ctx), scale, ctx.is_cpu())
    };
    let only_start = arguments.kernel.as_deref() == Some("start");
    let chosen = match only_start {
        true => Vec::new(),
        false => select(cases(scale), arguments.kernel.as_deref())?,
    };
    let sides = sides(arguments, is_cpu)?;
    let mut comparison = Comparison {
        facts: run_facts,
        ..Comparison::default()
    };
    if only_start || arguments.kernel.is_none() {
        let configuration = match (arguments.quick, is_cpu) {
            (true, _) => "mini",
            (false, true) => "tiny",
            (false, false) => "medium",
        };
        comparison.starts = starts(&sides, configuration, is_cpu)?;
    }
    if !chosen.is_empty() {
        in_turns(&sides, &chosen, (arguments.rounds, is_cpu), &mut comparison)?;
    }
    let page = comparison.to_markdown();
    println!("{page}");
    if let Some(out) = &arguments.out {
        comparison.write(out)?;
        std::fs::write(out.join("peers.md"), page)?;
        eprintln!("wrote {}", out.display());
    }
    Ok(())
}

fn sides(arguments: &Arguments, is_cpu: bool) -> Result<[Side; 2]> {
    let program = std::env::current_exe()?.display().to_string();
    let hlx = Side {
        program,
        first_arguments: Vec::new(),
        device: std::env::var("HLX_DEVICE").unwrap_or(arguments.device.clone()),
        threads: arguments.threads,
    };
    if let Some(peer) = &arguments.peer {
        let mut words = peer.split_whitespace().map(str::to_owned);
        let program = words.next().context("--peer names no program")?;
        let peer = Side {
            program,
            first_arguments: words.collect(),
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
        device: if is_cpu { "cpu" } else { "cuda" }.to_owned(),
        threads: arguments.threads,
    };
    Ok([hlx, peer])
}

/// The script in the repository, from wherever Cargo runs us, or from the current folder.
fn default_script() -> PathBuf {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(benches) => Path::new(&benches).join("peers/peers.py"),
        None => PathBuf::from("benches/peers/peers.py"),
    }
}

/// The answers of one side to one case, in all rounds.
#[derive(Default)]
struct Heard {
    times: Vec<f64>,
    prepared: Vec<f64>,
    watts: Vec<f64>,
    error: Option<String>,
}

impl Heard {
    /// Forgets all but an error.
    fn forget(&mut self) {
        *self = Self {
            error: self.error.take(),
            ..Self::default()
        };
    }

    /// Asks a side once more; after an error never again.
    fn ask(&mut self, session: &mut Session, name: &str, meter: Option<&PowerMeter>) -> Result<()> {
        if self.error.is_some() {
            return Ok(());
        }
        let start = Instant::now();
        match session.ask(name)? {
            Ok(answer) => {
                self.times.extend(number(&answer, "ms"));
                self.prepared.extend(number(&answer, "graph_ms"));
                self.watts
                    .extend(meter.and_then(|meter| meter.mean_since(start)));
            }
            Err(message) => {
                eprintln!("{name}: {}: {message}", session.description);
                self.error = Some(message);
            }
        }
        Ok(())
    }
}

fn in_turns(
    [hlx, peer]: &[Side; 2],
    cases: &[Case],
    (rounds, is_cpu): (u32, bool),
    comparison: &mut Comparison,
) -> Result<()> {
    let mut hlx = Session::serve(hlx)?;
    let mut peer = Session::serve(peer)?;
    // What HLX says of itself counts the threads that it was given.
    let facts = &mut comparison.facts;
    facts.retain(|(key, _)| !["driver", "threads"].contains(&key.as_str()));
    facts.push(("hlx".to_owned(), hlx.description.clone()));
    facts.push(("peer".to_owned(), peer.description.clone()));
    facts.push(("rounds".to_owned(), rounds.to_string()));
    // Power is the GPU's: it says nothing of work on the CPU.
    let meter = (!is_cpu).then(PowerMeter::start);
    let meter = meter.as_ref();
    for (place, case) in cases.iter().enumerate() {
        let name = case.name();
        eprintln!("{}/{} {name}", place + 1, cases.len());
        let (mut ours, mut theirs, mut compiled) = Default::default();
        let compiled_name = (case.label.is_some() && !is_cpu).then(|| format!("{name} compiled"));
        for round in 0..=rounds {
            Heard::ask(&mut ours, &mut hlx, &name, meter)?;
            Heard::ask(&mut theirs, &mut peer, &name, meter)?;
            if let Some(name) = &compiled_name {
                Heard::ask(&mut compiled, &mut peer, name, meter)?;
            }
            // The first round made buffers and found a clock that had fallen meanwhile.
            if round == 0 {
                for heard in [&mut ours, &mut theirs, &mut compiled] {
                    heard.forget();
                }
            }
        }
        let row = row_of(case, &ours, &theirs, &compiled);
        eprintln!("    {}", row.line());
        comparison.rows.push(row);
    }
    hlx.end()?;
    peer.end()
}

fn row_of(case: &Case, ours: &Heard, theirs: &Heard, compiled: &Heard) -> PeerRow {
    let known = |values: &[f64]| (!values.is_empty()).then(|| median(values));
    let prepared = match case.label {
        Some(_) => &compiled.times,
        None => &theirs.prepared,
    };
    let milliseconds = known(&ours.times);
    PeerRow {
        case: case.name(),
        unit: case.amount().unit().to_owned(),
        hlx_ms: milliseconds,
        peer_ms: known(&theirs.times),
        prepared_ms: known(prepared),
        hlx_watts: known(&ours.watts),
        peer_watts: known(&theirs.watts),
        hlx_rate: milliseconds.map(|ms| case.amount().rate(ms)),
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
            // Another program than PyTorch's side is HLX's own, which has one mode.
            if side
                .first_arguments
                .iter()
                .any(|word| word.ends_with(".py"))
            {
                verb.extend_from_slice(mode);
            }
            eprintln!("first step of {configuration}: {name}, {cache}");
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
                Err(error) => eprintln!("{what}: {error:#}"),
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
    let told = |answer: Result<Answer, String>| answer.map_err(anyhow::Error::msg);
    told(session.answer()?)?;
    let seconds = start.elapsed().as_secs_f64();
    let later = told(session.answer()?)?;
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
