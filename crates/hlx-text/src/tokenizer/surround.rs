//! The special tokens that a tokenizer's post-processor puts around a text.

use tokenizers::{Encoding, Error, PostProcessor as _, Token, Tokenizer};

/// Tokens in front of a text, and after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Surroundings {
    pub before: Vec<u32>,
    pub behind: Vec<u32>,
    /// Whether the text stands between them once, as it is.
    pub is_once: bool,
}

impl Surroundings {
    /// Those that a tokenizer puts around any text. A text of one token stands for all: a post-processor sees
    /// tokens, not their text.
    ///
    /// # Errors
    /// What the post-processor reports.
    pub fn of(tokenizer: &Tokenizer) -> Result<Self, Error> {
        let Some(processor) = tokenizer.get_post_processor() else {
            return Ok(Self {
                is_once: true,
                ..Self::default()
            });
        };
        let token = Token::new(0, "a".to_owned(), (0, 1));
        let text = Encoding::from_tokens(vec![token], 0);
        let encoding = processor.process(text, None, true)?;
        let (ids, added) = (encoding.get_ids(), encoding.get_special_tokens_mask());
        let place = added.iter().position(|&is_added| is_added == 0);
        // A post-processor that drops the text has nothing around it.
        Ok(place.map_or_else(Self::default, |place| Self {
            before: ids[..place].to_vec(),
            behind: ids[place + 1..].to_vec(),
            is_once: ids[place] == 0
                && added.iter().filter(|&&is_added| is_added == 0).count() == 1,
        }))
    }
}
