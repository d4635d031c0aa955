//! The parts of a conversation that a model is trained on.

use std::ops::Range;

use super::{ChatInput, ChatTemplate, Message, NAME};
use crate::{Result, TextError};

/// Surround the text of `{% generation %}` blocks while a template is rendered: two characters of
/// Unicode's private use.
pub(super) const MARKS: [char; 2] = ['\u{10fffc}', '\u{10fffd}'];

/// A text, and the byte ranges of it that are trained on.
type Trained = (String, Vec<Range<usize>>);

/// Takes the marks out of a text, and returns what was between them.
fn take_marks(marked: &str) -> Trained {
    let (mut text, mut ranges) = (String::with_capacity(marked.len()), Vec::new());
    let mut start = None;
    for char in marked.chars() {
        if char == MARKS[0] {
            start.get_or_insert(text.len());
        } else if char == MARKS[1] {
            ranges.extend(start.take().map(|start| start..text.len()));
        } else {
            text.push(char);
        }
    }
    (text, ranges)
}

/// Lays a conversation out, with the ranges of the template's `{% generation %}` blocks.
pub(super) fn by_blocks(template: &ChatTemplate, input: &ChatInput) -> Result<Trained> {
    let text = template.rendered(input, None)?;
    if text.contains(MARKS) {
        let reason =
            "the conversation holds U+10FFFC or U+10FFFD, which mark the answers of this template";
        return Err(TextError::argument(NAME, reason));
    }
    let marked = template.rendered(input, Some(MARKS))?;
    let (unmarked, ranges) = take_marks(&marked);
    match unmarked == text {
        true => Ok((text, ranges)),
        false => {
            let reason = "the template changes the text of its {% generation %} blocks, whose ranges are lost";
            Err(TextError::argument(NAME, reason))
        }
    }
}

/// Lays a conversation out; each answer is what the template adds to the prompt before it.
///
/// The prompt of each answer has to be the beginning of the whole text, so that a model is trained to continue from
/// what it is given when it answers. Templates may write an answer in another way once messages follow: Qwen3 leaves
/// out what was thought, Phi-3 the token that ends a text. Then the answer ends where both ways agree.
pub(super) fn by_prompts(template: &ChatTemplate, input: &ChatInput) -> Result<Trained> {
    let part = |n: usize, add_generation_prompt: bool| {
        let mut part = input.clone();
        part.messages.truncate(n);
        part.add_generation_prompt = add_generation_prompt;
        template.rendered(&part, None)
    };
    let text = part(input.messages.len(), false)?;
    let mut answers: Vec<Range<usize>> = Vec::new();
    for (at, message) in input.messages.iter().enumerate() {
        if message.role() != "assistant" {
            continue;
        }
        let prompt = part(at, true)?;
        let last = part(at + 1, false)?;
        let begins = answers
            .last()
            .is_none_or(|before| before.end <= prompt.len());
        let behind = text.strip_prefix(&*prompt).filter(|_| begins);
        let (Some(written), Some(alone)) = (behind, last.strip_prefix(&*prompt)) else {
            return Err(changes(at));
        };
        let end = answer_end(written, alone, message, template.eos_token());
        let end = end.ok_or_else(|| changes(at))?;
        if !alone.starts_with(&written[..end]) {
            template.say_history(at);
        }
        answers.push(prompt.len()..prompt.len() + end);
    }
    Ok((text, answers))
}

/// Where an answer ends in what is written after its prompt; `alone` is written where no message follows.
fn answer_end(written: &str, alone: &str, message: &Message, eos: Option<&str>) -> Option<usize> {
    if written.starts_with(alone) {
        return Some(alone.len());
    }
    let said = message.final_text();
    // The answer's end, which the model has to write, has to be there.
    let is_whole = |part: &str| match said.as_str() {
        "" => !part.trim().is_empty(),
        said => part
            .rfind(said)
            .is_some_and(|at| !part[at + said.len()..].trim().is_empty()),
    };
    let shorter = eos.and_then(|eos| alone.strip_suffix(eos));
    let ways = [Some(alone), shorter].into_iter().flatten();
    let mut ends = ways.map(|way| overlap(way, written));
    ends.find(|&end| is_whole(&written[..end]))
}

/// The length of the longest end of one text that another text begins with.
fn overlap(text: &str, other: &str) -> usize {
    let most = text.len().min(other.len());
    let (text, other) = (text.as_bytes(), &other.as_bytes()[..most]);
    // The lengths of the longest ends of each beginning of `other` that begin it (Knuth, Morris, Pratt).
    let mut borders = vec![0; other.len() + 1];
    let longest = |borders: &[usize], mut n: usize, byte: u8| loop {
        match other.get(n) == Some(&byte) {
            true => return n + 1,
            false if n == 0 => return 0,
            false => n = borders[n],
        }
    };
    for at in 1..other.len() {
        borders[at + 1] = longest(&borders, borders[at], other[at]);
    }
    let mut n = 0;
    for &byte in text {
        n = longest(&borders, n, byte);
    }
    n
}

fn changes(at: usize) -> TextError {
    let reason = format!(
        "the template changes what is before message {at} once it follows, or its beginning or end; mark the answers \
         with {{% generation %}} and {{% endgeneration %}}"
    );
    TextError::argument(NAME, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlap_of_texts_is_the_longest() {
        assert_eq!(overlap("aabaab", "aabx"), 3);
        assert_eq!(overlap("xaaa", "aaaa"), 3);
        assert_eq!(overlap("abc", "abc"), 3);
        assert_eq!(
            (overlap("abc", "d"), overlap("", "a"), overlap("a", "")),
            (0, 0, 0)
        );
    }
}
