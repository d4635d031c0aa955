//! How long launches take by estimate, and how they are cut so that no submission takes long.
//!
//! Operating systems reset a device whose work takes too long: Windows and most Linux drivers
//! after two seconds. A recorded training step is short on a large GPU and takes minutes on one a
//! hundred times slower, so graphs are cut into command buffers, and these are grouped into
//! submissions below [`Tuning::submission_ms`](crate::Tuning::submission_ms). A launch that is too
//! long by itself is cut by ranges of its workgroups: each computes what it computes in one piece,
//! so the bits are the same.

use std::ops::Range;

use crate::launch::Launch;
use crate::timing::Work;
use crate::tuning::Tuning;

/// Estimates are multiplied by this: kernels reach from a quarter of the peaks to all of them.
const MARGIN: f64 = 2.0;
/// Command buffers of a long graph that fill a submission: they are recorded once, and grouped anew
/// when their times are known. Each costs some 0.05 ms between two (with eight, the steps of `small`,
/// `medium` and GPT-2's shape took 0.4 to 0.8% longer on an H200).
const SEGMENTS: f64 = 2.0;

/// The device's speed by estimate, and how long a submission may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    flops_per_ns: f64,
    bytes_per_ns: f64,
    /// How long a submission may take, in nanoseconds.
    pub limit_ns: f64,
}

impl Pace {
    pub fn of(tuning: &Tuning) -> Self {
        Self {
            flops_per_ns: tuning.flops_per_second * 1e-9,
            bytes_per_ns: tuning.bytes_per_second * 1e-9,
            limit_ns: tuning.submission_ms * 1e6,
        }
    }

    /// How long a launch takes at most, by estimate, in nanoseconds.
    pub fn estimate_ns(&self, work: Work) -> f64 {
        let arithmetic = work.flops as f64 / self.flops_per_ns;
        let memory = work.bytes as f64 / self.bytes_per_ns;
        MARGIN * (arithmetic + memory)
    }

    /// How long a command buffer of a graph may take before the next is begun.
    pub fn segment_ns(&self) -> f64 {
        self.limit_ns / SEGMENTS
    }

    /// Cuts a launch into ranges of its workgroups if it is too long for one submission.
    pub fn cut(&self, launch: &Launch<'_>, work: Work) -> Vec<Groups> {
        match self.parts(work) {
            1 => vec![Groups::all(launch.groups)],
            parts => {
                // A module that cannot be read is refused when its pipeline is made.
                let interface = hlx_spirv::interface(&launch.shader.words());
                let reads_count = interface.is_ok_and(|shader| shader.reads_workgroup_count);
                cut(launch.groups, parts, reads_count)
            }
        }
    }

    /// Into how many parts a launch is cut: one, unless it exceeds a submission by itself.
    fn parts(&self, work: Work) -> usize {
        let estimate = self.estimate_ns(work);
        if estimate <= self.limit_ns {
            return 1;
        }
        (estimate / self.segment_ns()).ceil().min(65_535.0) as usize
    }
}

/// A range of a launch's workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    pub base: [u32; 3],
    pub count: [u32; 3],
}

impl Groups {
    /// All workgroups of a launch.
    pub fn all(count: [u32; 3]) -> Self {
        let base = [0; 3];
        Self { base, count }
    }

    /// This range's share of the work of all `groups`.
    pub fn share(&self, work: Work, groups: [u32; 3]) -> Work {
        let number = |count: [u32; 3]| count.iter().map(|&count| f64::from(count)).product::<f64>();
        let share = number(self.count) / number(groups).max(1.0);
        let part = |amount: u64| (amount as f64 * share).round() as u64;
        Work {
            bytes: part(work.bytes),
            flops: part(work.flops),
        }
    }
}

/// Cuts workgroups into at least `parts` ranges if there are that many workgroups; each range is a box.
///
/// A shader that reads the number of workgroups (`gl_NumWorkGroups`, from which `hlx_group()`
/// makes a linear index) sees that of the range alone, so it is cut along its outermost axis with
/// more than one workgroup, whose number the index does not depend on. Others are cut along all.
fn cut(groups: [u32; 3], parts: usize, reads_count: bool) -> Vec<Groups> {
    let mut boxes = vec![Groups::all(groups)];
    for axis in [2, 1, 0] {
        if groups[axis] <= 1 {
            continue;
        }
        let wanted = parts.div_ceil(boxes.len());
        boxes = boxes.iter().flat_map(|b| split(b, axis, wanted)).collect();
        if reads_count || boxes.len() >= parts {
            break;
        }
    }
    boxes
}

fn split(groups: &Groups, axis: usize, parts: usize) -> Vec<Groups> {
    let length = groups.count[axis];
    let parts = u32::try_from(parts).unwrap_or(u32::MAX).clamp(1, length);
    let edge = |part: u32| (u64::from(length) * u64::from(part) / u64::from(parts)) as u32;
    (0..parts)
        .map(|part| {
            let mut range = *groups;
            range.base[axis] += edge(part);
            range.count[axis] = edge(part + 1) - edge(part);
            range
        })
        .collect()
}

/// Groups command buffers of these times into submissions that stay below the limit, in order;
/// one that exceeds it goes alone.
pub(super) fn submissions(times_ns: &[f64], limit_ns: f64) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut sum = 0.0;
    for (idx, &time) in times_ns.iter().enumerate() {
        match found.last_mut() {
            Some(last) if sum + time <= limit_ns => {
                last.end = idx + 1;
                sum += time;
            }
            _ => {
                found.push(idx..idx + 1);
                sum = time;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(limit_ms: f64) -> Pace {
        Pace {
            flops_per_ns: 1e3,
            bytes_per_ns: 1e2,
            limit_ns: limit_ms * 1e6,
        }
    }

    #[test]
    fn a_launch_is_cut_only_if_it_exceeds_a_submission() {
        let work = |flops| Work { flops, bytes: 0 };
        // 10^11 operations at 10^12 per second, doubled for the margin: 200 ms.
        assert_eq!(pace(200.0).parts(work(100_000_000_000)), 1);
        assert_eq!(pace(200.0).parts(work(100_010_000_000)), 3);
        assert_eq!(pace(200.0).parts(work(1_000_000_000_000)), 20);
    }

    #[test]
    fn ranges_cover_every_workgroup_once() {
        let seen = |groups: [u32; 3], parts, reads_count| {
            let boxes = cut(groups, parts, reads_count);
            let mut seen = vec![0; groups.iter().product::<u32>() as usize];
            for Groups { base, count } in &boxes {
                for z in base[2]..base[2] + count[2] {
                    for y in base[1]..base[1] + count[1] {
                        for x in base[0]..base[0] + count[0] {
                            seen[(x + groups[0] * (y + groups[1] * z)) as usize] += 1;
                        }
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1), "{groups:?} {parts}");
            boxes
        };
        assert_eq!(seen([7, 1, 1], 3, true).len(), 3);
        assert_eq!(seen([7, 1, 1], 100, true).len(), 7);
        assert_eq!(seen([50, 3, 1], 100, true).len(), 3);
        assert_eq!(seen([50, 3, 1], 100, false).len(), 102);
        assert_eq!(seen([5, 3, 2], 4, false).len(), 4);
        assert_eq!(seen([5, 3, 2], 1, false).len(), 1);
        // The x extent stays whole where the shader reads it for its linear index.
        assert!(seen([50, 3, 1], 9, true).iter().all(|b| b.count[0] == 50));
    }

    #[test]
    fn submissions_stay_below_the_limit_in_order() {
        assert_eq!(submissions(&[], 10.0), []);
        assert_eq!(submissions(&[1.0, 2.0, 3.0], 10.0), vec![0..3; 1]);
        assert_eq!(submissions(&[6.0, 5.0, 4.0, 2.0], 10.0), [0..1, 1..3, 3..4]);
        assert_eq!(submissions(&[1.0, 99.0, 1.0], 10.0), [0..1, 1..2, 2..3]);
    }
}
