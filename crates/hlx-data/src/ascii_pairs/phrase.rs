//! A phrase: words that carry meaning and words that may vary.

use super::draw::Draw;
use super::words::capitalised;

/// A word of a phrase. The letters of `content` reach the output or decide it; other words belong to
/// the way of saying it, and may be mistyped.
#[derive(Clone, Debug)]
struct Word {
    text: String,
    is_content: bool,
}

/// English words in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Phrase(Vec<Word>);

/// A phrase and what it says in the notation.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub phrase: Phrase,
    pub value: String,
}

/// A kind of thing to say.
pub(super) type Kind = fn(&mut Draw) -> Said;

impl Said {
    /// One of the kinds, each as likely as its weight says.
    pub fn any_of(draw: &mut Draw, kinds: &[(usize, Kind)]) -> Self {
        draw.weighted(kinds)(draw)
    }

    /// A template's words around the parts, and the value.
    pub fn new(draw: &mut Draw, templates: &[&str], parts: &[&Phrase], value: String) -> Self {
        Self {
            phrase: Phrase::say(draw, templates, parts),
            value,
        }
    }
}

impl Phrase {
    /// Words whose letters matter.
    pub fn content(text: &str) -> Self {
        let words = text.split(' ').map(|word| Word {
            text: word.to_owned(),
            is_content: true,
        });
        Self(words.collect())
    }

    /// One of the templates, `{0}`, `{1}` .. in it replaced by the parts; a word with `!` in front is
    /// content.
    pub fn say(draw: &mut Draw, templates: &[&str], parts: &[&Phrase]) -> Self {
        let mut words = Vec::new();
        for text in draw.one(templates).split(' ') {
            let place = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let part = place.and_then(|(number, after)| {
                Some((parts.get(number.parse::<usize>().ok()?)?, after))
            });
            if let Some((part, after)) = part {
                words.extend(part.0.iter().cloned());
                if let Some(last) = words.last_mut() {
                    last.text.push_str(after);
                }
            } else {
                let content = text.strip_prefix('!');
                words.push(Word {
                    text: content.unwrap_or(text).to_owned(),
                    is_content: content.is_some(),
                });
            }
        }
        Self(words)
    }

    /// The text as a person may type it: letter case, spaces, full stop, a word mistyped.
    pub fn typed(mut self, draw: &mut Draw) -> String {
        if draw.percent(6) {
            self.mistype(draw);
        }
        let texts: Vec<&str> = self.0.iter().map(|word| word.text.as_str()).collect();
        let mut text = texts.join(" ");
        match draw.below(100) {
            0..60 => text = capitalised(&text),
            60..92 => {}
            _ => text.make_ascii_uppercase(),
        }
        if draw.percent(5) {
            text.push('.');
        }
        if draw.percent(2) {
            text.insert(0, ' ');
        }
        text
    }

    /// Leaves out, doubles or swaps a letter of one word that is not content.
    fn mistype(&mut self, draw: &mut Draw) {
        let long = |word: &&mut Word| !word.is_content && word.text.len() >= 4;
        let mut free: Vec<&mut Word> = self.0.iter_mut().filter(long).collect();
        if free.is_empty() {
            return;
        }
        let chosen = draw.below(free.len());
        let text = &mut free[chosen].text;
        // Not the first letter, by which words are told apart.
        let at = 1 + draw.below(text.len() - 2);
        let mut letters: Vec<char> = text.chars().collect();
        match draw.below(3) {
            0 => drop(letters.remove(at)),
            1 => letters.insert(at, letters[at]),
            _ => letters.swap(at, at + 1),
        }
        *text = letters.into_iter().collect();
    }
}
