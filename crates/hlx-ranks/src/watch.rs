//! The watch over the other ranks' lives, whatever carries their beats: a thread that beats and looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::RankError;

/// Between two beats of a rank.
pub(crate) const BEAT: Duration = Duration::from_millis(100);
/// A rank without a beat for so long is lost: it is stopped, or its machine or the network is.
pub(crate) const SILENT: Duration = Duration::from_secs(10);
/// How long a rank may take to notice in a call that another is lost.
const NOTICE: Duration = Duration::from_secs(10);
/// A pause between two looks counts as this at most: a process that was itself stopped blames nobody.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Why a rank is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It has said so, with a line.
    Failed = 1,
    /// Its process is gone.
    Ended = 2,
    /// Its heartbeat has stopped.
    Silent = 3,
}

impl Cause {
    /// The cause of a number; an unknown one is a silence.
    pub fn of(number: u8) -> Self {
        match number {
            1 => Self::Failed,
            2 => Self::Ended,
            _ => Self::Silent,
        }
    }

    /// The cause in words. `line` is what the rank failed with.
    pub fn reason(self, line: impl FnOnce() -> String) -> String {
        match self {
            Self::Failed => line(),
            Self::Ended => "its process has ended".to_owned(),
            Self::Silent => format!("no sign of life for {} s", SILENT.as_secs()),
        }
    }
}

/// What a rank knows of the others' lives.
pub(crate) trait Life: Send + Sync + 'static {
    /// Shows the others that this rank lives.
    fn beat(&self);
    /// Looks at the others; returns the rank that was lost first.
    fn look(&self) -> Option<RankError>;
    /// Whether a call has failed because a rank is lost.
    fn has_noticed(&self) -> bool;
    /// Whether this rank has ended its part of the run.
    fn has_left(&self) -> bool;
}

/// The thread that beats, and looks at the others.
pub(crate) struct Watch {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the thread, which calls `when_lost` if a rank is lost and no call has noticed it for 10 s.
    pub fn start(life: Arc<dyn Life>, when_lost: impl Fn(&RankError) + Send + 'static) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stopped);
        let body = move || run(&*life, &is_stopped, &when_lost);
        Self {
            stopped,
            thread: Some(std::thread::spawn(body)),
        }
    }

    pub fn stop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(life: &dyn Life, stopped: &AtomicBool, when_lost: &dyn Fn(&RankError)) {
    let mut lost: Option<(Instant, RankError)> = None;
    let mut n_beats = 0_u32;
    while !stopped.load(Ordering::Acquire) {
        life.beat();
        n_beats += 1;
        if lost.is_none() && n_beats.is_multiple_of(5) {
            lost = life.look().map(|error| (Instant::now(), error));
        }
        if let Some((since, error)) = &lost {
            let ends_itself = life.has_noticed() || life.has_left();
            if !ends_itself && since.elapsed() > NOTICE {
                when_lost(error);
                return;
            }
        }
        std::thread::sleep(BEAT);
    }
}
