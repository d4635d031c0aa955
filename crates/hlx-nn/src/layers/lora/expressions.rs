//! Regular expressions for the names of layers.

use fancy_regex::Regex;

/// PEFT's rule: the expression describes a whole name, or its last parts.
pub(crate) fn pattern(key: &str) -> Result<Regex, String> {
    // Compiled alone too: `a)|(b` is none, whatever stands around it.
    expression(key).and_then(|_| expression(&format!("^(.*\\.)?({key})$")))
}

/// Compiles a regular expression; the reason of an error is one line.
pub(crate) fn expression(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim();
        last.trim_start_matches("error: ").to_owned()
    })
}

/// Whether an expression describes a name; one that takes too long to tell does not.
pub(crate) fn is(pattern: &Regex, name: &str) -> bool {
    pattern.is_match(name).unwrap_or(false)
}
