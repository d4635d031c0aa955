//! Requests that wait, and the devices that take them: one queue for all devices of a model.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::remembered::Remembered;
use super::work::{Job, Work};

/// Requests that wait.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Requests that may wait.
    limit: usize,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Work>,
    devices: Vec<Taker>,
    is_closed: bool,
    n_cancelled: u64,
}

/// A device that takes requests.
#[derive(Debug)]
struct Taker {
    /// Whether it takes more.
    is_open: bool,
    /// Whether it has nothing to do.
    is_idle: bool,
    n_free: usize,
    /// Requests that it has taken and not answered.
    n_running: usize,
    remembered: Remembered,
}

/// What a device gets.
#[derive(Debug)]
pub(super) enum Taken {
    Work(Work),
    /// Nothing for now.
    Nothing,
    /// It is to give its requests back, and takes no more.
    Withdrawn,
    /// No request can come any more.
    End,
}

impl Queue {
    /// A queue for devices of some places, each of which remembers as many tokens.
    pub fn new(n_devices: usize, n_places: usize, remembers: usize, limit: usize) -> Self {
        let taker = || Taker {
            is_open: true,
            is_idle: false,
            n_free: n_places,
            n_running: 0,
            // Where one device takes all, nothing has to be known of it.
            remembered: Remembered::new(if n_devices > 1 { remembers } else { 0 }),
        };
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                devices: (0..n_devices).map(|_| taker()).collect(),
                is_closed: false,
                n_cancelled: 0,
            }),
            changed: Condvar::new(),
            limit,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds requests, or none of them.
    ///
    /// # Errors
    /// How many wait where there would be too many; `None` where no device takes requests any more.
    pub fn add(&self, new: Vec<Work>) -> Result<(), Option<usize>> {
        let mut state = self.state();
        if state.is_closed {
            return Err(None);
        }
        state.drop_cancelled();
        let n_waiting = state.waiting.len();
        if n_waiting + new.len() > self.limit {
            return Err(Some(n_waiting));
        }
        state.waiting.extend(new);
        self.changed.notify_all();
        Ok(())
    }

    /// Takes no more requests; those that wait are answered.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Requests that wait, and how many have been cancelled while they did.
    pub fn counts(&self) -> (usize, u64) {
        let mut state = self.state();
        state.drop_cancelled();
        (state.waiting.len(), state.n_cancelled)
    }

    /// Takes the next request that is for a device, which has `n_free` places and `n_running` requests. One that is idle
    /// waits for it.
    pub fn take(&self, device: usize, n_free: usize, n_running: usize, is_idle: bool) -> Taken {
        let mut state = self.state();
        let own = &mut state.devices[device];
        let is_changed = (own.n_free == 0) != (n_free == 0);
        (own.n_free, own.n_running, own.is_idle) = (n_free, n_running, is_idle);
        if is_changed || (is_idle && state.is_closed) {
            self.changed.notify_all();
        }
        loop {
            if !state.devices[device].is_open {
                return Taken::Withdrawn;
            }
            state.drop_cancelled();
            if let Some(work) = state.take(device) {
                // Others may be free for what this device would have taken next.
                self.changed.notify_all();
                return Taken::Work(work);
            }
            if !is_idle {
                return Taken::Nothing;
            }
            if state.is_closed && state.waiting.is_empty() && state.are_all_idle() {
                return Taken::End;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that a device holds a sequence of tokens.
    pub fn remember(&self, device: usize, ids: &[u32]) {
        self.state().devices[device].remembered.add(ids);
    }

    /// Has a device give its requests back and take no more, if another one takes requests. Returns whether it is so.
    pub fn withdraw(&self, device: usize) -> bool {
        let mut state = self.state();
        let others = state.devices.iter().enumerate();
        let mut others = others.filter(|(number, _)| *number != device);
        if !others.any(|(_, one)| one.is_open) {
            return false;
        }
        if let Some(own) = state.devices.get_mut(device) {
            own.is_open = false;
        }
        self.changed.notify_all();
        true
    }

    /// Whether a device takes requests.
    pub fn is_open(&self, device: usize) -> bool {
        self.state().devices[device].is_open
    }

    /// Puts the requests of a device that was withdrawn before all others.
    pub fn give_back(&self, work: Vec<Work>) {
        let mut state = self.state();
        for one in work.into_iter().rev() {
            state.waiting.push_front(one);
        }
        self.changed.notify_all();
    }

    /// Notes that a device's thread has ended. The last one takes what waits with it.
    pub fn leave(&self, device: usize) {
        let mut state = self.state();
        let own = &mut state.devices[device];
        (own.is_open, own.is_idle) = (false, true);
        if !state.devices.iter().any(|one| one.is_open) {
            state.is_closed = true;
            state.waiting.clear();
        }
        self.changed.notify_all();
    }
}

impl State {
    fn drop_cancelled(&mut self) {
        let n_waiting = self.waiting.len();
        let is_cancelled = |work: &Work| work.is_cancelled.load(Ordering::Acquire);
        self.waiting.retain(|work| !is_cancelled(work));
        self.n_cancelled += (n_waiting - self.waiting.len()) as u64;
    }

    fn are_all_idle(&self) -> bool {
        self.devices.iter().all(|one| one.is_idle)
    }

    /// The first request that is for a device. A request that no device has a place for is not overtaken.
    fn take(&mut self, device: usize) -> Option<Work> {
        let mut at = None;
        for (place, work) in self.waiting.iter().enumerate() {
            match self.device_for(work) {
                None => break,
                Some(found) if found == device => {
                    at = Some(place);
                    break;
                }
                Some(_) => {}
            }
        }
        let work = self.waiting.remove(at?)?;
        let own = &mut self.devices[device];
        own.is_idle = false;
        own.n_running += 1;
        if let Job::Answer(request, _) = &work.job {
            own.n_free = own.n_free.saturating_sub(1);
            own.remembered.add(&request.prompt);
        }
        Some(work)
    }

    /// The device for a request: of those that take one the one that holds the longest beginning of its prompt, unless it
    /// has more than twice the work of the one that has the least.
    fn device_for(&self, work: &Work) -> Option<usize> {
        let (prompt, needs_place) = match &work.job {
            Job::Answer(request, _) => (&request.prompt[..], true),
            Job::Embed(..) => (&[][..], false),
        };
        let all = self.devices.iter().enumerate();
        let can_take = |(_, one): &(usize, &Taker)| one.is_open && (!needs_place || one.n_free > 0);
        let open: Vec<(usize, &Taker)> = all.filter(can_take).collect();
        let least = open.iter().map(|(_, one)| one.n_running).min()?;
        let near = open
            .iter()
            .filter(|(_, one)| one.n_running <= 2 * least + 1);
        let best = near.min_by_key(|(number, one)| {
            let held = one.remembered.beginning_of(prompt);
            (std::cmp::Reverse(held), one.n_running, *number)
        });
        best.map(|(number, _)| *number)
    }
}

/// Notes at the end of a device's thread that it has ended, also where it has panicked.
pub(super) struct Leaves<'q>(pub &'q Queue, pub usize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::engine::Request;

    fn work(prompt: &[u32]) -> Work {
        let request = Box::new(Request::new(prompt.to_vec(), 1));
        let job = Job::Answer(request, Box::new(|_| ()));
        Work::new(Arc::new(AtomicBool::new(false)), job)
    }

    /// The device that takes the only request, where each has some places and requests.
    fn taker(queue: &Queue, free_and_running: [(usize, usize); 2]) -> Option<usize> {
        // Both say what they have before the request comes.
        let take = |device: usize| {
            let (n_free, n_running) = free_and_running[device];
            matches!(queue.take(device, n_free, n_running, false), Taken::Work(_))
        };
        [1, 0].into_iter().find(|&device| take(device))
    }

    fn goes_to(
        queue: &Queue,
        prompt: &[u32],
        free_and_running: [(usize, usize); 2],
    ) -> Option<usize> {
        assert_eq!(taker(queue, free_and_running), None);
        queue.add(vec![work(prompt)]).expect("there is room");
        taker(queue, free_and_running)
    }

    #[test]
    fn a_request_goes_where_its_beginning_is_unless_there_is_much_to_do() {
        let queue = Queue::new(2, 4, 100, 8);
        assert_eq!(goes_to(&queue, &[1, 2, 3], [(4, 0), (4, 0)]), Some(0));
        assert_eq!(goes_to(&queue, &[7, 8], [(3, 1), (4, 0)]), Some(1));
        assert_eq!(goes_to(&queue, &[1, 2, 4], [(3, 1), (4, 0)]), Some(0));
        assert_eq!(goes_to(&queue, &[7, 8, 9], [(4, 0), (3, 1)]), Some(1));
        // Three are more than twice one, and one more.
        assert_eq!(goes_to(&queue, &[1, 2, 5], [(1, 3), (3, 1)]), Some(0));
        assert_eq!(goes_to(&queue, &[1, 2, 6], [(1, 2), (4, 0)]), Some(1));
        // The longer beginning counts.
        queue.remember(1, &[1, 2, 6, 7, 8]);
        assert_eq!(goes_to(&queue, &[1, 2, 6, 7], [(4, 0), (4, 0)]), Some(1));
        // A device without a place takes nothing, and a request that none has a place for waits.
        assert_eq!(goes_to(&queue, &[1, 2, 6, 7], [(2, 2), (0, 4)]), Some(0));
        assert_eq!(goes_to(&queue, &[1, 2, 6, 7], [(0, 4), (0, 4)]), None);
        assert_eq!(queue.counts(), (1, 0));
        assert_eq!(taker(&queue, [(0, 4), (1, 3)]), Some(1));
    }

    #[test]
    fn limits_count_over_all_and_the_last_device_stays() {
        let queue = Queue::new(2, 4, 100, 2);
        queue
            .add(vec![work(&[1]), work(&[2])])
            .expect("there is room");
        assert_eq!(queue.add(vec![work(&[3])]), Err(Some(2)));
        let left = work(&[4]);
        assert!(queue.withdraw(0) && !queue.withdraw(1));
        assert!(matches!(queue.take(0, 4, 0, true), Taken::Withdrawn));
        // What comes back counts for no limit, and is first.
        queue.give_back(vec![left]);
        assert_eq!(queue.counts(), (3, 0));
        queue.leave(0);
        let Taken::Work(first) = queue.take(1, 4, 0, false) else {
            panic!("the device takes it");
        };
        let Job::Answer(request, _) = first.job else {
            panic!("it is an answer");
        };
        assert_eq!(request.prompt, [4]);
        queue.close();
        assert_eq!(queue.add(vec![work(&[3])]), Err(None));
        assert!(matches!(queue.take(1, 4, 0, true), Taken::Work(_)));
        assert!(matches!(queue.take(1, 4, 0, true), Taken::Work(_)));
        assert!(matches!(queue.take(1, 4, 0, true), Taken::End));
        // A request whose ticket was dropped waits no longer.
        let queue = Queue::new(1, 4, 0, 1);
        let cancelled = work(&[1]);
        cancelled.is_cancelled.store(true, Ordering::Release);
        queue.add(vec![cancelled]).expect("there is room");
        queue.add(vec![work(&[2])]).expect("the first is gone");
        assert_eq!(queue.counts(), (1, 1));
    }
}
