//! The alphabet of byte-level tokenizers: each byte as one printable character, as GPT-2 has it.

use std::sync::OnceLock;

/// The character of a byte: itself where it is printable in Latin-1, else one from U+0100 on.
pub(super) fn char_of(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    match printable(byte) {
        true => char::from(byte),
        false => {
            let place = (0..byte).filter(|&byte| !printable(byte)).count();
            char::from_u32(256 + place as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    }
}

/// The characters of all bytes.
pub(super) fn alphabet() -> [char; 256] {
    std::array::from_fn(|byte| char_of(byte as u8))
}

/// The byte of each character of the alphabet, by the character's code point.
pub(super) fn table() -> &'static [Option<u8>] {
    static TABLE: OnceLock<Vec<Option<u8>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let alphabet = alphabet();
        let longest = alphabet.iter().map(|&char| char as usize).max();
        let mut table = vec![None; longest.unwrap_or(0) + 1];
        for (byte, char) in (0..=255).zip(alphabet) {
            table[char as usize] = Some(byte);
        }
        table
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bytes_have_their_characters() {
        let known = [
            (b'a', 'a'),
            (b' ', '\u{120}'),
            (b'\n', '\u{10a}'),
            (0, '\u{100}'),
        ];
        assert!(known.into_iter().all(|(byte, char)| char_of(byte) == char));
        assert_eq!((char_of(0xad), char_of(0xff)), ('\u{143}', '\u{ff}'));
        let all: std::collections::BTreeSet<char> = alphabet().into_iter().collect();
        assert_eq!(all.len(), 256);
    }
}
