//! Times a case: run by run for its statistics, and many in a row for comparisons.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hlx_core::{CoreError, Device, DeviceKind, Graph, Tuning};

use crate::cases::Case;
use crate::maker::Launches;
use crate::statistics::median;
use crate::step::{Training, configuration};
use crate::work::prepare;

/// Runs recorded at once.
const RUNS_A_RECORDING: usize = 20;
/// Milliseconds that a run of training steps takes at least.
const STEPS_MS: f64 = 25.0;
/// Untimed runs before the timed ones, and how long they go on on a GPU: its clock has fallen
/// while the host made the data (an H200's to a sixth), and takes that long to rise.
const WARM_UP: usize = 3;
const WARM_UP_TIME: Duration = Duration::from_millis(400);

/// A case on a device, ready to run.
pub enum Ready {
    /// An operation.
    Launches(Launches),
    /// A training step.
    Step(Box<Training>),
}

impl Ready {
    /// Prepares a case.
    ///
    /// # Errors
    /// What the device reports, and a configuration that does not exist.
    pub fn new(device: &Device, case: &Case) -> Result<Self> {
        let Some(label) = &case.label else {
            return Ok(Self::Launches(prepare(device, case)?));
        };
        let found = configuration(label).with_context(|| {
            let names = crate::step::NAMES.join(", ");
            format!("no configuration `{label}`; there are {names}")
        })?;
        Ok(Self::Step(Box::new(Training::new(device, &found)?)))
    }

    /// The launches of a training step's recording; `None` of operations.
    pub fn launches(&self) -> Option<usize> {
        match self {
            Self::Launches(_) => None,
            Self::Step(training) => Some(training.launches()),
        }
    }

    /// Measures single runs, in milliseconds each.
    ///
    /// On a GPU an operation's time is that between timestamps of the device; a run of several
    /// launches reaches from the first's start to the last's end. Elsewhere it is the time until
    /// the device is done by the host's clock; so for training steps, of which a run has as many
    /// in a row as take 25 ms: the host prepares the next while the device is at work.
    ///
    /// # Errors
    /// What the device reports.
    pub fn single_runs(&mut self, device: &Device, runs: usize) -> Result<Vec<f64>> {
        match self {
            Self::Launches(launches) if !device.is_cpu() => stamped_runs(device, launches, runs),
            Self::Launches(launches) => clocked_runs(device, runs, || Ok(launches()?)),
            Self::Step(training) => {
                warm_up(device, || training.step())?;
                let once = in_a_row(device, 0.0, |count| {
                    (0..count).try_for_each(|_| training.step())
                })?;
                let steps = (STEPS_MS / once).clamp(1.0, 1000.0) as usize;
                let times = clocked_runs(device, runs, || {
                    (0..steps).try_for_each(|_| training.step())
                })?;
                Ok(times.iter().map(|time| time / steps as f64).collect())
            }
        }
    }

    /// Measures runs one after another as a training step has them, by the host's clock:
    /// milliseconds per run, the median of several tries of about `seconds` in all.
    ///
    /// # Errors
    /// What the device reports.
    pub fn run_in_a_row(&mut self, device: &Device, seconds: f64) -> Result<f64> {
        match self {
            Self::Step(training) => in_a_row(device, seconds, |count| {
                (0..count).try_for_each(|_| training.step())
            }),
            Self::Launches(launches) => {
                let device = &keeping_unread(device)?;
                let (graph, ()) = device.record(&*launches)?;
                let once = in_a_row(device, seconds / 10.0, |count| replay(&graph, count))?;
                // Short runs are recorded many at once, or the host's submissions would count.
                let many = (2.0 / once).clamp(1.0, 200.0) as usize;
                let (graph, ()) = device.record(|| (0..many).try_for_each(|_| launches()))?;
                let row = in_a_row(device, seconds, |count| replay(&graph, count))?;
                Ok(row / many as f64)
            }
        }
    }
}

/// A handle whose recordings retain launches whose results nobody reads: those that are measured drop them.
///
/// # Errors
/// As [`Device::with_tuning`].
pub fn keeping_unread(device: &Device) -> Result<Device, CoreError> {
    device.with_tuning(Tuning {
        skips_unread: false,
        ..device.tuning().clone()
    })
}

/// Runs until the device is at its usual speed.
pub(crate) fn warm_up(device: &Device, mut run: impl FnMut() -> Result<()>) -> Result<()> {
    let (start, is_gpu) = (Instant::now(), device.info().kind == DeviceKind::VulkanGpu);
    let mut count = 0;
    while count < WARM_UP || (is_gpu && start.elapsed() < WARM_UP_TIME) {
        run()?;
        count += 1;
    }
    Ok(device.sync()?)
}

fn replay(graph: &Graph, count: usize) -> Result<()> {
    Ok((0..count).try_for_each(|_| graph.replay())?)
}

/// Times of single runs by the host's clock.
fn clocked_runs(
    device: &Device,
    runs: usize,
    mut run: impl FnMut() -> Result<()>,
) -> Result<Vec<f64>> {
    warm_up(device, &mut run)?;
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Instant::now();
        run()?;
        device.sync()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// Times of single runs by the device's timestamps. Runs of several launches are recorded one by
/// one: in one recording those of two runs might change places.
fn stamped_runs(device: &Device, launches: &Launches, runs: usize) -> Result<Vec<f64>> {
    let device = &keeping_unread(device)?;
    let record = |count: usize| device.record(|| (0..count).try_for_each(|_| launches()));
    let stamped = || -> Result<Vec<f64>> {
        let (graph, ()) = record(1)?;
        match graph.len() {
            1 => {
                let count = runs.min(RUNS_A_RECORDING);
                let (graph, ()) = record(count)?;
                collect(device, &graph, count, runs)
            }
            _ => collect(device, &graph, 1, runs),
        }
    };
    device.set_timing(true);
    let result = stamped();
    device.set_timing(false);
    result
}

fn collect(device: &Device, graph: &Graph, count: usize, runs: usize) -> Result<Vec<f64>> {
    warm_up(device, || {
        graph.replay()?;
        device.take_timing()?;
        Ok(())
    })?;
    let mut times = Vec::new();
    while times.len() < runs {
        graph.replay()?;
        let launches = device.take_timing()?.launches;
        ensure!(
            !launches.is_empty() && launches.len().is_multiple_of(count),
            "{} timestamps for {count} runs",
            launches.len()
        );
        let spans = launches.chunks_exact(launches.len() / count).map(|run| {
            let (first, last) = (&run[0], &run[run.len() - 1]);
            (last.start_us + last.duration_us - first.start_us) * 1e-3
        });
        times.extend(spans);
    }
    times.truncate(runs);
    Ok(times)
}

/// Tries of which the median counts.
const TRIES: usize = 5;

/// Milliseconds a run of `run(count)`, which launches `count` runs.
pub(crate) fn in_a_row(
    device: &Device,
    seconds: f64,
    mut run: impl FnMut(usize) -> Result<()>,
) -> Result<f64> {
    let mut timed = |count: usize| -> Result<f64> {
        let start = Instant::now();
        run(count)?;
        device.sync()?;
        Ok(start.elapsed().as_secs_f64() * 1e3 / count as f64)
    };
    timed(1)?;
    let once = timed(2)?;
    let count = (seconds * 1e3 / (TRIES as f64 * once)).clamp(1.0, 1e5) as usize;
    let times: Result<Vec<f64>> = (0..TRIES).map(|_| timed(count)).collect();
    Ok(median(&times?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Scale, cases};

    #[test]
    fn every_small_case_runs_on_every_device() -> Result<()> {
        for device in hlx_core::testing::own_devices() {
            for case in cases(Scale::Small) {
                let mut ready = Ready::new(&device, &case)?;
                let times = ready.single_runs(&device, 3)?;
                assert_eq!(times.len(), 3, "{}", case.name());
                assert!(times.iter().all(|time| *time > 0.0), "{}", case.name());
            }
        }
        Ok(())
    }

    #[test]
    fn runs_in_a_row_are_timed() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mut ready = Ready::new(&device, &Case::parse("matmul 32x32x32")?)?;
        assert!(ready.run_in_a_row(&device, 0.01)? > 0.0);
        assert!(Ready::new(&device, &Case::parse("step large")?).is_err());
        Ok(())
    }
}
