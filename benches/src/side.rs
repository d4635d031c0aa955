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

/// The answer to a request: its numbers by name.
pub type Answer = Vec<(String, f64)>;

/// Finds a number of an answer.
pub fn number(answer: &Answer, key: &str) -> Option<f64> {
    let found = answer.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| *value)
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
        let mut session = Self::start(&mut side.command(&["serve"]))?;
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
        let numbers = pairs.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)));
        Ok(Ok(numbers.collect()))
    }

    fn request(&mut self, case: &str) -> Result<Result<Answer, String>> {
        let input = self.input.as_mut().context("a side that has ended")?;
        writeln!(input, "run {case}")?;
        input.flush()?;
        self.answer()
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
        match session.request(name)? {
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
