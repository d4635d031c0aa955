//! The next useful command: what a user who has come this far can type.

use std::path::Path;

use hlx_report::text::quoted;

/// A command line of this program, as it was called.
pub fn command(words: &[&str]) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "hlx".to_owned());
    let words = words.iter().map(|word| quoted(word));
    let words: Vec<String> = std::iter::once(quoted(&program)).chain(words).collect();
    words.join(" ")
}

/// The command that continues a text with a model, or answers an input.
pub fn generate(model: &Path, prompt: &str) -> String {
    command(&["generate", &model.to_string_lossy(), "--prompt", prompt])
}

/// The command that measures a model's loss.
pub fn eval(model: &Path) -> String {
    command(&["eval", &model.to_string_lossy()])
}
