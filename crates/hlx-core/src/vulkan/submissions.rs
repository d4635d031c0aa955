//! Submissions of one stream: the submit call, those under way, and waits for them.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use ash::vk;
use vulkano::VulkanObject;
use vulkano::sync::fence::Fence;

use super::recorded::{Parts, Recorded};
use super::recorder::Recorder;
use super::sharing::TimelineValue;
use super::{VulkanDevice, check_raw, translate, translate_validated};
use crate::device_info::DeviceKind;
use crate::error::CoreError;
use crate::timing::TimingCollector;

/// Submissions under way before the host waits for the oldest.
const SUBMISSIONS_UNDER_WAY: usize = 8;

/// How long the host polls the fence before it blocks: waking up takes 0.1 to 0.4 ms (a call of a
/// small transformer on an H200: 1.30 ms instead of 1.48).
const POLLING: Duration = Duration::from_millis(20);
/// On a host of fewer cores, polling would take a core that other threads need.
const POLLING_CORES: usize = 4;

/// The submissions of one stream.
pub(super) struct Submissions {
    device: Arc<VulkanDevice>,
    timings: Arc<TimingCollector>,
    /// Waits begin by polling. A software device needs the cores itself.
    polls: bool,
    under_way: VecDeque<Submission>,
    /// Submissions so far; those before the ones under way are done.
    submitted: u64,
    /// A submission has failed, and its work is gone.
    is_lost: bool,
    /// The parts of eager command buffers that are done, to be used again: making a pool costs more than filling it.
    spare: Vec<Parts>,
}

/// Command buffers on the device, and the fence that is signalled when they are done.
struct Submission {
    fence: Fence,
    began: Instant,
    /// How long it was meant to take at most, in nanoseconds.
    limit_ns: f64,
    /// The eager work that went first, if there was any.
    eager: Option<Recorded>,
    graph: Vec<Arc<Recorded>>,
    _timelines: Vec<TimelineValue>,
}

/// What a submission waits for before it begins, and raises when it is done.
#[derive(Default)]
pub(super) struct Order {
    pub waits: Vec<TimelineValue>,
    pub signals: Vec<TimelineValue>,
}

impl Order {
    fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.signals.is_empty()
    }
}

impl Submissions {
    pub fn new(device: &Arc<VulkanDevice>, timings: &Arc<TimingCollector>) -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self {
            device: Arc::clone(device),
            timings: Arc::clone(timings),
            polls: device.info.kind == DeviceKind::VulkanGpu && cores >= POLLING_CORES,
            under_way: VecDeque::new(),
            submitted: 0,
            is_lost: false,
            spare: Vec::new(),
        }
    }

    /// The number of submissions so far.
    pub fn count(&self) -> u64 {
        self.submitted
    }

    /// Submissions that are known to be done.
    pub fn done(&self) -> u64 {
        self.submitted - self.under_way.len() as u64
    }

    /// Takes the pools of an eager command buffer that is done.
    pub fn take_spare(&mut self) -> Option<Parts> {
        self.spare.pop()
    }

    /// Submits eager work, where there is any, and, after it, a graph's command buffers. When one is lost, none
    /// follows: later work would read what was never written.
    pub fn submit(
        &mut self,
        eager: Option<Recorder>,
        graph: &[Arc<Recorded>],
        limit_ns: f64,
        order: Order,
    ) -> Result<(), CoreError> {
        if self.is_lost {
            return Err(self.lost());
        }
        let submitted = self.try_submit(eager, graph, limit_ns, order);
        self.is_lost = submitted.is_err();
        submitted
    }

    fn lost(&self) -> CoreError {
        CoreError::DeviceLost {
            device: self.device.info.name.clone(),
            during: "an earlier submission".to_owned(),
            hint: String::new(),
        }
    }

    fn try_submit(
        &mut self,
        eager: Option<Recorder>,
        graph: &[Arc<Recorded>],
        limit_ns: f64,
        order: Order,
    ) -> Result<(), CoreError> {
        let name = &self.device.info.name;
        let gathered = eager.filter(|eager| eager.launches() > 0);
        let eager = gathered.map(Recorder::finish).transpose()?;
        let work = || eager.iter().chain(graph.iter().map(Arc::as_ref));
        let command_buffers: Vec<vk::CommandBuffer> = work().map(Recorded::handle).collect();
        if command_buffers.is_empty() && order.is_empty() {
            return Ok(());
        }
        let fence = Fence::from_pool(Arc::clone(&self.device.device))
            .map_err(|error| translate(name, "create a fence", error))?;
        let Order { waits, signals } = order;
        let handles = |of: &[TimelineValue]| of.iter().map(TimelineValue::handle).collect();
        let values = |of: &[TimelineValue]| of.iter().map(|at| at.value).collect();
        let (wait_handles, wait_values): (Vec<_>, Vec<_>) = (handles(&waits), values(&waits));
        let (signal_handles, signal_values): (Vec<_>, Vec<_>) =
            (handles(&signals), values(&signals));
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let mut info = vk::SubmitInfo::default()
            .command_buffers(&command_buffers)
            .wait_semaphores(&wait_handles)
            .wait_dst_stage_mask(&stages)
            .signal_semaphores(&signal_handles);
        if !stages.is_empty() || !signals.is_empty() {
            info = info.push_next(&mut timeline);
        }
        let submit = self.device.device.fns().v1_0.queue_submit;
        // SAFETY: `with` holds the queue's lock; the command buffers and all they use are held
        // alive by the submission until the fence is signalled.
        let result = self
            .device
            .queue
            .with(|_guard| unsafe { submit(self.device.queue.handle(), 1, &info, fence.handle()) });
        check_raw(name, "submit", result)?;
        let timed = work().any(Recorded::is_timed);
        self.submitted += 1;
        self.under_way.push_back(Submission {
            fence,
            began: Instant::now(),
            limit_ns,
            eager,
            graph: graph.to_vec(),
            _timelines: [waits, signals].concat(),
        });
        if timed {
            return self.wait_all();
        }
        while self.under_way.len() > SUBMISSIONS_UNDER_WAY {
            self.wait_oldest()?;
        }
        Ok(())
    }

    /// Removes the submissions that are done, without waiting.
    pub fn poll(&mut self) -> Result<(), CoreError> {
        while let Some(oldest) = self.under_way.front() {
            let done = oldest.fence.is_signaled().map_err(|error| {
                translate_validated(
                    &self.device.info.name,
                    "poll a fence",
                    vulkano::Validated::Error(error),
                )
            })?;
            if !done {
                break;
            }
            self.wait_oldest()?;
        }
        Ok(())
    }

    fn wait_oldest(&mut self) -> Result<(), CoreError> {
        let Some(submission) = self.under_way.front() else {
            return Ok(());
        };
        let failed = |error| {
            let error = vulkano::Validated::Error(error);
            let error = translate_validated(&self.device.info.name, "wait for the device", error);
            explain_loss(error, submission.began.elapsed(), submission.limit_ns)
        };
        let began = Instant::now();
        while self.polls && began.elapsed() < POLLING {
            if submission.fence.is_signaled().map_err(failed)? {
                break;
            }
            std::hint::spin_loop();
        }
        submission.fence.wait(None).map_err(failed)?;
        let Some(Submission { eager, graph, .. }) = self.under_way.pop_front() else {
            return Ok(());
        };
        for work in eager.iter().chain(graph.iter().map(Arc::as_ref)) {
            work.collect(&self.timings)?;
        }
        self.spare.extend(eager.and_then(Recorded::into_parts));
        Ok(())
    }

    /// Waits until this many submissions are done.
    pub fn wait_for(&mut self, count: u64) -> Result<(), CoreError> {
        while self.done() < count {
            if self.under_way.is_empty() {
                return Err(self.lost());
            }
            self.wait_oldest()?;
        }
        Ok(())
    }

    /// Waits until all submissions are done.
    pub fn wait_all(&mut self) -> Result<(), CoreError> {
        self.wait_for(self.submitted)
    }
}

/// Adds to the error of a lost device, if it was lost long after a submission began, that the
/// driver's time-out is the probable cause, and what helps.
fn explain_loss(error: CoreError, elapsed: Duration, limit_ns: f64) -> CoreError {
    /// Windows and most Linux drivers reset a device after two seconds.
    const SUSPICIOUS: Duration = Duration::from_secs(1);
    match error {
        CoreError::DeviceLost { device, during, .. } if elapsed >= SUSPICIOUS => {
            let seconds = elapsed.as_secs_f64();
            let limit_ms = limit_ns * 1e-6;
            let hint = format!(
                "; probably a time-out of the driver, {seconds:.1} s after the submission: set \
                 HLX_SUBMISSION_MS below {limit_ms}, or raise the driver's limit (TdrDelay on \
                 Windows)"
            );
            CoreError::DeviceLost {
                device,
                during,
                hint,
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_lost_after_seconds_is_explained_as_a_time_out() {
        let lost = || CoreError::DeviceLost {
            device: "GPU".to_owned(),
            during: "wait for the device".to_owned(),
            hint: String::new(),
        };
        let text = |millis| explain_loss(lost(), Duration::from_millis(millis), 200e6).to_string();
        assert_eq!(
            text(20),
            "device `GPU` was lost during wait for the device; checkpoints on disk are whole"
        );
        assert_eq!(
            text(2100),
            "device `GPU` was lost during wait for the device; checkpoints on disk are whole; \
             probably a time-out of the driver, 2.1 s after the submission: set \
             HLX_SUBMISSION_MS below 200, or raise the driver's limit (TdrDelay on Windows)"
        );
    }
}
