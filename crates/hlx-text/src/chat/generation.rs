//! The parts of a template that a model is trained on: `{% generation %}` blocks.

use std::ops::Range;

/// Surround the text of `{% generation %}` blocks while a template is rendered: two characters of
/// Unicode's private use.
pub(super) const MARKS: [char; 2] = ['\u{10fffc}', '\u{10fffd}'];

/// Replaces `{% generation %}` and `{% endgeneration %}`, which Jinja does not know, by conditions that
/// print marks; signs of trimming are kept.
pub(super) fn mark_generation(source: &str) -> (String, bool) {
    let (mut marked, mut found) = (String::with_capacity(source.len()), false);
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start + 2..].find("%}") else {
            break;
        };
        let end = start + 2 + length + 2;
        let inner = &rest[start + 2..end - 2];
        let mark = match inner.trim_matches(['-', '+']).trim() {
            "generation" => Some(MARKS[0]),
            "endgeneration" => Some(MARKS[1]),
            _ => None,
        };
        match mark {
            Some(mark) => {
                let sign = |char: Option<char>| char.filter(|char| ['-', '+'].contains(char));
                let sign = |char| sign(char).map_or(String::new(), String::from);
                let (left, right) = (sign(inner.chars().next()), sign(inner.chars().next_back()));
                marked.push_str(&rest[..start]);
                marked += &format!("{{%{left} if true %}}{mark}{{% endif {right}%}}");
                found = true;
            }
            None => marked.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    marked.push_str(rest);
    (marked, found)
}

/// Takes the marks out of a text, and returns what was between them.
pub(super) fn take_marks(marked: &str) -> (String, Vec<Range<usize>>) {
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
