//! When the swaps of an exchange ran, and how much of that lay under the backward pass.

use crate::run::ExchangeMetric;

/// One swap, in milliseconds of a clock of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// When it began.
    pub begin_ms: f64,
    /// When it ended.
    pub end_ms: f64,
    /// Bytes sent and received.
    pub bytes: u64,
}

/// Swaps of one kind, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// The time in which any swap was under way, in milliseconds.
    pub busy_ms: f64,
    /// What of that lay before the end of the step's passes.
    pub hidden_ms: f64,
    /// Bytes sent and received.
    pub bytes: u64,
}

impl Traffic {
    fn of(spans: &[Span], passes_end_ms: f64) -> Self {
        let (mut sum, mut covered) = (Self::default(), f64::NEG_INFINITY);
        for span in spans {
            let begin = span.begin_ms.max(covered);
            let end = span.end_ms.max(begin);
            sum.busy_ms += end - begin;
            sum.hidden_ms += (end.min(passes_end_ms) - begin).max(0.0);
            sum.bytes += span.bytes;
            covered = end;
        }
        sum
    }

    fn add(&mut self, other: Self) {
        self.busy_ms += other.busy_ms;
        self.hidden_ms += other.hidden_ms;
        self.bytes += other.bytes;
    }
}

/// The exchanges of some steps.
#[derive(Clone, Debug, Default)]
pub struct ExchangeTimes {
    /// Steps added up.
    pub n_steps: u64,
    /// Sums of gradients.
    pub gradients: Traffic,
    /// Updated values, and states of the optimizer where they are gathered.
    pub values: Traffic,
    /// The swaps of gradients of the last step.
    pub last: Vec<Span>,
    /// When that step's passes had ended, on the same clock.
    pub passes_end_ms: f64,
}

impl ExchangeTimes {
    /// The times of a step, from its swaps of gradients, the swaps of values before it, and the end of its passes.
    pub(super) fn of_step(gradients: Vec<Span>, values: &[Span], passes_end_ms: f64) -> Self {
        Self {
            n_steps: 1,
            gradients: Traffic::of(&gradients, passes_end_ms),
            values: Traffic::of(values, f64::NEG_INFINITY),
            last: gradients,
            passes_end_ms,
        }
    }

    /// Means over the steps; none of no step.
    pub fn metric(&self) -> Option<ExchangeMetric> {
        let steps = (self.n_steps > 0).then_some(self.n_steps as f64)?;
        let Self {
            gradients, values, ..
        } = self;
        Some(ExchangeMetric {
            gradients_ms: gradients.busy_ms / steps,
            hidden: gradients.hidden_ms / gradients.busy_ms.max(f64::MIN_POSITIVE),
            values_ms: values.busy_ms / steps,
            megabytes: (gradients.bytes + values.bytes) as f64 * 1e-6 / steps,
        })
    }

    /// Adds later steps.
    pub fn add(&mut self, later: Self) {
        if later.n_steps == 0 {
            return;
        }
        self.n_steps += later.n_steps;
        self.gradients.add(later.gradients);
        self.values.add(later.values);
        (self.last, self.passes_end_ms) = (later.last, later.passes_end_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_before_the_end_of_the_passes_is_hidden() {
        let span = |begin_ms, end_ms| Span {
            begin_ms,
            end_ms,
            bytes: 8,
        };
        let spans = vec![span(1.0, 3.0), span(2.0, 4.0), span(5.0, 9.0)];
        let mut times = ExchangeTimes::of_step(spans, &[span(0.0, 0.5)], 6.0);
        let found = times.gradients;
        assert_eq!(
            (found.busy_ms, found.hidden_ms, found.bytes),
            (7.0, 4.0, 24)
        );
        let found = times.values;
        assert_eq!((found.busy_ms, found.hidden_ms, found.bytes), (0.5, 0.0, 8));
        times.add(times.clone());
        assert_eq!((times.n_steps, times.gradients.busy_ms), (2, 14.0));
    }
}
