//! A thread beside the step, which does what it is given in order.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use hlx_nn::Result;

use super::broken;

/// A thread that does one job after another, until one fails.
pub(super) struct Worker<J, T> {
    name: &'static str,
    jobs: Option<Sender<J>>,
    done: Receiver<Result<T>>,
    thread: Option<JoinHandle<()>>,
    /// Jobs whose results were not taken.
    n_under_way: usize,
}

impl<J: Send + 'static, T: Send + 'static> Worker<J, T> {
    /// Starts the thread; its name is for people.
    pub fn new(name: &'static str, work: impl Fn(J) -> Result<T> + Send + 'static) -> Self {
        let ((jobs, incoming), (outgoing, done)) = (channel(), channel());
        let thread = std::thread::spawn(move || {
            for job in incoming {
                let result = work(job);
                let is_broken = result.is_err();
                if outgoing.send(result).is_err() || is_broken {
                    break;
                }
            }
        });
        Self {
            name,
            jobs: Some(jobs),
            done,
            thread: Some(thread),
            n_under_way: 0,
        }
    }

    /// Gives it a job. Does not wait.
    pub fn give(&mut self, job: J) {
        self.n_under_way += 1;
        // A thread that is gone has left its error, which `take` returns.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    /// Waits for what comes of the oldest job that was not taken.
    ///
    /// # Errors
    /// The job's own; and after that, that the thread has ended.
    pub fn take(&mut self) -> Result<T> {
        self.n_under_way = self.n_under_way.saturating_sub(1);
        let result = self.done.recv();
        result.map_err(|_| broken(&format!("the thread of {} has ended", self.name)))?
    }

    /// Waits for what comes of all jobs that were not taken, the oldest first.
    ///
    /// # Errors
    /// As [`Worker::take`].
    pub fn take_all(&mut self) -> Result<Vec<T>> {
        (0..self.n_under_way).map(|_| self.take()).collect()
    }

    /// Ends the thread when its jobs are done.
    pub fn join(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_in_order_until_one_fails() {
        let halve = |n: u32| match n % 2 {
            0 => Ok(n / 2),
            _ => Err(broken("an odd number")),
        };
        let mut worker = Worker::new("halves", halve);
        for n in [8, 6, 2] {
            worker.give(n);
        }
        assert_eq!(worker.take().ok(), Some(4));
        assert_eq!(worker.take_all().ok(), Some(vec![3, 1]));
        assert_eq!(worker.take_all().ok(), Some(Vec::new()));
        worker.give(5);
        worker.give(4);
        let error = |worker: &mut Worker<u32, u32>| match worker.take() {
            Ok(n) => panic!("{n}"),
            Err(error) => error.to_string(),
        };
        assert!(error(&mut worker).ends_with("an odd number"));
        assert!(error(&mut worker).ends_with("the thread of halves has ended"));
        worker.give(2);
        worker.join();
    }
}
