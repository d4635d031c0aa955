//! Training byte-level BPE: counts of words first, then the most frequent pair again and again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Tokenizer;
use super::byte_level::alphabet;
use super::split::{Pattern, words};
use crate::{Result, TextError};

/// How often each word occurs. Counts of parts of a corpus may be joined in any order.
#[derive(Clone, Debug, Default)]
pub struct WordCounts {
    counts: HashMap<Box<str>, u64>,
}

/// Trains a byte-level BPE tokenizer, as GPT-2's: ties go to the pair of lower tokens, so that the
/// result depends on the counts alone.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use hlx_text::{BpeTrainer, WordCounts};
///
/// let mut counts = WordCounts::default();
/// counts.add("low lower lowest low low");
/// let trainer = BpeTrainer { vocabulary_size: 260, ..BpeTrainer::default() };
/// let tokenizer = trainer.train(counts, |_, _| ControlFlow::Continue(()))?;
/// assert_eq!(tokenizer.vocabulary_size(), 260);
/// assert_eq!(tokenizer.encode("low")?.len(), 1);
/// # Ok::<(), hlx_text::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BpeTrainer {
    /// Tokens, special ones and the 256 bytes included.
    pub vocabulary_size: usize,
    /// A pair that occurs less often is not joined.
    pub min_frequency: u64,
    /// Special tokens, which take the first numbers.
    pub special_tokens: Vec<String>,
}

impl Default for BpeTrainer {
    /// 32,768 tokens, pairs that occur twice, and `<|endoftext|>`.
    fn default() -> Self {
        Self {
            vocabulary_size: 32_768,
            min_frequency: 2,
            special_tokens: vec!["<|endoftext|>".to_owned()],
        }
    }
}

impl WordCounts {
    /// Counts the words of a text.
    pub fn add(&mut self, text: &str) {
        for word in words(text, Pattern::Gpt2) {
            match self.counts.get_mut(word) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(word.into(), 1);
                }
            }
        }
    }

    /// Adds the counts of another part.
    pub fn join(&mut self, other: Self) {
        for (word, count) in other.counts {
            *self.counts.entry(word).or_default() += count;
        }
    }

    /// The number of different words.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether no word was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

/// A pair of tokens.
type Pair = (u32, u32);

/// A word as tokens, and how often it occurs.
struct Word {
    tokens: Vec<u32>,
    count: u64,
}

/// Where a pair occurs.
#[derive(Default)]
struct Occurrences {
    count: u64,
    /// Words that have held the pair, each once.
    words: Vec<u32>,
}

/// The words under way.
struct Corpus {
    words: Vec<Word>,
    pairs: HashMap<Pair, Occurrences>,
    /// Pairs by count; an entry whose count has changed since is corrected when it is taken.
    queue: BinaryHeap<(u64, Reverse<Pair>)>,
}

impl BpeTrainer {
    /// Trains on counted words. `progress` is called with the tokens that there are and those wanted, and may
    /// stop the work, which is an error then.
    ///
    /// # Errors
    /// [`TextError::Argument`]: no words; a vocabulary below the bytes and special tokens; a special
    /// token that is empty, a byte's character, or listed twice.
    pub fn train(
        &self,
        counts: WordCounts,
        mut progress: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Tokenizer> {
        let mut vocabulary = self.first_tokens()?;
        if counts.is_empty() {
            return Err(TextError::argument("train", "the texts hold no words"));
        }
        let mut ids: HashMap<String, u32> = vocabulary.iter().cloned().zip(0..).collect();
        let bytes = alphabet().map(|char| ids[char.encode_utf8(&mut [0; 4]) as &str]);
        let mut corpus = Corpus::new(counts, &bytes);
        let mut merges = Vec::new();
        while vocabulary.len() < self.vocabulary_size {
            let Some((left, right)) = corpus.next_pair(self.min_frequency) else {
                break;
            };
            let text = |id: u32| vocabulary[id as usize].as_str();
            let joined = [text(left), text(right)].concat();
            merges.push([text(left).to_owned(), text(right).to_owned()]);
            // Two pairs may join to the same text, which is one token.
            let id = match ids.get(&joined) {
                Some(&id) => id,
                None => {
                    let id = vocabulary.len() as u32;
                    ids.insert(joined.clone(), id);
                    vocabulary.push(joined);
                    id
                }
            };
            corpus.join((left, right), id);
            if progress(vocabulary.len(), self.vocabulary_size).is_break() {
                return Err(TextError::argument("train", "was stopped"));
            }
        }
        Tokenizer::from_json(&self.to_json(&vocabulary, &merges)?)
    }

    /// The special tokens, and the bytes in the order of their characters.
    fn first_tokens(&self) -> Result<Vec<String>> {
        let wrong = |reason: String| Err(TextError::argument("train", reason));
        let mut characters = alphabet();
        characters.sort_unstable();
        let specials = &self.special_tokens;
        for (at, token) in specials.iter().enumerate() {
            if specials[..at].contains(token) {
                return wrong(format!("the special token `{token}` is listed twice"));
            }
            if token.chars().count() < 2 {
                return wrong(format!(
                    "the special token `{token}` has less than two characters"
                ));
            }
        }
        let least = specials.len() + characters.len();
        if self.vocabulary_size < least {
            return wrong(format!(
                "a vocabulary of {} tokens is too small: the bytes and the special tokens are {least}",
                self.vocabulary_size
            ));
        }
        let bytes = characters.iter().map(char::to_string);
        Ok(specials.iter().cloned().chain(bytes).collect())
    }

    /// The `tokenizer.json` of a vocabulary and its merges.
    fn to_json(&self, vocabulary: &[String], merges: &[[String; 2]]) -> Result<Vec<u8>> {
        let special = |(id, content): (usize, &String)| {
            json!({
                "id": id, "content": content, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true
            })
        };
        let ids = vocabulary.iter().cloned().zip((0_u64..).map(Value::from));
        let byte_level = |add_prefix_space: bool| {
            json!({
                "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true,
                "use_regex": true
            })
        };
        let mut file = TokenizerJson {
            version: "1.0",
            truncation: (),
            padding: (),
            added_tokens: self
                .special_tokens
                .iter()
                .enumerate()
                .map(special)
                .collect(),
            normalizer: (),
            pre_tokenizer: byte_level(false),
            post_processor: (),
            decoder: byte_level(true),
            model: json!({
                "type": "BPE", "dropout": null, "unk_token": null,
                "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
                "byte_fallback": false, "ignore_merges": false,
                "vocab": ids.collect::<Map<String, Value>>(), "merges": merges
            }),
        };
        let parts = [&mut file.pre_tokenizer, &mut file.decoder, &mut file.model];
        let added = file.added_tokens.iter_mut();
        parts
            .into_iter()
            .chain(added)
            .for_each(Value::sort_all_objects);
        let written = serde_json::to_vec_pretty(&file);
        let mut bytes = written.map_err(|error| TextError::argument("train", error))?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The keys of `tokenizer.json`.
#[derive(Serialize)]
struct TokenizerJson {
    version: &'static str,
    truncation: (),
    padding: (),
    added_tokens: Vec<Value>,
    normalizer: (),
    pre_tokenizer: Value,
    post_processor: (),
    decoder: Value,
    model: Value,
}

impl Corpus {
    fn new(counts: WordCounts, bytes: &[u32; 256]) -> Self {
        let mut counts: Vec<(Box<str>, u64)> = counts.counts.into_iter().collect();
        // No result depends on the order of the words; a sorted one gives equal times.
        counts.sort_unstable();
        let word = |(text, count): (Box<str>, u64)| Word {
            tokens: text.bytes().map(|byte| bytes[usize::from(byte)]).collect(),
            count,
        };
        let mut corpus = Self {
            words: counts.into_iter().map(word).collect(),
            pairs: HashMap::new(),
            queue: BinaryHeap::new(),
        };
        for place in 0..corpus.words.len() {
            let pairs = pairs_of(&corpus.words[place].tokens);
            corpus.add(place, &pairs, |_| true);
        }
        let entries = corpus.pairs.iter();
        corpus.queue = entries
            .map(|(&pair, found)| (found.count, Reverse(pair)))
            .collect();
        corpus
    }

    /// Counts pairs of a word; those that are `new` note the word.
    fn add(&mut self, place: usize, pairs: &[Pair], new: impl Fn(Pair) -> bool) {
        let count = self.words[place].count;
        for &pair in pairs {
            let found = self.pairs.entry(pair).or_default();
            found.count += count;
            if new(pair) && found.words.last() != Some(&(place as u32)) {
                found.words.push(place as u32);
            }
        }
    }

    /// Takes the most frequent pair, the one of lower tokens of equals.
    fn next_pair(&mut self, min_frequency: u64) -> Option<Pair> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            let now = self.pairs.get(&pair).map_or(0, |found| found.count);
            if now != count {
                if now > 0 {
                    self.queue.push((now, Reverse(pair)));
                }
                continue;
            }
            return (count >= min_frequency.max(1)).then_some(pair);
        }
        None
    }

    /// Makes a pair one token wherever it occurs.
    fn join(&mut self, pair: Pair, id: u32) {
        let places = self.pairs.remove(&pair).unwrap_or_default().words;
        let has_new = |(left, right): Pair| left == id || right == id;
        let mut risen = Vec::new();
        for place in places {
            let place = place as usize;
            let word = &mut self.words[place];
            let joined = join_in(&word.tokens, pair, id);
            if joined.len() == word.tokens.len() {
                continue;
            }
            let old = std::mem::replace(&mut word.tokens, joined);
            let count = word.count;
            for gone in pairs_of(&old) {
                if let Some(found) = self.pairs.get_mut(&gone) {
                    found.count -= count;
                }
            }
            let new = pairs_of(&self.words[place].tokens);
            self.add(place, &new, has_new);
            risen.extend(new.into_iter().filter(|&pair| has_new(pair)));
        }
        risen.sort_unstable();
        risen.dedup();
        let entries = risen.into_iter();
        self.queue
            .extend(entries.map(|pair| (self.pairs[&pair].count, Reverse(pair))));
    }
}

fn pairs_of(tokens: &[u32]) -> Vec<Pair> {
    tokens.windows(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Joins a pair from the left on.
fn join_in(tokens: &[u32], pair: Pair, id: u32) -> Vec<u32> {
    let mut joined = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let is_pair = tokens.get(at + 1) == Some(&pair.1) && tokens[at] == pair.0;
        joined.push(if is_pair { id } else { tokens[at] });
        at += 1 + usize::from(is_pair);
    }
    joined
}
