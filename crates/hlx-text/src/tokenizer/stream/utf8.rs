//! Bytes that become text as they come.

/// Decodes bytes as `String::from_utf8_lossy` does, whatever parts they come in.
#[derive(Clone, Debug, Default)]
pub(super) struct Utf8 {
    /// The beginning of a character whose other bytes have not come yet, at most three bytes.
    begun: Vec<u8>,
}

impl Utf8 {
    /// Adds bytes and returns the characters that are clear now. What cannot become one is U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let (mut text, mut rest) = (String::new(), &self.begun[..]);
        loop {
            let Err(error) = std::str::from_utf8(rest) else {
                text.push_str(&String::from_utf8_lossy(rest));
                rest = &[];
                break;
            };
            let (valid, behind) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            rest = behind;
            let Some(n_wrong) = error.error_len() else {
                break;
            };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[n_wrong..];
        }
        self.begun = rest.to_vec();
        text
    }

    /// What is left at the end: a character without its last bytes is U+FFFD.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_parts_are_the_text_of_the_whole() {
        let valid = "a\u{e9}\u{6771}\u{1f600}\u{fffd}".as_bytes();
        let invalid = [
            0xff, b'a', 0xc3, b'b', 0xe6, 0x9d, 0xe6, 0x80, 0xf0, 0x9f, 0x98,
        ];
        let all = [valid, &invalid, valid].concat();
        for size in 1..all.len() {
            let mut parts = Utf8::default();
            let mut text: String = all.chunks(size).map(|part| parts.push(part)).collect();
            assert!(parts.begun.len() < 4);
            text += &parts.finish();
            assert_eq!(text, String::from_utf8_lossy(&all), "{size}");
        }
    }
}
