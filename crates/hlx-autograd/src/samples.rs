//! Where the samples of a batch lie in a tensor.
//!
//! The gradient of a parameter is a sum over samples whose order must not depend on how a batch was
//! split ([`BackwardPlan`](crate::BackwardPlan)). So each tensor knows its samples' dimension, and
//! operations carry it: who transposes or merges a batch changes no bit silently.

use hlx_kernels::Layout;

/// Where a tensor's samples lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Samples {
    /// No dimension counts samples: a parameter, a constant, or a tensor of which nobody said.
    #[default]
    None,
    /// Dimension `axis` holds them in order, `each` indices per sample.
    Along {
        /// The dimension.
        axis: usize,
        /// Its indices that belong to one sample: 1, or more where dimensions were merged.
        each: usize,
    },
    /// An operation has summed or interleaved them.
    Lost,
}

impl Samples {
    /// Along a dimension, one index per sample.
    pub(crate) fn along(axis: usize) -> Self {
        Self::Along { axis, each: 1 }
    }

    /// After `change` of the dimension's number.
    pub(crate) fn moved(self, change: impl FnOnce(usize) -> Option<usize>) -> Self {
        match self {
            Self::Along { axis, each } => match change(axis) {
                Some(axis) => Self::Along { axis, each },
                None => Self::Lost,
            },
            other => other,
        }
    }

    /// After an operation that mixes or picks along a dimension: lost if they lie along it.
    pub(crate) fn unless_along(self, axis: usize) -> Self {
        self.moved(|at| (at != axis).then_some(at))
    }

    /// After the operand was broadcast to `rank` dimensions, from `own`.
    pub(crate) fn broadcast(self, own: usize, rank: usize) -> Self {
        self.moved(|axis| Some(axis + rank - own))
    }

    /// The samples of an operation's output, from those of its operands, which are aligned with it.
    pub(crate) fn join(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter()
            .fold(Self::None, |joint, next| match (joint, next) {
                (Self::None, other) | (other, Self::None) => other,
                (one, other) if one == other => one,
                _ => Self::Lost,
            })
    }

    /// After another shape over the same elements in row-major order.
    pub(crate) fn reshaped(self, from: &[usize], to: &[usize]) -> Self {
        let Self::Along { axis, each } = self else {
            return self;
        };
        let outer: usize = from[..axis].iter().product();
        let elements: usize = each * from[axis + 1..].iter().product::<usize>();
        let place = (0..to.len()).find_map(|axis| {
            let inner: usize = to[axis + 1..].iter().product();
            let fits = to[..axis].iter().product::<usize>() == outer
                && inner > 0
                && elements.is_multiple_of(inner);
            let each = if fits { elements / inner } else { 0 };
            (each > 0 && to[axis].is_multiple_of(each)).then_some(Self::Along { axis, each })
        });
        place.unwrap_or(Self::Lost)
    }

    /// The number of samples in a tensor of this layout; `None` unless they lie along a dimension.
    pub(crate) fn count(self, layout: &Layout) -> Option<usize> {
        match self {
            Self::Along { axis, each } => Some(layout.shape().get(axis)? / each),
            _ => None,
        }
    }
}

/// How an operation's rows are cut into shards: what it knows of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// The rows are this many samples, one behind the other.
    Samples(usize),
    /// Nothing says where the samples are.
    Unknown,
    /// The samples lie along another dimension than the first, or an operation has mixed them.
    Lost,
}

impl From<usize> for Batch {
    fn from(samples: usize) -> Self {
        Self::Samples(samples)
    }
}

impl Batch {
    /// The batch of an operation whose rows are the leading dimensions of its input.
    pub(crate) fn of(samples: Samples, layout: &Layout) -> Self {
        match samples {
            Samples::None => Self::Unknown,
            Samples::Along { axis, .. } if layout.shape()[..axis].iter().all(|&n| n == 1) => {
                samples.count(layout).map_or(Self::Lost, Self::Samples)
            }
            _ => Self::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONG: fn(usize, usize) -> Samples = |axis, each| Samples::Along { axis, each };

    #[test]
    fn a_reshape_finds_the_samples_again() {
        let of = |from: &[usize], samples: Samples, to: &[usize]| samples.reshaped(from, to);
        assert_eq!(of(&[8, 3, 5], ALONG(0, 1), &[24, 5]), ALONG(0, 3));
        assert_eq!(of(&[24, 5], ALONG(0, 3), &[8, 3, 5]), ALONG(0, 1));
        assert_eq!(of(&[8, 3], ALONG(0, 1), &[1, 8, 3]), ALONG(1, 1));
        assert_eq!(of(&[2, 8, 3], ALONG(1, 1), &[2, 24]), ALONG(1, 3));
        assert_eq!(of(&[2, 8, 3], ALONG(1, 1), &[16, 3]), Samples::Lost);
        assert_eq!(of(&[8, 3], ALONG(0, 1), &[3, 8]), Samples::Lost);
        assert_eq!(of(&[8, 3], Samples::None, &[3, 8]), Samples::None);
    }

    #[test]
    fn operands_agree_or_the_samples_are_lost() {
        assert_eq!(Samples::join([Samples::None, ALONG(0, 1)]), ALONG(0, 1));
        assert_eq!(Samples::join([ALONG(1, 1), ALONG(0, 1)]), Samples::Lost);
        assert_eq!(ALONG(0, 1).broadcast(2, 3), ALONG(1, 1));
    }
}
