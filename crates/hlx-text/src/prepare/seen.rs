//! What a preparation has met: which records, and which of their keys it does not read.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::PrepareOptions;
use super::record::{Read, Record};
use crate::{Document, DocumentCounts};

/// Names of keys that are remembered.
const MAX_KEYS: usize = 32;
/// Names of keys that are told.
const TOLD_KEYS: usize = 8;

/// What was met so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Seen {
    pub documents: DocumentCounts,
    /// Keys of records that are not read, the first ones.
    other_keys: BTreeSet<String>,
    /// Records with nothing that is trained on.
    n_unlabelled: u64,
    /// Texts that were not records.
    pub n_plain: u64,
}

impl Seen {
    /// Takes a record in.
    pub fn add(&mut self, read: &Read, document: &Document) {
        let counts = &mut self.documents;
        *match &read.record {
            Record::Text(_) => &mut counts.texts,
            Record::Pair { .. } => &mut counts.pairs,
            Record::Completion { .. } => &mut counts.completions,
            Record::Chat(_) => &mut counts.chats,
        } += 1;
        self.add_keys(&read.other_keys);
        let trained = document.trained.as_ref();
        let is_unlabelled = trained.is_some_and(|trained| !trained.contains(&true));
        self.n_unlabelled += u64::from(is_unlabelled);
    }

    /// Takes in what was met behind.
    pub fn join(&mut self, other: &Self) {
        self.documents.add(&other.documents);
        self.add_keys(&other.other_keys);
        self.n_unlabelled += other.n_unlabelled;
        self.n_plain += other.n_plain;
    }

    fn add_keys<'a>(&mut self, keys: impl IntoIterator<Item = &'a String>) {
        for key in keys {
            if self.other_keys.len() < MAX_KEYS && !self.other_keys.contains(key) {
                self.other_keys.insert(key.clone());
            }
        }
    }

    /// What was stated and not followed: one line each.
    pub fn notices(&self, options: &PrepareOptions) -> Vec<String> {
        let counts = &self.documents;
        let DocumentCounts {
            texts,
            pairs,
            completions,
            chats,
            tokens,
        } = *counts;
        let n_records = texts + pairs + completions + chats;
        let mut lines = Vec::new();
        if !self.other_keys.is_empty() {
            lines.push(format!(
                "the records' other keys are not read: {}",
                self.named_keys()
            ));
        }
        if self.n_unlabelled > 0 {
            let n = self.n_unlabelled;
            lines.push(format!(
                "{n} of {n_records} records hold nothing to train on: no answer of the assistant, or an empty one"
            ));
        }
        let states_ends = options.begin.is_some() || !options.end;
        if states_ends && chats > 0 {
            lines.push(format!(
                "--bos, --no-bos and --no-eos are not of the {chats} chats, which begin and end as the template writes them"
            ));
        }
        if states_ends && tokens > 0 {
            lines.push("--bos, --no-bos and --no-eos are not of files of tokens".to_owned());
        }
        for (name, is_given, n) in [
            ("--chat-template", options.template.is_some(), chats),
            ("--pair-separator", options.pair_separator.is_some(), pairs),
            ("--separator", options.separator.is_some(), self.n_plain),
        ] {
            if is_given && n == 0 {
                lines.push(format!("{name}: no document is of the kind that it is for"));
            }
        }
        lines
    }

    fn named_keys(&self) -> String {
        let keys = self.other_keys.iter().take(TOLD_KEYS);
        let keys: Vec<String> = keys
            .map(|key| format!("`{}`", key.escape_debug()))
            .collect();
        let more = match self.other_keys.len() > TOLD_KEYS {
            true => ", ...",
            false => "",
        };
        keys.join(", ") + more
    }
}
