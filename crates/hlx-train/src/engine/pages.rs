//! The pages of a cache: which are free, which several sequences share, and what those without a sequence hold.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use hlx_nn::PagePool;
use sha2::{Digest as _, Sha256};

/// What a full page holds: SHA-256 over that of the page before it and over its tokens.
type Chain = [u8; 32];

/// What is known of a page.
#[derive(Clone, Default)]
struct Page {
    /// The sequences that have it.
    users: usize,
    /// What it holds, if another sequence may find it.
    holds: Option<Chain>,
    /// Without users, when it was used last.
    used: u64,
}

/// All pages. Those without a sequence are free: first those that hold nothing, then those that were used first.
pub(super) struct Pages {
    all: Vec<Page>,
    /// Free pages that hold nothing.
    empty: Vec<u32>,
    /// Free pages by their last use.
    idle: BTreeMap<u64, u32>,
    /// The full pages.
    known: HashMap<Chain, u32>,
    n_uses: u64,
    /// Pages that several sequences have.
    n_shared: usize,
    /// Whether full pages are found again.
    finds: bool,
}

/// The pages of a sequence.
#[derive(Default)]
pub(super) struct Held {
    pub pages: Vec<u32>,
    /// The tokens in them.
    pub n_tokens: usize,
    /// What each of the full ones holds.
    chains: Vec<Chain>,
}

impl Pages {
    pub fn new(n: usize, finds: bool) -> Self {
        Self {
            all: vec![Page::default(); n],
            empty: (0..n as u32).rev().collect(),
            idle: BTreeMap::new(),
            known: HashMap::new(),
            n_uses: 0,
            n_shared: 0,
            finds,
        }
    }

    /// Pages that a sequence can have.
    pub fn n_free(&self) -> usize {
        self.empty.len() + self.idle.len()
    }

    /// Pages that several sequences have.
    pub fn n_shared(&self) -> usize {
        self.n_shared
    }

    /// Shares the full pages that hold the beginning of these tokens, of which at least one is left out.
    pub fn beginning_of(&mut self, ids: &[u32]) -> Held {
        let known: Vec<_> = self.known_of(ids).collect();
        let mut held = Held::default();
        for (page, chain) in known {
            self.share(page);
            held.pages.push(page);
            held.chains.push(chain);
        }
        held.n_tokens = held.pages.len() * PagePool::PAGE;
        held
    }

    /// The full pages that [`Pages::beginning_of`] would find.
    pub fn n_known(&self, ids: &[u32]) -> usize {
        self.known_of(ids).count()
    }

    /// How many free pages are missing for all of these tokens and one more, where those in use that hold their beginning
    /// count if they may be `reuse`d.
    pub fn n_missing(&self, ids: &[u32], reuses: bool) -> usize {
        let needed = PagePool::pages_of(ids.len() + 1);
        let in_use = |(page, _): &(u32, Chain)| self.all[*page as usize].users > 0;
        let n_in_use = match reuses {
            true => self.known_of(ids).filter(in_use).count(),
            false => 0,
        };
        (needed - n_in_use).saturating_sub(self.n_free())
    }

    /// The full pages that hold the beginning of these tokens, of which at least one is left out.
    fn known_of(&self, ids: &[u32]) -> impl Iterator<Item = (u32, Chain)> {
        let whole = ids[..ids.len().saturating_sub(1)].chunks_exact(PagePool::PAGE);
        let mut last: Option<Chain> = None;
        whole.take_while(|_| self.finds).map_while(move |tokens| {
            let next = chain(last.as_ref(), tokens);
            last = Some(next);
            self.known.get(&next).map(|&page| (page, next))
        })
    }

    /// Gives a sequence pages for this many tokens. Returns false, and gives those that there are, if they do not suffice.
    pub fn extend(&mut self, held: &mut Held, n_tokens: usize) -> bool {
        while held.pages.len() < PagePool::pages_of(n_tokens) {
            let Some(page) = self.take() else {
                return false;
            };
            held.pages.push(page);
        }
        true
    }

    /// Notes that the pages of a sequence hold these tokens: full ones can be found.
    pub fn note(&mut self, held: &mut Held, ids: &[u32]) {
        held.n_tokens = ids.len();
        if !self.finds {
            return;
        }
        let all = ids.chunks_exact(PagePool::PAGE).enumerate();
        for (at, tokens) in all.skip(held.chains.len()) {
            let chain = chain(held.chains.last(), tokens);
            held.chains.push(chain);
            // Another page may hold the same.
            if let Entry::Vacant(new) = self.known.entry(chain) {
                let page = *new.insert(held.pages[at]);
                self.all[page as usize].holds = Some(chain);
            }
        }
    }

    /// Takes the pages of a sequence back. Of those that hold something the last ones are dropped first.
    pub fn release(&mut self, held: &mut Held) {
        let held = std::mem::take(held);
        for page in held.pages.into_iter().rev() {
            let one = &mut self.all[page as usize];
            one.users -= 1;
            if one.users > 0 {
                self.n_shared -= usize::from(one.users == 1);
                continue;
            }
            if one.holds.is_none() {
                self.empty.push(page);
                continue;
            }
            self.n_uses += 1;
            one.used = self.n_uses;
            self.idle.insert(self.n_uses, page);
        }
    }

    /// Forgets what pages hold, those that sequences have included.
    pub fn forget(&mut self) {
        self.known.clear();
        self.all.iter_mut().for_each(|page| page.holds = None);
        self.empty
            .extend(std::mem::take(&mut self.idle).into_values());
    }

    fn share(&mut self, page: u32) {
        let one = &mut self.all[page as usize];
        if one.users == 0 {
            self.idle.remove(&one.used);
        }
        one.users += 1;
        self.n_shared += usize::from(one.users == 2);
    }

    fn take(&mut self) -> Option<u32> {
        let page = match self.empty.pop() {
            Some(page) => page,
            None => {
                let (_, page) = self.idle.pop_first()?;
                let held = self.all[page as usize].holds.take();
                held.map(|chain| self.known.remove(&chain));
                page
            }
        };
        self.all[page as usize].users = 1;
        Some(page)
    }
}

fn chain(before: Option<&Chain>, tokens: &[u32]) -> Chain {
    let mut hasher = Sha256::new();
    hasher.update(before.unwrap_or(&[0; 32]));
    for token in tokens {
        hasher.update(token.to_le_bytes());
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = PagePool::PAGE;

    fn ids(n: usize) -> Vec<u32> {
        (0..n as u32).collect()
    }

    /// The pages of a sequence of these tokens, and how many of them were found.
    fn filled(pages: &mut Pages, ids: &[u32]) -> (Held, usize) {
        let mut held = pages.beginning_of(ids);
        let n_found = held.pages.len();
        assert!(pages.extend(&mut held, ids.len()));
        pages.note(&mut held, ids);
        (held, n_found)
    }

    #[test]
    fn full_pages_are_shared_and_found_until_they_are_needed() {
        let mut pages = Pages::new(4, true);
        let (mut first, n_found) = filled(&mut pages, &ids(2 * PAGE + 1));
        assert_eq!((n_found, pages.n_free()), (0, 1));
        let (mut second, n_found) = filled(&mut pages, &ids(2 * PAGE + 2));
        assert_eq!((n_found, pages.n_shared(), pages.n_free()), (2, 2, 0));
        assert!(!pages.extend(&mut second, 3 * PAGE + 1), "no page is free");
        pages.release(&mut first);
        assert_eq!((pages.n_shared(), pages.n_free()), (0, 1));
        pages.release(&mut second);
        assert_eq!(pages.n_free(), 4);
        // All but one token: the last page of whole ones is read anew.
        assert_eq!(pages.beginning_of(&ids(2 * PAGE)).pages.len(), 1);
        let mut pages = Pages::new(3, true);
        let (mut held, _) = filled(&mut pages, &ids(3 * PAGE));
        pages.release(&mut held);
        let other: Vec<u32> = ids(PAGE).into_iter().rev().collect();
        let (mut held, n_found) = filled(&mut pages, &other);
        assert_eq!(n_found, 0);
        pages.release(&mut held);
        // The page that was dropped is the last of the older sequence.
        let (_, n_found) = filled(&mut pages, &ids(3 * PAGE));
        assert_eq!(n_found, 2);
    }

    #[test]
    fn nothing_is_found_where_it_is_not_wanted_and_where_it_was_forgotten() {
        let mut pages = Pages::new(4, false);
        let (mut held, _) = filled(&mut pages, &ids(2 * PAGE));
        pages.release(&mut held);
        assert_eq!(pages.beginning_of(&ids(2 * PAGE)).pages.len(), 0);
        let mut pages = Pages::new(4, true);
        let (mut held, _) = filled(&mut pages, &ids(2 * PAGE + 1));
        pages.forget();
        pages.release(&mut held);
        assert_eq!(pages.n_free(), 4);
        assert_eq!(pages.beginning_of(&ids(2 * PAGE + 1)).pages.len(), 0);
    }

    #[test]
    fn what_is_missing_counts_free_pages_and_those_in_use() {
        let mut pages = Pages::new(4, true);
        assert_eq!(pages.n_missing(&ids(4 * PAGE), true), 1);
        let (_first, _) = filled(&mut pages, &ids(2 * PAGE + 1));
        assert_eq!(pages.n_missing(&ids(2 * PAGE + 5), true), 0);
        assert_eq!(pages.n_missing(&ids(2 * PAGE + 5), false), 2);
        assert_eq!(pages.n_missing(&ids(3 * PAGE), true), 1);
        assert_eq!(pages.n_missing(&[7; PAGE], true), 1);
    }
}
