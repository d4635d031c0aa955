//! What `nvidia-smi` says of power and memory, where there is one.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Samples this early in a measurement still show what ran before.
const SETTLING: Duration = Duration::from_millis(100);

/// Reads the first GPU's power ten times per second.
pub struct PowerMeter {
    child: Option<Child>,
    samples: Arc<Mutex<Vec<(Instant, f64)>>>,
}

fn query(what: &str) -> Command {
    let mut command = Command::new("nvidia-smi");
    command.args(["--id=0", "--format=csv,noheader,nounits"]);
    command.arg(format!("--query-gpu={what}"));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// The bytes in use on the first GPU; nothing where `nvidia-smi` does not answer.
pub fn memory_in_use() -> Option<f64> {
    let output = query("memory.used").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mebibytes: f64 = text.trim().parse().ok()?;
    Some(mebibytes * 1_048_576.0)
}

impl PowerMeter {
    /// Starts to read; without `nvidia-smi` there is nothing to be read.
    pub fn start() -> Self {
        let samples: Arc<Mutex<Vec<(Instant, f64)>>> = Arc::default();
        let started = query("power.draw")
            .arg("--loop-ms=100")
            .stdout(Stdio::piped())
            .spawn();
        let mut child = started.ok();
        if let Some(output) = child.as_mut().and_then(|child| child.stdout.take()) {
            let samples = Arc::clone(&samples);
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if let Ok(watts) = line.trim().parse() {
                        let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
                        samples.push((Instant::now(), watts));
                    }
                }
            });
        }
        Self { child, samples }
    }

    /// The mean power since then, in watts.
    pub fn mean_since(&self, start: Instant) -> Option<f64> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let later = samples
            .iter()
            .rev()
            .take_while(|(at, _)| *at > start + SETTLING);
        let watts: Vec<f64> = later.map(|(_, watts)| *watts).collect();
        (!watts.is_empty()).then(|| watts.iter().sum::<f64>() / watts.len() as f64)
    }
}

impl Drop for PowerMeter {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
