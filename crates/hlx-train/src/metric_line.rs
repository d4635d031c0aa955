//! A metric as the line that a user reads while a run trains.

use crate::curve::LossUnit;
use crate::run::{EvalSplit, Metric};

/// The line of a metric, or the lines of a sample; `unit` is what the run predicts.
pub fn metric_line(metric: &Metric, unit: LossUnit) -> String {
    match metric {
        Metric::Train {
            step,
            epoch,
            loss,
            grad_norm,
            learning_rate,
            ms_per_step,
            tokens_per_second,
            images_per_second,
            share_of_peak,
            router_balance,
            skipped,
            exchange,
            ..
        } => {
            let speed = match (tokens_per_second, images_per_second) {
                (Some(tokens), _) => format!("{tokens:.0} {}s/s", unit.name()),
                (None, Some(images)) => format!("{images:.0} images/s"),
                (None, None) => String::new(),
            };
            let share = share_of_peak.map_or_else(String::new, |share| {
                format!("  {:.1} % of peak", 100.0 * share)
            });
            let balance =
                router_balance.map_or_else(String::new, |loss| format!("  balance {loss:.4}"));
            let exchange = exchange.map_or_else(String::new, |it| {
                let ms = it.gradients_ms + it.values_ms;
                format!("  exchange {ms:.1} ms")
            });
            let skipped = skipped.map_or_else(String::new, |n| format!("  {n} skipped"));
            // Nothing was predicted: neither a loss nor a gradient.
            let loss = match loss.is_nan() && *grad_norm == 0.0 {
                true => "-".to_owned(),
                false => format!("{loss:.5}"),
            };
            format!(
                "step {step:>6}  loss {loss}  norm {grad_norm:.4}  rate {learning_rate:.3e}{balance}  \
                 {ms_per_step:.1} ms/step  {speed}{share}{exchange}  epoch {epoch:.2}{skipped}"
            )
        }
        Metric::Eval {
            step,
            split,
            loss,
            perplexity,
            n_bytes,
            n_tokens,
            accuracy,
            n_images,
            ..
        } => {
            let samples = match split {
                EvalSplit::Train => "training corpus",
                EvalSplit::HeldOut => "held-out samples",
            };
            let over = match (n_bytes, n_images.zip(*accuracy)) {
                (None, Some((n, right))) => format!("{n} images, {:.2} % right", 100.0 * right),
                (None, None) => format!("{} tokens", n_tokens.unwrap_or(0)),
                (Some(n), _) => format!("{n} bytes"),
            };
            let perplexity =
                perplexity.map_or_else(String::new, |p| format!(", perplexity {p:.3}"));
            format!("step {step:>6}  {samples}: loss {loss:.5}{perplexity} over {over}")
        }
        Metric::Sample { prompt, text, .. } => {
            let text = format!("{prompt}{text}");
            let lines = text.lines().map(|line| format!("        | {line}"));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}
