//! The places of answers, and what each holds of earlier ones.

use hlx_nn::Slots;

use super::sequence::Sequence;

/// A place of the cache.
#[derive(Default)]
pub(super) struct Place<'m> {
    /// The answer that grows in it.
    pub growing: Option<Sequence<'m>>,
    /// Without one, the tokens that an earlier answer has left in the cache.
    held: Vec<u32>,
    /// Whether a prompt is being read for it.
    pub is_taken: bool,
    /// When it was filled last.
    filled: u64,
}

impl Place<'_> {
    fn is_free(&self) -> bool {
        self.growing.is_none() && !self.is_taken
    }
}

/// All places.
pub(super) struct Places<'m> {
    pub all: Vec<Place<'m>>,
    n_filled: u64,
}

/// The longest beginning of a prompt that is in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    pub place: usize,
    pub n_tokens: usize,
    /// Whether the prompt continues all that the place holds.
    is_whole: bool,
}

impl<'m> Places<'m> {
    pub fn new(n: usize) -> Self {
        Self {
            all: (0..n).map(|_| Place::default()).collect(),
            n_filled: 0,
        }
    }

    /// The longest beginning of a prompt that a place holds, the last token of the prompt left out, which is read for
    /// its logits.
    pub fn beginning_of(&self, prompt: &[u32], slots: &Slots) -> Option<Beginning> {
        let found = self.all.iter().enumerate().map(|(place, one)| {
            let ids = one
                .growing
                .as_ref()
                .map_or(&one.held, |growing| &growing.ids);
            let ids = &ids[..ids.len().min(slots.lengths()[place])];
            let alike = ids.iter().zip(prompt).take_while(|(a, b)| a == b).count();
            Beginning {
                place,
                n_tokens: alike.min(prompt.len() - 1),
                is_whole: alike == ids.len(),
            }
        });
        let longest = found.max_by_key(|one| (one.n_tokens, one.is_whole));
        longest.filter(|one| one.n_tokens > 0)
    }

    /// A free place for a prompt, of those that a step computes anyway if there is one: the one that it continues, or the
    /// one that was filled first.
    pub fn free(&self, beginning: Option<Beginning>) -> Option<usize> {
        let busy = self.all.iter().rposition(|one| !one.is_free());
        let computed = busy.map_or(1, |last| (last + 1).next_power_of_two());
        let continued = beginning.filter(|one| {
            let is_free = self.all[one.place].is_free();
            one.is_whole && is_free && one.place < computed
        });
        if let Some(continued) = continued {
            return Some(continued.place);
        }
        let free = self.all.iter().enumerate().filter(|(_, one)| one.is_free());
        let chosen = free.min_by_key(|&(place, one)| match place < computed {
            true => (false, one.filled),
            false => (true, place as u64),
        });
        chosen.map(|(place, _)| place)
    }

    /// Notes that a prompt which continues all that a place holds is read elsewhere: the place is free for others first.
    pub fn note_copied(&mut self, beginning: Beginning, place: usize) {
        if beginning.is_whole && beginning.place != place {
            self.all[beginning.place].filled = 0;
        }
    }

    /// Where what a free place holds goes before the place is filled: the free place that was filled before all others
    /// and before this one, and which doesn't hold the beginning of the prompt.
    pub fn shelf_for(&self, place: usize, beginning: Option<Beginning>) -> Option<usize> {
        let own = &self.all[place];
        let is_whole = beginning.is_some_and(|one| one.place == place && one.is_whole);
        if own.held.is_empty() || is_whole {
            return None;
        }
        let source = beginning.map(|one| one.place);
        let others = self.all.iter().enumerate();
        let others = others.filter(|&(at, one)| at != place && Some(at) != source && one.is_free());
        let oldest = others.min_by_key(|(_, one)| one.filled);
        oldest
            .filter(|(_, one)| one.filled < own.filled)
            .map(|(at, _)| at)
    }

    /// Notes that what a place holds was copied to another.
    pub fn shelve(&mut self, place: usize, shelf: usize) {
        let (held, filled) = (self.all[place].held.clone(), self.all[place].filled);
        self.all[shelf].held = held;
        self.all[shelf].filled = filled;
    }

    /// Puts an answer in its place.
    pub fn fill(&mut self, place: usize, growing: Sequence<'m>) {
        self.n_filled += 1;
        self.all[place] = Place {
            growing: Some(growing),
            held: Vec::new(),
            is_taken: false,
            filled: self.n_filled,
        };
    }

    /// Leaves what was read of a prompt in a place, without an answer.
    pub fn hold(&mut self, place: usize, held: Vec<u32>) {
        self.n_filled += 1;
        self.all[place] = Place {
            held,
            filled: self.n_filled,
            ..Place::default()
        };
    }

    /// Takes an answer out; the place holds its tokens.
    pub fn release(&mut self, place: usize) -> Option<Sequence<'m>> {
        let one = &mut self.all[place];
        let ended = one.growing.take()?;
        one.held.clone_from(&ended.ids);
        Some(ended)
    }

    /// Forgets what the places hold without an answer.
    pub fn forget(&mut self) {
        self.all.iter_mut().for_each(|one| one.held.clear());
    }

    /// The last token of each answer, up to the last place that has one.
    pub fn last_tokens(&self) -> Vec<Option<u32>> {
        let growing =
            |one: &Place<'_>| one.growing.as_ref().and_then(|one| one.ids.last().copied());
        let mut ids: Vec<Option<u32>> = self.all.iter().map(growing).collect();
        let n = ids
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last + 1);
        ids.truncate(n);
        ids
    }

    /// Whether some answer grows.
    pub fn has_growing(&self) -> bool {
        self.all.iter().any(|one| one.growing.is_some())
    }
}
