//! Answers on the calling thread: the engine's loop over requests that are all there at its beginning.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use hlx_autograd::no_grad;

use super::counts::Counts;
use super::memory::Memory;
use super::queue::Queue;
use super::request::{Event, Request};
use super::speaker::Speaker;
use super::work::{Job, Work};
use super::worker::Worker;
use super::{Limits, Ticket};

/// Gets what happens to the request of a number; ends it by returning true.
pub(crate) type Hear<'a> = &'a mut dyn FnMut(usize, Event<Vec<u8>>) -> Result<bool>;

/// Answers requests, in the order of which they come to their places, and returns what was read. A request that `hear`
/// ends has no further event.
///
/// # Errors
/// That of `hear`, which ends all requests, and what the device reports: what had happened before is told.
pub(crate) fn answer_here(
    speaker: Speaker<'_>,
    requests: Vec<Request>,
    memory: Memory,
    limits: Limits,
    hear: Hear<'_>,
) -> Result<Memory> {
    let counts = Counts::default();
    let told: Told = Arc::default();
    let mut tickets: Vec<Option<Ticket>> = Vec::with_capacity(requests.len());
    let mut work = Vec::with_capacity(requests.len());
    for (number, request) in requests.into_iter().enumerate() {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        tickets.push(Some(Ticket(Arc::clone(&is_cancelled))));
        let told = Arc::clone(&told);
        let hear = Box::new(move |event| {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.push((number, event));
        });
        let job = Job::Answer(Box::new(request), hear);
        work.push(Work::new(is_cancelled, job));
    }
    let queue = Queue::new(1, limits.places, 0, usize::MAX);
    // It takes any number.
    let _ = queue.add(work);
    queue.close();
    let mut worker = Worker::new(speaker, limits, memory, (&queue, 0), &counts)?;
    while worker.receive() {
        let done = no_grad(|| worker.round());
        pass_on(&told, &mut tickets, hear)?;
        done?;
    }
    Ok(worker.into_memory())
}

/// What has happened to the requests of numbers.
type Told = Arc<Mutex<Vec<(usize, Event<Vec<u8>>)>>>;

/// Tells what has happened, in the order of the requests.
fn pass_on(told: &Told, tickets: &mut [Option<Ticket>], hear: Hear<'_>) -> Result<()> {
    let mut told = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    told.sort_by_key(|(number, _)| *number);
    for (number, event) in told {
        if tickets[number].is_some() && hear(number, event)? {
            tickets[number] = None;
        }
    }
    Ok(())
}
