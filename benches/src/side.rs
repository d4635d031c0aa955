//! One side of a comparison: a program that serves measurements line by line (`serve.rs`).

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::note;
use crate::power::PowerMeter;
use crate::statistics::median;

/// How a side is started: the program, the arguments before each verb, the device and the threads.
#[derive(Clone)]
pub struct Side {
    /// The program.
    pub program: String,
    /// The arguments before the verb.
    pub first_arguments: Vec<String>,
    /// The arguments after the device.
    pub last_arguments: Vec<String>,
    /// What `--device` takes.
    pub device: String,
    /// The threads on the CPU; the program's default if left out.
    pub threads: Option<usize>,
}

/// A running side.
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The side's description: program, device, version.
    pub description: String,
}

/// The answer to a request: its values by name.
pub type Answer = Vec<(String, String)>;

/// Finds a value of an answer.
pub fn value<'a>(answer: &'a Answer, key: &str) -> Option<&'a str> {
    let found = answer.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str())
}

/// Finds a number of an answer.
pub fn number(answer: &Answer, key: &str) -> Option<f64> {
    value(answer, key)?.parse().ok()
}

impl Side {
    /// The command that runs a verb of the side, with its input and output as pipes.
    pub fn command(&self, verb: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.first_arguments).args(verb);
        command.args(["--device", &self.device]);
        command.args(&self.last_arguments);
        if let Some(threads) = self.threads {
            // Both sides read it; PyTorch's libraries have names of their own.
            for variable in ["HLX_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"] {
                command.env(variable, threads.to_string());
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

impl Session {
    /// Starts a side.
    ///
    /// # Errors
    /// A program that cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
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

    /// Starts a side that serves, and reads its description.
    ///
    /// # Errors
    /// A program that cannot be started, or does not serve.
    pub fn serve(side: &Side) -> Result<Self> {
        Self::ready(&mut side.command(&["serve"]))
    }

    /// Starts a program that says `ready DESCRIPTION`, with its input and output as pipes, and reads that.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub fn ready(command: &mut Command) -> Result<Self> {
        let mut session = Self::start(command)?;
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

    /// Reads an answer; the inner `Err` is what the side could not do.
    ///
    /// # Errors
    /// A side that ended, or a line that is not an answer.
    pub fn answer(&mut self) -> Result<Result<Answer, String>> {
        let line = self.line()?;
        if let Some(message) = line.strip_prefix("error ") {
            return Ok(Err(message.to_owned()));
        }
        let Some(rest) = line.strip_prefix("ok ") else {
            bail!("{} said `{line}`, expected `ok ..`", self.description);
        };
        let pairs = rest.split(' ').filter_map(|pair| pair.split_once('='));
        let values = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(Ok(values.collect()))
    }

    /// Sends a line such as `run matmul 512x512x512`, and reads its answer.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn request(&mut self, line: &str) -> Result<Result<Answer, String>> {
        let input = self.input.as_mut().context("a side that has ended")?;
        writeln!(input, "{line}")?;
        input.flush()?;
        self.answer()
    }

    /// The most memory that the process has had on the host so far, in bytes; nothing where the system does not say.
    pub fn peak_resident_bytes(&self) -> Option<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kibibytes * 1024.0)
    }

    /// Whether the side's process has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Ends the side's input and waits until the side has exited.
    ///
    /// # Errors
    /// What the system reports.
    pub fn end(mut self) -> Result<()> {
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

/// The measurements of one case on one side, in all rounds.
#[derive(Debug, Default)]
pub struct Measured {
    /// Milliseconds a run.
    pub times: Vec<f64>,
    /// Milliseconds a run in a CUDA graph, from sides that have them.
    pub prepared: Vec<f64>,
    /// Mean power in watts.
    pub watts: Vec<f64>,
    /// Bytes of device memory at the peak, from sides that say so.
    pub bytes: Vec<f64>,
    error: Option<String>,
}

impl Measured {
    /// Drops the measurements of a first round; an error stays.
    pub fn clear(&mut self) {
        *self = Self {
            error: self.error.take(),
            ..Self::default()
        };
    }

    /// The median time in milliseconds, if there is one.
    pub fn median_ms(&self) -> Option<f64> {
        known(&self.times)
    }

    /// Measures the case once more, unless it failed before.
    ///
    /// # Errors
    /// A side that ended; what it could not run is noted, and printed.
    pub fn measure(
        &mut self,
        session: &mut Session,
        name: &str,
        meter: Option<&PowerMeter>,
    ) -> Result<()> {
        if self.error.is_some() {
            return Ok(());
        }
        let start = Instant::now();
        match session.request(&format!("run {name}"))? {
            Ok(answer) => {
                self.times.extend(number(&answer, "ms"));
                self.prepared.extend(number(&answer, "graph_ms"));
                self.bytes.extend(number(&answer, "bytes"));
                self.watts
                    .extend(meter.and_then(|meter| meter.mean_since(start)));
            }
            Err(message) => {
                note!("{name}: {}: {message}", session.description);
                self.error = Some(message);
            }
        }
        Ok(())
    }
}

/// The median of values, if there are any.
pub fn known(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}
