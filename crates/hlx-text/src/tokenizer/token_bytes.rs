//! The bytes of single tokens, for those who follow a text byte by byte.

use tokenizers::decoders::DecoderWrapper;

use super::byte_level::table;
use super::stream::{byte_of, flatten};
use super::{Kind, Tokenizer};

impl Tokenizer {
    /// The bytes that a token adds to a text behind other tokens: a part of a character may be one token. `None` for
    /// a special token, one that the vocabulary does not have, and one that changes the text before it.
    ///
    /// ```
    /// use hlx_text::Tokenizer;
    ///
    /// assert_eq!(Tokenizer::bytes().token_bytes(0xc3), Some(vec![0xc3]));
    /// assert_eq!(Tokenizer::bytes().token_bytes(256), None);
    /// ```
    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let file = match &self.inner.kind {
            Kind::Bytes if self.inner.skips(id) => return None,
            Kind::Bytes => return u8::try_from(id).ok().map(|byte| vec![byte]),
            Kind::Characters(_) => return self.id_to_token(id).map(String::into_bytes),
            Kind::File(file) => file,
        };
        let token = file.shown_token(id)?;
        let mut decoders = Vec::new();
        if let Some(decoder) = file.decoder() {
            flatten(decoder, &mut decoders);
        }
        let has = |is: fn(&DecoderWrapper) -> bool| decoders.iter().any(|one| is(one));
        if has(|one| matches!(one, DecoderWrapper::ByteLevel(_))) {
            return Some(byte_level(&token));
        }
        let byte =
            byte_of(&token).filter(|_| has(|one| matches!(one, DecoderWrapper::ByteFallback(_))));
        if let Some(byte) = byte {
            return Some(vec![byte]);
        }
        // The first token of a text may lose its blank: the second does not.
        let [one, two] = [&[id][..], &[id, id]].map(|ids| self.decode(ids).ok());
        let added = two?.strip_prefix(&one?).map(str::to_owned);
        added.map(String::into_bytes)
    }
}

/// The bytes of a token in the alphabet of bytes; added tokens have other characters, too.
fn byte_level(token: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(token.len());
    for char in token.chars() {
        match table().get(char as usize).copied().flatten() {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}
