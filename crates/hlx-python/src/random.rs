//! The generator of seeds: each draw of random numbers takes one, and its elements depend on it alone.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use hlx_autograd::Tensor;
use hlx_data::random::{EPOCH_ORDER, permutation};
use pyo3::prelude::*;

use crate::error::{Kind, raised};

/// A sequence of 64-bit seeds (SplitMix64).
struct Seeds {
    initial: u64,
    state: u64,
    /// The epochs of shuffled samples that have begun.
    epochs: u64,
}

/// Where a generator stands: the fields of [`Seeds`].
type Stand = (u64, u64, u64);

impl Seeds {
    const fn new(seed: u64) -> Self {
        Self {
            initial: seed,
            state: seed,
            epochs: 0,
        }
    }

    /// The seed and the number of the next epoch.
    fn next_epoch(&mut self) -> (u64, u64) {
        let epoch = self.epochs;
        self.epochs += 1;
        (self.initial, epoch)
    }

    /// The next one: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The generator of all threads.
static DEFAULT: Mutex<Seeds> = Mutex::new(Seeds::new(0));

fn with<R>(seeds: &Mutex<Seeds>, body: impl FnOnce(&mut Seeds) -> R) -> R {
    body(&mut seeds.lock().unwrap_or_else(PoisonError::into_inner))
}

thread_local! {
    /// The counters of the masks of a graph that is being recorded on this thread, two u32 each.
    static COUNTERS: RefCell<Option<Vec<Tensor>>> = const { RefCell::new(None) };
}

/// Notes the counter of a mask if this thread records a graph, whose replays move it on.
pub fn note(counter: Tensor) -> bool {
    COUNTERS.with_borrow_mut(|counters| match counters {
        None => false,
        Some(counters) => {
            counters.push(counter);
            true
        }
    })
}

/// Notes counters from now on.
pub fn start_noting() {
    COUNTERS.set(Some(Vec::new()));
}

/// Ends that, and returns the counters.
pub fn end_noting() -> Vec<Tensor> {
    COUNTERS.take().unwrap_or_default()
}

/// Refuses a draw in a graph that is being recorded: every replay would have the same numbers.
pub fn check_unrecorded(operation: &str) -> PyResult<()> {
    match COUNTERS.with_borrow(Option::is_some) {
        false => Ok(()),
        true => Err(raised(
            Kind::Runtime,
            format!(
                "{operation}: numbers cannot be drawn while a graph is recorded, as each replay would have the same; \
                 draw them outside"
            ),
        )),
    }
}

/// A source of random numbers of its own: the draws that it is given to depend on its seed and their order alone.
#[pyclass(frozen, name = "Generator", module = "hlx")]
pub struct PyGenerator(Mutex<Seeds>);

#[pymethods]
impl PyGenerator {
    /// A generator with seed 0; `device` is accepted and means nothing, as draws are equal on all.
    #[new]
    #[pyo3(signature = (device = None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> Self {
        let _ = device;
        Self(Mutex::new(Seeds::new(0)))
    }

    /// Starts again from a seed.
    fn manual_seed<'py>(slf: Bound<'py, Self>, seed: i128) -> Bound<'py, Self> {
        with(&slf.get().0, |seeds| *seeds = Seeds::new(seed as u64));
        slf
    }

    /// The seed that it started from.
    fn initial_seed(&self) -> u64 {
        with(&self.0, |seeds| seeds.initial)
    }

    /// Where it stands, for `set_state`.
    fn get_state(&self) -> Stand {
        with(&self.0, |seeds| (seeds.initial, seeds.state, seeds.epochs))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let rebuilt = py.import("hlx._exchange")?.getattr("generator_of")?;
        (rebuilt, (slf.get().get_state(),))
            .into_pyobject(py)
            .map(Bound::into_any)
    }

    /// Goes on from where another one stood.
    fn set_state(&self, state: Stand) {
        let (initial, state, epochs) = state;
        let there = Seeds {
            initial,
            state,
            epochs,
        };
        with(&self.0, |seeds| *seeds = there);
    }

    /// The seed of the next draw.
    fn next_seed(&self) -> u64 {
        with(&self.0, Seeds::next)
    }
}

/// Starts the generator of all threads again from a seed.
#[pyfunction]
pub fn manual_seed(seed: i128) {
    with(&DEFAULT, |seeds| *seeds = Seeds::new(seed as u64));
}

/// The seed that the generator of all threads started from.
#[pyfunction]
pub fn initial_seed() -> u64 {
    with(&DEFAULT, |seeds| seeds.initial)
}

/// Where the generator of all threads is, for `set_default_state`.
#[pyfunction]
pub fn default_state() -> Stand {
    with(&DEFAULT, |seeds| (seeds.initial, seeds.state, seeds.epochs))
}

/// Puts the generator of all threads where it was.
#[pyfunction]
pub fn set_default_state(state: Stand) {
    let (initial, state, epochs) = state;
    let there = Seeds {
        initial,
        state,
        epochs,
    };
    with(&DEFAULT, |seeds| *seeds = there);
}

/// The seed of the next draw, of the generator given or that of all threads.
#[pyfunction]
#[pyo3(signature = (generator = None))]
pub fn next_seed(generator: Option<&PyGenerator>) -> u64 {
    with(
        generator.map_or(&DEFAULT, |generator| &generator.0),
        Seeds::next,
    )
}

/// The seed and the number of the next epoch of shuffled samples, of the generator given or that of all threads. What
/// else is drawn does not count.
#[pyfunction]
#[pyo3(signature = (generator = None))]
pub fn next_epoch(generator: Option<&PyGenerator>) -> (u64, u64) {
    with(
        generator.map_or(&DEFAULT, |generator| &generator.0),
        Seeds::next_epoch,
    )
}

/// The numbers below `n` in the order of an epoch, as hlx-data's loader has it.
#[pyfunction]
pub fn epoch_order(py: Python<'_>, seed: i128, epoch: u64, n: usize) -> PyResult<Vec<usize>> {
    if u32::try_from(n).is_err() {
        let text = format!("shuffle: the data set has {n} samples, expected below 2^32");
        return Err(raised(Kind::Value, text));
    }
    Ok(py.detach(|| permutation(seed as u64, EPOCH_ORDER, epoch as u32, n)))
}
