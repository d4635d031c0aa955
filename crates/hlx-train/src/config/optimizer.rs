//! `[optimizer]` and `[[groups]]`: the numbers of the optimizer that `train.optimizer` names.

use anyhow::{Context as _, ensure};
use hlx_kernels::optimizer::eight_bit::BLOCK_ELEMENTS;
use hlx_nn::{
    Adafactor, AdafactorConfig, Adagrad, AdagradConfig, Adam, AdamConfig, AdamW, AdamW8bit,
    AdamWConfig, Averaged, Common, Lion, LionConfig, Muon, MuonAdjust, MuonConfig, Optimizer,
    Parameter, ParameterGroup, ParameterSet, RMSprop, RMSpropConfig, SGD, SGDConfig, Scaled,
    Undivided, UpdateRule, Weights,
};
use serde::{Deserialize, Serialize};

use super::Config;
use super::fault::{Checked, fault, within};

/// The momentum of `optimizer = "sgd"`, if the section has none.
const SGD_MOMENTUM: f64 = 0.9;

/// The optimizers; their formulas and constants are those of `torch.optim`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// Gradient descent with momentum 0.9.
    Sgd,
    /// Adam with betas 0.9 and 0.999.
    Adam,
    /// AdamW with betas 0.9 and 0.999.
    #[default]
    Adamw,
    /// AdamW with betas 0.9 and 0.999, its moments in 8 bits.
    Adamw8bit,
    /// Adagrad.
    Adagrad,
    /// RMSprop with alpha 0.99.
    Rmsprop,
    /// Lion with betas 0.9 and 0.99.
    Lion,
    /// Muon for matrices, AdamW for the other parameters.
    Muon,
    /// Adafactor.
    Adafactor,
}

/// What a run may hold in the host's memory. No bit depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// The optimizer's state.
    Optimizer,
}

/// `[optimizer]`: numbers that are not the optimizer's defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerSection {
    /// For `sgd` (0.9), `rmsprop` (0) and `muon` (0.95).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f64>,
    /// For `sgd`: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dampening: Option<f64>,
    /// For `sgd` (false) and `muon` (true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nesterov: Option<bool>,
    /// For `adam`, `adamw`, `adamw8bit` and `lion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub betas: Option<[f64; 2]>,
    /// For `adam`, `adamw` and `adamw8bit` (1e-8), `adagrad` (1e-10), `rmsprop` (1e-8) and `adafactor` (2^-23).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eps: Option<f64>,
    /// For `adafactor`: -0.8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta2_decay: Option<f64>,
    /// For `adafactor`: 1e-3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eps2: Option<f64>,
    /// For `adafactor`: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d: Option<f64>,
    /// For `rmsprop`: 0.99.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// For `rmsprop`: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub centered: Option<bool>,
    /// For `adagrad`: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lr_decay: Option<f64>,
    /// For `adagrad`: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_accumulator_value: Option<f64>,
    /// For `muon`: 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_steps: Option<u32>,
    /// For `muon`: how a matrix's shape enters its rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adjust_lr_fn: Option<AdjustKind>,
    /// For `muon`: patterns of matrices that AdamW updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adamw_parameters: Option<Vec<String>>,
    /// For `muon`: its AdamW's weight decay, 0.01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adamw_weight_decay: Option<f64>,
    /// For `muon`: its AdamW's rate, as a part of the rate; 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adamw_lr_factor: Option<f64>,
}

/// The names of [`MuonAdjust`], which are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdjustKind {
    /// By `sqrt(max(1, rows / columns))`.
    Original,
    /// By `0.2 sqrt(max(rows, columns))`.
    MatchRmsAdamw,
    /// By `sqrt(rows / columns)`.
    SpectralUnclamped,
}

/// One of `[[groups]]`: parameters with a rate and a decay of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSection {
    /// Patterns for names; a `*` stands for any letters, dots too.
    pub parameters: Vec<String>,
    /// Multiplies the learning rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lr_factor: Option<f64>,
    /// Replaces the weight decay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
}

/// Each key of the section with the optimizers that have it.
const KEYS: [(&str, &[OptimizerKind]); 17] = {
    use OptimizerKind::{Adafactor, Adagrad, Adam, Adamw, Adamw8bit, Lion, Muon, Rmsprop, Sgd};
    [
        ("optimizer.momentum", &[Sgd, Rmsprop, Muon]),
        ("optimizer.dampening", &[Sgd]),
        ("optimizer.nesterov", &[Sgd, Muon]),
        ("optimizer.betas", &[Adam, Adamw, Adamw8bit, Lion]),
        (
            "optimizer.eps",
            &[Adam, Adamw, Adamw8bit, Adagrad, Rmsprop, Adafactor],
        ),
        ("optimizer.beta2_decay", &[Adafactor]),
        ("optimizer.eps2", &[Adafactor]),
        ("optimizer.d", &[Adafactor]),
        ("optimizer.alpha", &[Rmsprop]),
        ("optimizer.centered", &[Rmsprop]),
        ("optimizer.lr_decay", &[Adagrad]),
        ("optimizer.initial_accumulator_value", &[Adagrad]),
        ("optimizer.ns_steps", &[Muon]),
        ("optimizer.adjust_lr_fn", &[Muon]),
        ("optimizer.adamw_parameters", &[Muon]),
        ("optimizer.adamw_weight_decay", &[Muon]),
        ("optimizer.adamw_lr_factor", &[Muon]),
    ]
};

impl OptimizerSection {
    /// Whether the optimizer has its defaults.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl OptimizerKind {
    /// PyTorch's default of the weight decay.
    pub fn weight_decay(self) -> f64 {
        match self {
            Self::Adamw | Self::Adamw8bit => 0.01,
            Self::Muon => 0.1,
            _ => 0.0,
        }
    }
}

/// The configuration of one of the optimizers.
enum Rule {
    Sgd(SGDConfig),
    Adam(AdamConfig),
    Adamw(AdamWConfig),
    Adamw8bit(AdamWConfig),
    Adagrad(AdagradConfig),
    Rmsprop(RMSpropConfig),
    Lion(LionConfig),
    Muon(MuonConfig),
    Adafactor(AdafactorConfig),
}

impl Rule {
    fn check(&self) -> hlx_nn::Result<()> {
        match self {
            Self::Sgd(rule) => rule.check(),
            Self::Adam(rule) => rule.check(),
            Self::Adamw(rule) | Self::Adamw8bit(rule) => rule.check(),
            Self::Adagrad(rule) => rule.check(),
            Self::Rmsprop(rule) => rule.check(),
            Self::Lion(rule) => rule.check(),
            Self::Muon(rule) => rule.check(),
            Self::Adafactor(rule) => rule.check(),
        }
    }
}

impl Config {
    /// Names the embedding and the output of a model with an architecture, which `muon` leaves to AdamW.
    pub(super) fn resolve_muon(&mut self) {
        if self.model.is_causal() && self.train.optimizer == OptimizerKind::Muon {
            let patterns = ["*embed*", "lm_head.*"].map(str::to_owned);
            let chosen = &mut self.optimizer.adamw_parameters;
            chosen.get_or_insert(patterns.to_vec());
        }
    }

    /// Makes the optimizer that the configuration names.
    ///
    /// # Errors
    /// Numbers out of range, a group's pattern that is the name of no parameter, and what the device reports.
    pub fn make_optimizer(&self, weights: &Weights) -> hlx_nn::Result<Box<dyn Optimizer>> {
        if self.train.offload == Some(Offload::Optimizer) {
            weights.offload_state();
        }
        let mut optimizer = self.plain_optimizer(weights)?;
        if let Some(decay) = self.train.ema_decay {
            optimizer = Box::new(Averaged::new(weights, optimizer, decay)?);
        }
        if let Some(scale) = self.train.loss_scale {
            optimizer = Box::new(Scaled::new(weights, optimizer, scale.scaling())?);
        }
        Ok(optimizer)
    }

    /// What one process must update as a whole: the matrices of Muon, the blocks of moments in 8 bits, all of
    /// Adafactor.
    ///
    /// # Errors
    /// A group's pattern that is the name of no parameter.
    pub fn undivided(&self, weights: &Weights) -> hlx_nn::Result<Undivided> {
        Ok(match self.rule(self.parameter_groups(weights)?) {
            Rule::Muon(rule) => Undivided {
                parameters: rule.matrices(weights),
                block: 0,
            },
            Rule::Adafactor(_) => Undivided {
                parameters: Adafactor::undivided(weights),
                block: 0,
            },
            Rule::Adamw8bit(_) => Undivided {
                parameters: ParameterSet::default(),
                block: BLOCK_ELEMENTS,
            },
            _ => Undivided::default(),
        })
    }

    fn plain_optimizer(&self, weights: &Weights) -> hlx_nn::Result<Box<dyn Optimizer>> {
        Ok(match self.rule(self.parameter_groups(weights)?) {
            Rule::Sgd(rule) => Box::new(SGD::new(weights, rule)?),
            Rule::Adam(rule) => Box::new(Adam::new(weights, rule)?),
            Rule::Adamw(rule) => Box::new(AdamW::new(weights, rule)?),
            Rule::Adamw8bit(rule) => Box::new(AdamW8bit::new(weights, rule)?),
            Rule::Adagrad(rule) => Box::new(Adagrad::new(weights, rule)?),
            Rule::Rmsprop(rule) => Box::new(RMSprop::new(weights, rule)?),
            Rule::Lion(rule) => Box::new(Lion::new(weights, rule)?),
            Rule::Muon(rule) => Box::new(Muon::new(weights, rule)?),
            Rule::Adafactor(rule) => Box::new(Adafactor::new(weights, rule)?),
        })
    }

    /// Freezes the parameters that `train.freeze` names, and with adapters all others.
    ///
    /// # Errors
    /// A pattern that is the name of no parameter, and a model without any other parameter.
    pub fn freeze(&self, weights: &Weights) -> anyhow::Result<()> {
        if let Some(lora) = self.lora() {
            weights.freeze_all_but_lora(&lora)?;
            for target in weights.unmatched_targets(&lora) {
                tracing::warn!(
                    "lora.targets: {target} names no linear layer of the model, and is left out"
                );
            }
        }
        for pattern in &self.train.freeze {
            let set = weights.matching(pattern);
            weights.requires_grad_(&set.context("train.freeze")?, false);
        }
        let some_left = weights.parameters().iter().any(Parameter::requires_grad);
        ensure!(some_left, "train.freeze: no parameter is left to train");
        Ok(())
    }

    /// Fails for keys of another optimizer and numbers out of range.
    pub(super) fn check_optimizer(&self) -> Checked {
        let kind = self.train.optimizer;
        let section = &self.optimizer;
        let set = toml::Table::try_from(section).unwrap_or_default();
        for (key, kinds) in KEYS {
            let name = key.trim_start_matches("optimizer.");
            if set.contains_key(name) && !kinds.contains(&kind) {
                let own = KEYS.iter().filter(|(_, kinds)| kinds.contains(&kind));
                let own: Vec<&str> = own
                    .map(|(key, _)| key.trim_start_matches("optimizer."))
                    .collect();
                let reason = format!("is no key of {kind:?}, which has {}", own.join(", "));
                return fault(key, reason.to_lowercase());
            }
        }
        for group in &self.groups {
            for value in [group.lr_factor, group.weight_decay].into_iter().flatten() {
                within("groups", value, 0.0, f64::INFINITY)?;
            }
        }
        match self.rule(Vec::new()).check() {
            Ok(()) => Ok(()),
            Err(error) => fault("train.optimizer", error.to_string()),
        }
    }

    /// The parameters of each group in a model.
    fn parameter_groups(&self, weights: &Weights) -> hlx_nn::Result<Vec<ParameterGroup>> {
        let group = |group: &GroupSection| {
            let mut parameters = ParameterSet::default();
            for pattern in &group.parameters {
                parameters = parameters.or(&weights.matching(pattern)?);
            }
            Ok(ParameterGroup {
                parameters,
                lr_factor: group.lr_factor.unwrap_or(1.0),
                weight_decay: group.weight_decay,
            })
        };
        self.groups.iter().map(group).collect()
    }

    /// The optimizer's numbers: those of the configuration, else its defaults.
    fn rule(&self, groups: Vec<ParameterGroup>) -> Rule {
        let limit = self.train.clip_norm as f32;
        let common = Common {
            weight_decay: self.train.weight_decay(),
            clip_norm: (limit > 0.0).then_some(limit),
            clip_value: self.train.clip_value.map(|value| value as f32),
            groups,
            ..Common::default()
        };
        let section = self.optimizer.clone();
        match self.train.optimizer {
            OptimizerKind::Sgd => Rule::Sgd(SGDConfig {
                momentum: section.momentum.unwrap_or(SGD_MOMENTUM),
                dampening: section.dampening.unwrap_or(0.0),
                nesterov: section.nesterov.unwrap_or(false),
                common,
            }),
            OptimizerKind::Adam => {
                let default = AdamConfig::default();
                Rule::Adam(AdamConfig {
                    betas: section.betas.unwrap_or(default.betas),
                    eps: section.eps.unwrap_or(default.eps),
                    common,
                })
            }
            kind @ (OptimizerKind::Adamw | OptimizerKind::Adamw8bit) => {
                let default = AdamWConfig::default();
                let rule = AdamWConfig {
                    betas: section.betas.unwrap_or(default.betas),
                    eps: section.eps.unwrap_or(default.eps),
                    common,
                };
                match kind {
                    OptimizerKind::Adamw8bit => Rule::Adamw8bit(rule),
                    _ => Rule::Adamw(rule),
                }
            }
            OptimizerKind::Adagrad => {
                let default = AdagradConfig::default();
                Rule::Adagrad(AdagradConfig {
                    lr_decay: section.lr_decay.unwrap_or(default.lr_decay),
                    initial_accumulator_value: section
                        .initial_accumulator_value
                        .unwrap_or(default.initial_accumulator_value),
                    eps: section.eps.unwrap_or(default.eps),
                    common,
                })
            }
            OptimizerKind::Rmsprop => {
                let default = RMSpropConfig::default();
                Rule::Rmsprop(RMSpropConfig {
                    alpha: section.alpha.unwrap_or(default.alpha),
                    eps: section.eps.unwrap_or(default.eps),
                    momentum: section.momentum.unwrap_or(default.momentum),
                    centered: section.centered.unwrap_or(default.centered),
                    common,
                })
            }
            OptimizerKind::Lion => {
                let default = LionConfig::default();
                Rule::Lion(LionConfig {
                    betas: section.betas.unwrap_or(default.betas),
                    common,
                })
            }
            OptimizerKind::Adafactor => {
                let default = AdafactorConfig::default();
                let [eps, eps2] = default.eps;
                Rule::Adafactor(AdafactorConfig {
                    beta2_decay: section.beta2_decay.unwrap_or(default.beta2_decay),
                    eps: [section.eps.unwrap_or(eps), section.eps2.unwrap_or(eps2)],
                    d: section.d.unwrap_or(default.d),
                    common,
                })
            }
            OptimizerKind::Muon => {
                let default = MuonConfig::default();
                let mut newton_schulz = default.newton_schulz;
                newton_schulz.steps = section.ns_steps.unwrap_or(newton_schulz.steps);
                Rule::Muon(MuonConfig {
                    momentum: section.momentum.unwrap_or(default.momentum),
                    nesterov: section.nesterov.unwrap_or(default.nesterov),
                    newton_schulz,
                    adjust: section.adjust_lr_fn.map_or(default.adjust, AdjustKind::of),
                    adamw_parameters: section.adamw_parameters.unwrap_or(default.adamw_parameters),
                    adamw_betas: default.adamw_betas,
                    adamw_eps: default.adamw_eps,
                    adamw_weight_decay: section
                        .adamw_weight_decay
                        .unwrap_or(default.adamw_weight_decay),
                    adamw_lr_factor: section.adamw_lr_factor.unwrap_or(default.adamw_lr_factor),
                    common,
                })
            }
        }
    }
}

impl AdjustKind {
    fn of(self) -> MuonAdjust {
        match self {
            Self::Original => MuonAdjust::Original,
            Self::MatchRmsAdamw => MuonAdjust::MatchRmsAdamw,
            Self::SpectralUnclamped => MuonAdjust::SpectralUnclamped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[model]\npreset = \"tiny\"\n\n[data]\npath = \"a.jsonl\"\n\
                        format = \"pairs\"\n\n[train]\nmax_steps = 4\n";

    fn config(text: &str) -> anyhow::Result<Config> {
        Config::parse(&format!("{BASE}{text}"), "a.toml", &[])
    }

    fn refused(text: &str) -> String {
        format!("{:#}", config(text).expect_err("refused"))
    }

    #[test]
    fn every_optimizer_takes_its_keys() {
        for (optimizer, keys) in [
            ("sgd", "momentum = 0.8\nnesterov = true"),
            ("sgd", "momentum = 0.8\ndampening = 0.1"),
            ("adam", "betas = [0.8, 0.9]\neps = 1e-6"),
            ("adamw", "betas = [0.8, 0.9]"),
            ("adagrad", "lr_decay = 0.1\ninitial_accumulator_value = 0.1"),
            ("rmsprop", "alpha = 0.9\ncentered = true\nmomentum = 0.5"),
            ("lion", "betas = [0.95, 0.98]"),
            (
                "muon",
                "ns_steps = 6\nadjust_lr_fn = \"match_rms_adamw\"\nadamw_parameters = [\"output\"]",
            ),
        ] {
            let text =
                format!("optimizer = \"{optimizer}\"\nclip_value = 0.5\n[optimizer]\n{keys}\n");
            let found = config(&text).expect(optimizer);
            let again = Config::parse(&found.to_toml().expect("toml"), "b.toml", &[]);
            assert_eq!(again.expect("again"), found);
        }
    }

    #[test]
    fn keys_of_another_optimizer_and_unknown_names_are_refused() {
        let line = refused("optimizer = \"lion\"\n[optimizer]\nalpha = 0.9\n");
        let expected = "a.toml:12: optimizer.alpha: is no key of lion, which has betas";
        assert_eq!(line, expected);
        let line = refused("optimizer = \"adamax\"\n");
        let names = "`sgd`, `adam`, `adamw`, `adamw8bit`, `adagrad`, `rmsprop`, `lion`, `muon`, `adafactor`";
        assert!(
            line.contains("train.optimizer") && line.contains(names),
            "{line}"
        );
        let line = refused("optimizer = \"lion\"\n[optimizer]\nbeta = 0.9\n");
        assert!(
            line.contains("optimizer.beta") && line.contains("`betas`"),
            "{line}"
        );
        let line = refused("optimizer = \"sgd\"\n[optimizer]\nmomentum = -1.0\n");
        assert!(
            line.contains("momentum is -1, expected at least 0"),
            "{line}"
        );
        let line = refused("[[groups]]\nparameters = [\"*\"]\nlr_factor = -1.0\n");
        assert!(line.ends_with("groups: -1 is not at least 0"), "{line}");
    }

    #[test]
    fn sections_that_are_not_there_leave_the_identity_as_it_was() {
        let identity = config("")
            .and_then(|config| config.identity())
            .expect("one");
        assert!(identity.keys().all(|key| {
            !key.starts_with("optimizer.") && !key.starts_with("schedule.") && key != "groups"
        }));
        let groups = config("[[groups]]\nparameters = [\"*.bias\"]\nweight_decay = 0.0\n");
        let other = groups.and_then(|config| config.identity()).expect("one");
        assert_ne!(identity, other);
        assert_eq!(
            other["groups"],
            "[{ parameters = [\"*.bias\"], weight_decay = 0.0 }]"
        );
    }
}
