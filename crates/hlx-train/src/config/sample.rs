//! `[sample]`: what a run of a language model writes at every evaluation, to be read.

use serde::{Deserialize, Serialize};

use super::fault::{Checked, fault, within};
use crate::sample::Sampling;

/// `[sample]`: prompts that the model continues at every evaluation, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SampleSection {
    /// The texts to continue, or the inputs to answer; none disables samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<String>,
    /// Tokens at most; 128 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// Divides the logits; 0.8 if left out, and 0 always takes the likeliest token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Draws from this many of the likeliest tokens; 0, all, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<usize>,
    /// Draws from the likeliest tokens that together have this probability; 1 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
}

impl SampleSection {
    /// Whether there is nothing to write down.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Tokens at most.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens.unwrap_or(128)
    }

    /// How tokens are drawn, keyed by the run's seed.
    pub fn sampling(&self, seed: u64) -> Sampling {
        Sampling {
            temperature: self.temperature.unwrap_or(0.8) as f32,
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p.unwrap_or(1.0) as f32,
            seed,
            ..Sampling::default()
        }
    }

    pub(super) fn check(&self) -> Checked {
        if self.prompts.iter().any(String::is_empty) {
            return fault("sample.prompts", "one is empty");
        }
        let temperature = self.temperature.unwrap_or(0.0);
        within("sample.temperature", temperature, 0.0, f64::INFINITY)?;
        let top_p = self.top_p.unwrap_or(1.0);
        if !(top_p > 0.0 && top_p <= 1.0) {
            let reason = format!("{top_p} is not above 0 and at most 1");
            return fault("sample.top_p", reason);
        }
        Ok(())
    }
}
