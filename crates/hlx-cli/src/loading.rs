//! A bar while a large model is read, on a terminal: of the events that hlx-nn logs of it.

use std::sync::{Mutex, PoisonError};

use hlx_nn::LOADING;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::progress::ShareBar;

/// Elements of a model that is read within a second or so: it needs no bar.
const FEW: u64 = 1 << 28;

/// The bar of the model that is being read.
static BAR: Mutex<Option<ShareBar>> = Mutex::new(None);

/// Removes the bar, such as before an error is printed.
pub fn clear() {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(bar) = bar {
        bar.finish();
    }
}

/// A layer of the log that shows the bar.
pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    let events = Targets::new().with_target(LOADING, LevelFilter::TRACE);
    Bars.with_filter(events)
}

struct Bars;

impl<S: Subscriber> Layer<S> for Bars {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut reached = Reached::default();
        event.record(&mut reached);
        if reached.total < FEW {
            return;
        }
        if reached.done >= reached.total {
            return clear();
        }
        let mut bar = BAR.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bar.get_or_insert_with(ShareBar::new);
        bar.set(reached.share(), "of the model read".to_owned());
    }
}

/// How much of a model has been read.
#[derive(Debug, Default, PartialEq)]
struct Reached {
    done: u64,
    total: u64,
}

impl Reached {
    fn share(&self) -> f64 {
        self.done as f64 / self.total.max(1) as f64
    }
}

impl Visit for Reached {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "done" => self.done = value,
            "total" => self.total = value,
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// Gathers what events say.
    struct Gathered(Arc<Mutex<Vec<Reached>>>);

    impl<S: Subscriber> Layer<S> for Gathered {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut reached = Reached::default();
            event.record(&mut reached);
            self.0.lock().expect("a lock").push(reached);
        }
    }

    #[test]
    fn the_share_of_a_model_that_was_read_is_known_of_events() {
        let all = Arc::default();
        let gathered = Gathered(Arc::clone(&all));
        let events = Targets::new().with_target(LOADING, LevelFilter::TRACE);
        let registry = tracing_subscriber::registry().with(gathered.with_filter(events));
        tracing::subscriber::with_default(registry, || {
            tracing::trace!(target: "hlx_nn::other", done = 1_usize, total = 2_usize);
            tracing::trace!(target: LOADING, done = 3_usize, total = 4_usize);
        });
        let all = all.lock().expect("a lock");
        assert_eq!(*all, [Reached { done: 3, total: 4 }]);
        assert_eq!(all[0].share(), 0.75);
    }
}
