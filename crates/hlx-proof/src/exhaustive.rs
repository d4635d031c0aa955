//! Every input of every function: what `cargo xtask exhaustive` runs.
//!
//! A function of one argument has 2^32 inputs. They are computed on a device and by the CPU
//! device, in chunks; the words must be equal (every NaN read as 0x7fc00000), and the results
//! are measured against f64. Functions of two and three arguments are compared over structured
//! and random triples ([`PairRun`]). While the CPU computes and compares one chunk, the device
//! computes the next.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use hlx_core::Device;
use rayon::prelude::*;

use hlx_kernels::{KernelError, check_that};

mod compare;
mod functions;
mod pairs;
#[cfg(test)]
mod tests;

pub use compare::{Comparison, Difference, Worst};
pub use functions::{FUNCTIONS, Function};
#[cfg(test)]
pub(crate) use pairs::{EDGE_TRIPLES, launch_operation, triple};
pub use pairs::{OPERATIONS, PairRun};

/// Patterns of 32 bits.
const PATTERNS: u64 = 1 << 32;

/// A run over the inputs of one function.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// From one input's bits to the next's: 1 takes all 2^32.
    pub stride: u32,
    /// Inputs of a launch.
    pub chunk: usize,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Inputs compared.
    pub done: u64,
    /// Inputs in all.
    pub total: u64,
    /// Since the run's start.
    pub elapsed: Duration,
}

impl Run {
    /// Inputs that the run takes.
    pub fn inputs(&self) -> u64 {
        PATTERNS.div_ceil(u64::from(self.stride.max(1)))
    }

    /// Compares a function on `device` with the same on the CPU device `cpu`, and measures it
    /// against f64; `progress` is called after each chunk.
    ///
    /// # Errors
    /// [`KernelError::Argument`] for a stride or chunk of zero; what the launches answer.
    pub fn check(
        &self,
        device: &Device,
        cpu: &Device,
        function: &Function,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Comparison, KernelError> {
        check_that("exhaustive", self.stride > 0 && self.chunk > 0, || {
            format!(
                "stride {} and chunk {}, expected some",
                self.stride, self.chunk
            )
        })?;
        let compute = |device: &Device, begin: u64| {
            let len = (self.inputs() - begin).min(self.chunk as u64) as usize;
            let first = (begin * u64::from(self.stride)) as u32;
            let (inputs, out) = (device.alloc(len)?, device.alloc(len)?);
            functions::launch(device, function, first, self.stride, &inputs, &out)?;
            Ok(device.download_words(&out)?)
        };
        let mut all = Comparison::default();
        overlapped(
            self.inputs(),
            self.chunk,
            &|begin| compute(device, begin),
            &mut |begin, found: Vec<u32>| {
                let own = compute(cpu, begin)?;
                let first = (begin * u64::from(self.stride)) as u32;
                let word = |at: usize| first.wrapping_add(self.stride.wrapping_mul(at as u32));
                all = all.join(compare_chunk(&found, &own, function.exact, &|at| {
                    [word(at), 0, 0]
                }));
                Ok(())
            },
            progress,
        )?;
        Ok(all)
    }
}

/// Compares two chunks of words on all threads; `inputs` gives an element's inputs.
fn compare_chunk(
    found: &[u32],
    expected: &[u32],
    exact: Option<fn(f64) -> f64>,
    inputs: &(dyn Fn(usize) -> [u32; 3] + Sync),
) -> Comparison {
    /// Elements of a task.
    const TASK: usize = 1 << 14;
    let tasks = found.par_chunks(TASK).zip(expected.par_chunks(TASK));
    tasks
        .enumerate()
        .map(|(task, (found, expected))| {
            let mut part = Comparison::default();
            for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
                let words = inputs(task * TASK + at);
                part.add(words, found, expected);
                if let Some(exact) = exact {
                    part.measure(words[0], expected, exact);
                }
            }
            part
        })
        .reduce(Comparison::default, Comparison::join)
}

/// Computes chunks on a thread of its own, one ahead of what `consume` does with them in order.
fn overlapped<T: Send>(
    total: u64,
    chunk: usize,
    compute: &(dyn Fn(u64) -> Result<T, KernelError> + Sync),
    consume: &mut dyn FnMut(u64, T) -> Result<(), KernelError>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), KernelError> {
    let start = Instant::now();
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Ends early when the receiver is gone, after an error here or there.
            (0..total).step_by(chunk).try_for_each(|begin| {
                let computed = compute(begin);
                let failed = computed.is_err();
                match sender.send((begin, computed)) {
                    Ok(()) if !failed => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            })
        });
        for (begin, computed) in receiver {
            consume(begin, computed?)?;
            progress(Progress {
                done: (begin + chunk as u64).min(total),
                total,
                elapsed: start.elapsed(),
            });
        }
        Ok(())
    })
}
