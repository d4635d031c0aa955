//! What was measured, as lines.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Measured;

/// The answers to a number of clients.
#[derive(Debug)]
pub struct Level {
    n_clients: usize,
    /// Milliseconds to the first text.
    first: Vec<f64>,
    /// Milliseconds of a token behind the first: the mean of each answer.
    token: Vec<f64>,
    /// Milliseconds between two pieces of text.
    gap: Vec<f64>,
    /// Milliseconds of whole answers.
    whole: Vec<f64>,
    /// Whether tokens were not counted by the server.
    is_guess: bool,
    n_prompt: u64,
    n_tokens: u64,
    seconds: f64,
    n_failed: usize,
    last_error: String,
    /// How often each error came.
    errors: BTreeMap<String, usize>,
}

/// The part of measurements that are not above a value.
const PARTS: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

impl Level {
    pub const HEAD: &str = "clients  answers  failed  tokens/s  first token ms: p50     p90     p99  token ms: p50    p90    p99  \
         gap ms: p50    p99  answer ms: p50      p99";

    pub fn new(n_clients: usize) -> Self {
        Self {
            n_clients,
            first: Vec::new(),
            token: Vec::new(),
            gap: Vec::new(),
            whole: Vec::new(),
            is_guess: false,
            n_prompt: 0,
            n_tokens: 0,
            seconds: 0.0,
            n_failed: 0,
            last_error: String::new(),
            errors: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, one: &Measured) {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        self.first.push(ms(one.first));
        if one.n_tokens > 1 {
            self.token.push(ms(one.rest) / (one.n_tokens - 1) as f64);
        }
        self.gap.extend(one.gaps.iter().map(|&gap| ms(gap)));
        self.whole.push(ms(one.whole));
        self.is_guess |= one.is_guess;
        self.n_prompt += one.n_prompt;
        self.n_tokens += one.n_tokens;
    }

    pub fn fail(&mut self, error: &anyhow::Error) {
        self.n_failed += 1;
        self.last_error = format!("{error:#}");
        *self.errors.entry(self.last_error.clone()).or_default() += 1;
    }

    pub fn end(&mut self, time: Duration) {
        self.seconds = time.as_secs_f64();
        for all in [
            &mut self.first,
            &mut self.token,
            &mut self.gap,
            &mut self.whole,
        ] {
            all.sort_by(f64::total_cmp);
        }
    }

    pub fn has_answers(&self) -> bool {
        !self.first.is_empty()
    }

    pub fn last_error(&self) -> &str {
        &self.last_error
    }

    fn rate(&self) -> f64 {
        self.n_tokens as f64 / self.seconds
    }

    pub fn json(&self) -> Value {
        let parts = |sorted: &[f64]| -> Value {
            PARTS
                .iter()
                .map(|(name, part)| ((*name).to_owned(), json!(at(sorted, *part))))
                .collect()
        };
        json!({
            "clients": self.n_clients,
            "answers": self.first.len(),
            "failed": self.n_failed,
            "errors": self.errors,
            "seconds": self.seconds,
            "prompt_tokens": self.n_prompt,
            "answer_tokens": self.n_tokens,
            "tokens_are_chunks": self.is_guess,
            "answers_per_second": self.first.len() as f64 / self.seconds,
            "tokens_per_second": self.rate(),
            "first_token_ms": parts(&self.first),
            "token_ms": parts(&self.token),
            "gap_ms": parts(&self.gap),
            "answer_ms": parts(&self.whole),
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n_clients, n_answers, n_failed) = (self.n_clients, self.first.len(), self.n_failed);
        let [first, token, gap, whole] = [&self.first, &self.token, &self.gap, &self.whole]
            .map(|all| PARTS.map(|(_, part)| at(all, part)));
        write!(
            f,
            "{n_clients:>7}  {n_answers:>7}  {n_failed:>6}  {:>8.1}  {:>19.1} {:>7.1} {:>7.1}  {:>13.2} {:>6.2} {:>6.2}  {:>11.2} {:>6.2}  {:>14.1} {:>8.1}",
            self.rate(),
            first[0],
            first[1],
            first[2],
            token[0],
            token[1],
            token[2],
            gap[0],
            gap[2],
            whole[0],
            whole[2],
        )?;
        for (error, n) in &self.errors {
            write!(f, "\n         {n} x {error}")?;
        }
        Ok(())
    }
}

/// The smallest value that at least a part of the sorted ones is not above.
fn at(sorted: &[f64], part: f64) -> f64 {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/json.md lists them.
    #[test]
    fn no_member_of_the_json_is_lost_or_renamed() {
        let line = Level::new(3).json();
        let members = line.as_object().expect("an object");
        let mut names: Vec<&str> = members.keys().map(String::as_str).collect();
        names.sort_unstable();
        let expected = "answer_ms answer_tokens answers answers_per_second clients errors failed first_token_ms gap_ms \
                        prompt_tokens seconds token_ms tokens_are_chunks tokens_per_second";
        assert_eq!(names.join(" "), expected);
        for name in ["first_token_ms", "token_ms", "gap_ms", "answer_ms"] {
            let parts = members[name].as_object().expect("percentiles");
            let mut parts: Vec<&str> = parts.keys().map(String::as_str).collect();
            parts.sort_unstable();
            assert_eq!(parts, ["p50", "p90", "p99"], "{name}");
        }
    }

    #[test]
    fn parts_are_of_sorted_values() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            [at(&values, 0.5), at(&values, 0.9), at(&values, 0.99)],
            [50.0, 90.0, 99.0]
        );
        assert_eq!(at(&[7.0], 0.01), 7.0);
        assert!(at(&[], 0.5).is_nan());
    }
}
