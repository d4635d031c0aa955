//! The requests of the clients: each has a number, which says its prompt and its lengths.

use std::str::FromStr;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::Arguments;

/// The route that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Api {
    /// `/v1/completions`: the prompt is a text.
    Completions,
    /// `/v1/chat/completions`: the prompt is a user's message.
    Chat,
}

impl Api {
    pub fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
        }
    }

    /// The text of a chunk.
    pub fn text(self, chunk: &Value) -> Option<&str> {
        let choice = &chunk["choices"][0];
        match self {
            Self::Completions => choice["text"].as_str(),
            Self::Chat => choice["delta"]["content"].as_str(),
        }
    }
}

/// A number, or numbers from one to another, of which each request draws one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    least: usize,
    most: usize,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        match (least.parse(), most.parse()) {
            (Ok(least), Ok(most)) if (1..=most).contains(&least) => Ok(Self { least, most }),
            _ => Err("expected a number from 1, such as 128, or two, such as 32-512".to_owned()),
        }
    }
}

/// Numbers that look random, the same for each seed.
struct Draws(u64);

impl Draws {
    fn of(number: usize) -> Self {
        Self(number as u64 ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * n as u128) >> 64) as usize
    }

    fn of_span(&mut self, span: Span) -> usize {
        span.least + self.below(span.most - span.least + 1)
    }
}

/// A prompt that no other number has.
pub fn prompt(arguments: &Arguments, number: usize) -> String {
    const WORDS: [&str; 16] = [
        "river", "light", "stone", "under", "again", "seven", "paper", "cloud", "green", "north",
        "quiet", "table", "would", "often", "their", "glass",
    ];
    let mut draws = Draws::of(number);
    let n_words = draws.of_span(arguments.words);
    let text: Vec<&str> = (0..n_words)
        .map(|_| WORDS[draws.below(WORDS.len())])
        .collect();
    format!("{number}: {}", text.join(" "))
}

/// The tokens of a request's answer.
pub fn max_tokens(arguments: &Arguments, number: usize) -> usize {
    Draws::of(!number).of_span(arguments.max_tokens)
}

/// The body of a request, with the additional fields of the arguments.
pub fn body(arguments: &Arguments, model: &str, number: usize) -> Result<String> {
    let prompt = prompt(arguments, number);
    let mut body = json!({
        "model": model,
        "max_tokens": max_tokens(arguments, number),
        "temperature": arguments.temperature,
        "seed": 1,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    match arguments.api {
        Api::Completions => body["prompt"] = json!(prompt),
        Api::Chat => body["messages"] = json!([{"role": "user", "content": prompt}]),
    }
    if arguments.ignore_eos {
        body["ignore_eos"] = true.into();
    }
    if let Some(more) = &arguments.body {
        let more: Value = serde_json::from_str(more).context("--body")?;
        let more = more.as_object().context("--body: is no JSON object")?;
        for (name, value) in more {
            match value {
                // What a server does not know can be left out.
                Value::Null => _ = body.as_object_mut().and_then(|body| body.remove(name)),
                value => body[name] = value.clone(),
            }
        }
    }
    Ok(body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_drawn_from_their_spans() {
        let span: Span = "3-5".parse().expect("a span");
        let drawn: std::collections::BTreeSet<usize> =
            (0..100).map(|n| Draws::of(n).of_span(span)).collect();
        assert_eq!(drawn, [3, 4, 5].into());
        assert_eq!("7".parse(), Ok(Span { least: 7, most: 7 }));
        for text in ["0", "5-3", "a", "1-", "-1", ""] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
