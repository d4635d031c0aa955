//! What a run measures: a line of `metrics.jsonl` each.

use serde::{Deserialize, Deserializer, Serialize};

/// What a rank exchanged with others in a log period: means over its steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExchangeMetric {
    /// Milliseconds in which gradients were under way.
    #[serde(deserialize_with = "nan_of_null")]
    pub gradients_ms: f64,
    /// The part of that time in which the step's own passes were still computed.
    #[serde(deserialize_with = "nan_of_null")]
    pub hidden: f64,
    /// Milliseconds in which updated values were under way.
    #[serde(deserialize_with = "nan_of_null")]
    pub values_ms: f64,
    /// Millions of bytes sent and received.
    #[serde(deserialize_with = "nan_of_null")]
    pub megabytes: f64,
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Metric {
    /// A log period of training.
    Train {
        /// Steps done.
        step: u64,
        /// Epochs done, in part.
        #[serde(deserialize_with = "nan_of_null")]
        epoch: f64,
        /// Mean loss a predicted byte or image over the period, as trained (dropout and smoothing on).
        #[serde(deserialize_with = "nan_of_null")]
        loss: f64,
        /// The last step's gradient norm, before clipping.
        #[serde(deserialize_with = "nan_of_null")]
        grad_norm: f32,
        /// The last step's learning rate.
        #[serde(deserialize_with = "nan_of_null")]
        learning_rate: f32,
        /// Mean milliseconds per step.
        #[serde(deserialize_with = "nan_of_null")]
        ms_per_step: f64,
        /// Bytes read a second, padding left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens_per_second: Option<f64>,
        /// Images a second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        images_per_second: Option<f64>,
        /// For a language model on a GPU: the part of the device's peak that the model's own products take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share_of_peak: Option<f64>,
        /// For a mixture of experts that is balanced: the last step's balance loss, which is not in the loss.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        router_balance: Option<f32>,
        /// Steps of the period that were skipped, as their loss or norm was not finite.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        skipped: Option<u64>,
        /// For a run of several ranks: what rank 0 exchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exchange: Option<ExchangeMetric>,
        /// Bytes that the run holds on the device of rank 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory_bytes: Option<u64>,
    },
    /// A text that the model continued with.
    Sample {
        /// Steps done.
        step: u64,
        /// What was given.
        prompt: String,
        /// What the model wrote.
        text: String,
    },
    /// An evaluation: no dropout, no smoothing.
    Eval {
        /// Steps done.
        step: u64,
        /// Which samples.
        split: EvalSplit,
        /// Mean cross-entropy a byte, over a pair's output bytes alone, or an image.
        #[serde(deserialize_with = "nan_of_null")]
        loss: f64,
        /// For bytes and tokens: the loss's exponential.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        perplexity: Option<f64>,
        /// For bytes: the same with the end bytes of pairs counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss_with_end: Option<f64>,
        /// Bytes that the first loss is a mean of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n_bytes: Option<u64>,
        /// Tokens that it is a mean of, where a token is more than a byte.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n_tokens: Option<u64>,
        /// For images: the part that is classified rightly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        accuracy: Option<f64>,
        /// Images that the loss is a mean of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n_images: Option<u64>,
    },
}

/// Reads a number; JSON has none that is not finite, and the writer leaves `null` in its place.
fn nan_of_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + From<f32>,
{
    let number = Option::<T>::deserialize(deserializer)?;
    Ok(number.unwrap_or_else(|| f32::NAN.into()))
}

/// Which samples an evaluation went over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalSplit {
    /// Those that the model is trained on.
    Train,
    /// Those held out.
    HeldOut,
}

impl Metric {
    /// Steps done when it was measured.
    pub fn step(&self) -> u64 {
        match self {
            Self::Train { step, .. } | Self::Eval { step, .. } | Self::Sample { step, .. } => *step,
        }
    }
}

impl Metric {
    /// The step and the samples of an evaluation.
    pub(super) fn evaluation(&self) -> Option<(u64, EvalSplit)> {
        match self {
            Self::Eval { step, split, .. } => Some((*step, *split)),
            Self::Train { .. } | Self::Sample { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_loss_that_is_no_number_comes_back() {
        let line = r#"{"kind":"train","step":2,"epoch":0.5,"loss":null,"grad_norm":null,
            "learning_rate":0.1,"ms_per_step":1.0,"skipped":2}"#;
        let metric: Metric = serde_json::from_str(line).expect("reads");
        let again = serde_json::to_string(&metric).expect("writes");
        assert!(again.contains(r#""loss":null,"grad_norm":null"#), "{again}");
        let Metric::Train { loss, skipped, .. } = metric else {
            panic!("no training line: {metric:?}")
        };
        assert!(loss.is_nan() && skipped == Some(2));
    }

    /// Whatever the writer leaves `null` for, as JSON has no NaN and no infinity, must be read again.
    #[test]
    fn a_null_in_the_place_of_any_measured_number_is_read() {
        let exchange = ExchangeMetric {
            gradients_ms: 1.5,
            hidden: 0.5,
            values_ms: 2.5,
            megabytes: 3.5,
        };
        let train = Metric::Train {
            step: 2,
            epoch: 0.5,
            loss: 1.5,
            grad_norm: 0.5,
            learning_rate: 0.25,
            ms_per_step: 1.5,
            tokens_per_second: Some(2.5),
            images_per_second: Some(2.5),
            share_of_peak: Some(0.5),
            router_balance: Some(1.5),
            skipped: None,
            exchange: Some(exchange),
            memory_bytes: Some(1 << 20),
        };
        let eval = Metric::Eval {
            step: 2,
            split: EvalSplit::HeldOut,
            loss: 1.5,
            perplexity: Some(4.5),
            loss_with_end: Some(1.25),
            n_bytes: Some(9),
            n_tokens: Some(9),
            accuracy: Some(0.5),
            n_images: Some(3),
        };
        let mut n_floats = 0;
        for metric in [train, eval] {
            let value = serde_json::to_value(metric).expect("writes");
            for place in floats(&value, String::new()) {
                let mut changed = value.clone();
                *changed.pointer_mut(&place).expect("is there") = Value::Null;
                let read = serde_json::from_value::<Metric>(changed);
                assert!(read.is_ok(), "{place}: {read:?}");
                n_floats += 1;
            }
        }
        assert_eq!(n_floats, 17);
    }

    /// The places of the numbers with a part after the point.
    fn floats(value: &Value, place: String) -> Vec<String> {
        match value {
            Value::Object(members) => members
                .iter()
                .flat_map(|(name, value)| floats(value, format!("{place}/{name}")))
                .collect(),
            Value::Number(number) if number.is_f64() => vec![place],
            _ => Vec::new(),
        }
    }
}
