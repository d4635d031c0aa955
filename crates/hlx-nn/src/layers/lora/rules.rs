//! A configuration of adapters with its patterns compiled.

use fancy_regex::Regex;

use super::config::{LoraConfig, NamePatterns};
use super::expressions::{is, pattern};
use crate::parameters::matches;

/// What a configuration says of each layer.
#[derive(Debug)]
pub(crate) struct LoraRules {
    pub config: LoraConfig,
    ranks: Vec<(Regex, usize)>,
    alphas: Vec<(Regex, f64)>,
}

impl LoraRules {
    /// Compiles the patterns; what [`LoraConfig::check`] refuses describes no layer.
    pub fn new(config: LoraConfig) -> Self {
        Self {
            ranks: compiled(&config.rank_pattern),
            alphas: compiled(&config.alpha_pattern),
            config,
        }
    }

    /// Whether a layer of this name has an adapter.
    pub fn has(&self, layer: &str) -> bool {
        let mut targets = self.config.targets.iter();
        targets.any(|pattern| matches(pattern, layer)) && !self.saves(layer)
    }

    /// Whether a module is trained as a whole: it, or a module that it is a part of, is named.
    pub fn saves(&self, module: &str) -> bool {
        let mut patterns = self.config.modules_to_save.iter();
        patterns.any(|pattern| saves(pattern, module))
    }

    /// The rank of a layer's adapter.
    pub fn rank(&self, layer: &str) -> usize {
        let own = self.ranks.iter().find(|(pattern, _)| is(pattern, layer));
        own.map_or(self.config.rank, |(_, rank)| *rank)
    }

    /// The alpha of a layer's adapter.
    pub fn alpha(&self, layer: &str) -> f64 {
        let own = self.alphas.iter().find(|(pattern, _)| is(pattern, layer));
        own.map_or(self.config.alpha, |(_, alpha)| *alpha)
    }

    /// What the addition to a layer is scaled by.
    pub fn scale(&self, layer: &str) -> f32 {
        let (alpha, rank) = (self.alpha(layer), self.rank(layer) as f64);
        let over = if self.config.rslora {
            rank.sqrt()
        } else {
            rank
        };
        (alpha / over) as f32
    }

    /// The first pattern of ranks or alphas that describes none of the layers: its key and itself.
    pub fn unused_pattern(&self, layers: &[&str]) -> Option<(&'static str, &str)> {
        let is_unused = |pattern: &Regex| !layers.iter().any(|layer| is(pattern, layer));
        let rank = self.ranks.iter().position(|(one, _)| is_unused(one));
        if let Some(at) = rank {
            return Some(("rank_pattern", key_at(&self.config.rank_pattern, at)));
        }
        let alpha = self.alphas.iter().position(|(one, _)| is_unused(one));
        alpha.map(|at| ("alpha_pattern", key_at(&self.config.alpha_pattern, at)))
    }
}

/// Whether a pattern names a module, or a module that it is a part of.
pub(super) fn saves(pattern: &str, module: &str) -> bool {
    let ends = module.match_indices('.').map(|(at, _)| at);
    ends.chain([module.len()])
        .any(|end| matches(pattern, &module[..end]))
}

fn key_at<T>(patterns: &NamePatterns<T>, at: usize) -> &str {
    patterns.iter().nth(at).map_or("", |(key, _)| key)
}

fn compiled<T: Copy>(patterns: &NamePatterns<T>) -> Vec<(Regex, T)> {
    let compiled = patterns.iter();
    let compiled = compiled.filter_map(|(key, value)| Some((pattern(key).ok()?, *value)));
    compiled.collect()
}
