//! Base64 (RFC 4648, section 4) for bytes in JSON.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes bytes as base64, padded.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = 0_u32;
        for place in 0..3 {
            word = word << 8 | u32::from(chunk.get(place).copied().unwrap_or(0));
        }
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

/// Reads padded base64; `None` of anything else, so that bytes have one text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0_u32;
        let padding = chunk
            .iter()
            .rev()
            .take_while(|&&digit| digit == b'=')
            .count();
        if chunk.len() != 4 || padding > 2 {
            return None;
        }
        for &digit in &chunk[..4 - padding] {
            let value = DIGITS.iter().position(|&known| known == digit)?;
            word = word << 6 | value as u32;
        }
        let [_, three @ ..] = (word << (6 * padding)).to_be_bytes();
        bytes.extend_from_slice(&three[..3 - padding]);
    }
    (encode(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for wrong in [
            "Zg=",
            "Zg",
            "Z===",
            "====",
            "Zh==",
            "Zm9v Zg==",
            "Zm=v",
            "Zg==Zg==",
        ] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
