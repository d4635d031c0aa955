//! Text of other processes, for messages.

/// A text of somebody else as one line: whatever steers a terminal is escaped.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line = String::with_capacity(words.len());
    for one in words.chars() {
        match one.is_control() || is_of_direction(one) {
            true => line.extend(one.escape_default()),
            false => line.push(one),
        }
    }
    line
}

/// Whether a character changes the direction of the text after it, or shows nothing.
pub(crate) fn is_of_direction(one: char) -> bool {
    matches!(one, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rank's last words cleared the screen of the others.
    #[test]
    fn what_steers_a_terminal_is_escaped() {
        let line = one_line("the \u{1b}[2Jdisk\n is\tfull\u{7}\u{202e} ä");
        assert_eq!(line, "the \\u{1b}[2Jdisk is full\\u{7}\\u{202e} ä");
    }
}
