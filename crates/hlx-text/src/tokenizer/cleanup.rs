//! `clean_up_tokenization_spaces`: blanks that a tokenizer of words leaves in front of punctuation.

/// What is replaced, one after the other, each in the whole text.
const REPLACED: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

/// A text without these blanks.
pub(super) fn clean_up(text: &str) -> String {
    let replace = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    REPLACED.iter().fold(text.to_owned(), replace)
}

/// Whether a character is in none of what is replaced: what stands in front of it and what stands after it
/// are cleaned up each by itself.
fn parts(char: char) -> bool {
    REPLACED.iter().all(|(from, _)| !from.contains(char))
}

/// Cleans up a text that grows.
#[derive(Clone, Debug, Default)]
pub(super) struct CleanUp {
    /// The text after the last character that parts it.
    open: String,
}

impl CleanUp {
    /// Adds text and returns what is clear now.
    pub fn push(&mut self, new: &str) -> String {
        let last = new.char_indices().rfind(|(_, char)| parts(*char));
        let end = last.map_or(0, |(at, char)| at + char.len_utf8());
        let (clear, open) = new.split_at(end);
        let clear = match clear {
            "" => String::new(),
            clear => clean_up(&(std::mem::take(&mut self.open) + clear)),
        };
        self.open.push_str(open);
        clear
    }

    /// What is left at the end.
    pub fn finish(&mut self) -> String {
        clean_up(&std::mem::take(&mut self.open))
    }
}
