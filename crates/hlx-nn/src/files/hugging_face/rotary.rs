//! Rotary positions of a `config.json`, in the form of `transformers` 4 (`rope_theta`, `rope_scaling`) or 5
//! (`rope_parameters`), and of both where a file has both.

use super::classes::Class;
use super::keys::Keys;
use crate::{Architecture, CausalConfig, Positions, RopeScaling, Rotary};

/// The keys that the scalings have; one that a scaling does not read changes nothing in it.
const SCALING_KEYS: [&str; 13] = [
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "factor",
    "high_freq_factor",
    "long_factor",
    "low_freq_factor",
    "mrope_section",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
    "short_factor",
    "truncate",
];

/// With the rotary positions that a class reads.
pub(super) fn with_rotary(
    keys: &Keys,
    config: CausalConfig,
    class: &Class,
) -> Result<CausalConfig, String> {
    let (global, local) = match config.architecture {
        Architecture::Gemma3 => by_layer(keys, &config, class)?,
        _ => (of_all_layers(keys, &config, class)?, None),
    };
    Ok(CausalConfig {
        positions: Positions::Rotary(global),
        window_rotary: local,
        ..config
    })
}

/// A `rope_scaling` that says something takes the place of `rope_parameters` as a whole, its base too.
fn of_all_layers(keys: &Keys, config: &CausalConfig, class: &Class) -> Result<Rotary, String> {
    let parameters = keys.object("rope_parameters", "rope_parameters.")?;
    let scaling = keys.object("rope_scaling", "rope_scaling.")?;
    let scaling = scaling.filter(|one| !one.values().is_empty());
    let theta = keys.number("rope_theta")?;
    if let (Some(scaling), Some(parameters)) = (&scaling, &parameters) {
        let (one, other) = (scaling.values(), parameters.values());
        keys.settle(
            ("rope_scaling", Some(one)),
            ("rope_parameters", Some(other)),
        );
    }
    let part = match scaling {
        Some(scaling) => RopeKeys::new("rope_scaling", Some(scaling)),
        None => RopeKeys::new("rope_parameters", parameters),
    };
    part.read(keys, config, ("rope_theta", theta), class.theta)
}

/// Gemma 3 has one set for the layers with a window and one for the others; a `rope_scaling` goes into the latter.
fn by_layer(
    keys: &Keys,
    config: &CausalConfig,
    class: &Class,
) -> Result<(Rotary, Option<Rotary>), String> {
    let parameters = keys.object("rope_parameters", "rope_parameters.")?;
    let scaling = keys.object("rope_scaling", "rope_scaling.")?;
    let inner = |name: &str, prefix| match &parameters {
        Some(parameters) => parameters.object(name, prefix),
        None => Ok(None),
    };
    let mut global = inner("full_attention", "rope_parameters.full_attention.")?;
    let local = inner("sliding_attention", "rope_parameters.sliding_attention.")?;
    if let Some(parameters) = &parameters {
        leave_out_flat(keys, parameters);
    }
    if let Some(scaling) = scaling {
        if parameters.is_some() && global.is_none() {
            return Err("`rope_parameters.full_attention` is missing beside `rope_scaling`".into());
        }
        global = Some(match global {
            Some(global) => global.updated_by(&scaling),
            None => scaling,
        });
    }
    let theta = ("rope_theta", keys.number("rope_theta")?);
    let local_theta = ("rope_local_base_freq", keys.number("rope_local_base_freq")?);
    let global = RopeKeys::new("rope_parameters.full_attention", global);
    let local = RopeKeys::new("rope_parameters.sliding_attention", local);
    let global = global.read(keys, config, theta, class.theta)?;
    let local = local.read(keys, config, local_theta, 10_000.0)?;
    Ok((global, Some(local)))
}

/// Names what lies beside the two sets, where nothing reads it.
fn leave_out_flat(keys: &Keys, parameters: &Keys) {
    let sets = ["full_attention", "sliding_attention"];
    for name in parameters.values().keys() {
        if !sets.contains(&name.as_str()) {
            keys.note(format!(
                "`rope_parameters.{name}` is left out: of this model only `rope_parameters.full_attention` \
                 and `rope_parameters.sliding_attention` are read"
            ));
        }
    }
}

/// One set of rotary parameters and where it is.
struct RopeKeys {
    name: &'static str,
    keys: Option<Keys>,
}

impl RopeKeys {
    fn new(name: &'static str, keys: Option<Keys>) -> Self {
        Self { name, keys }
    }

    /// Reads the set; the base may lie beside it too.
    fn read(
        &self,
        top: &Keys,
        config: &CausalConfig,
        (theta_name, theta): (&str, Option<f64>),
        usual: f64,
    ) -> Result<Rotary, String> {
        let own = match &self.keys {
            Some(keys) => keys.number("rope_theta")?,
            None => None,
        };
        let inner = format!("{}.rope_theta", self.name);
        top.settle((&inner, own), (theta_name, theta));
        let scaling = match &self.keys {
            Some(keys) => self.scaling(top, keys, config)?,
            None => None,
        };
        self.check_partial(top, config, scaling.is_some())?;
        if let Some(keys) = &self.keys {
            self.leave_out_rest(top, keys)?;
        }
        Ok(Rotary {
            theta: own.or(theta).unwrap_or(usual),
            width: None,
            scaling,
        })
    }

    /// No class here rotates a part of each head: without a scaling the factor is left out, and with one
    /// `transformers` fails.
    fn check_partial(&self, top: &Keys, config: &CausalConfig, scaled: bool) -> Result<(), String> {
        let own = match &self.keys {
            Some(keys) => keys.number("partial_rotary_factor")?,
            None => None,
        };
        let beside = top.number_of_any_class("partial_rotary_factor")?;
        let Some(factor) = own.or(beside) else {
            return Ok(());
        };
        let rotated = (config.head_width as f64 * factor) as usize;
        match (rotated == config.head_width, scaled) {
            (true, _) => Ok(()),
            (false, true) => Err(format!(
                "`partial_rotary_factor` is {factor}, and the class turns whole heads"
            )),
            (false, false) => {
                top.note(format!(
                    "`partial_rotary_factor` is {factor} and left out: the class turns whole heads"
                ));
                Ok(())
            }
        }
    }

    /// Names the keys that another scaling has, and refuses unknown ones.
    fn leave_out_rest(&self, top: &Keys, keys: &Keys) -> Result<(), String> {
        for name in SCALING_KEYS {
            if keys.is_unread(name) {
                let part = self.name;
                top.note(format!(
                    "`{part}.{name}` is left out: this `rope_type` has no such key"
                ));
                keys.look(name);
            }
        }
        keys.finish()
    }

    fn scaling(
        &self,
        top: &Keys,
        keys: &Keys,
        config: &CausalConfig,
    ) -> Result<Option<RopeScaling>, String> {
        let (kind, older) = (keys.text("rope_type")?, keys.text("type")?);
        let name = |key: &str| format!("{}.{key}", self.name);
        top.settle((&name("rope_type"), kind), (&name("type"), older));
        Ok(Some(match kind.or(older).unwrap_or("default") {
            "default" => return Ok(None),
            "linear" => RopeScaling::Linear {
                factor: keys.need_number("factor")?,
            },
            "dynamic" => RopeScaling::Dynamic {
                factor: keys.need_number("factor")?,
            },
            "llama3" => RopeScaling::Llama3 {
                factor: keys.need_number("factor")?,
                low_freq_factor: keys.need_number("low_freq_factor")?,
                high_freq_factor: keys.need_number("high_freq_factor")?,
                original: self.original(top, keys, config)?,
            },
            "yarn" => self.yarn(top, keys, config)?,
            "longrope" => self.long_rope(top, keys, config)?,
            other => {
                return Err(format!(
                    "`rope_scaling` is of the type {other}, expected default, linear, dynamic, \
                     llama3, longrope or yarn"
                ));
            }
        }))
    }

    /// The positions before the scaling: those of the configuration win over the scaling's own.
    fn original(&self, top: &Keys, keys: &Keys, config: &CausalConfig) -> Result<usize, String> {
        const NAME: &str = "original_max_position_embeddings";
        let own = keys.count(NAME)?;
        // Of sets by layer, the configuration's are not read.
        let beside = match self.name.contains('.') {
            true => None,
            false => top.count(NAME)?,
        };
        top.settle((NAME, beside), (&format!("{}.{NAME}", self.name), own));
        Ok(beside.or(own).unwrap_or(config.max_positions))
    }

    /// A factor that may be null: then it is that of the positions.
    fn factor(keys: &Keys, config: &CausalConfig, original: usize) -> Result<f64, String> {
        let usual = config.max_positions as f64 / original as f64;
        Ok(keys.number("factor")?.unwrap_or(usual))
    }

    fn yarn(&self, top: &Keys, keys: &Keys, config: &CausalConfig) -> Result<RopeScaling, String> {
        let original = self.original(top, keys, config)?;
        let factor = match keys.is_stated("factor") {
            true => Self::factor(keys, config, original)?,
            false => keys.need_number("factor")?,
        };
        // A zero is as left out.
        let number = |name| Ok::<_, String>(keys.number(name)?.filter(|&value| value != 0.0));
        let scales = [number("mscale")?, number("mscale_all_dim")?];
        let usual = match scales {
            [Some(scale), Some(all)] => {
                let of = |scale: f64| RopeScaling::yarn_scale(factor, scale);
                of(scale) / of(all)
            }
            _ => RopeScaling::yarn_attention_factor(factor),
        };
        Ok(RopeScaling::Yarn {
            factor,
            original,
            beta_fast: number("beta_fast")?.unwrap_or(32.0),
            beta_slow: number("beta_slow")?.unwrap_or(1.0),
            attention_factor: keys.number("attention_factor")?.unwrap_or(usual),
            truncate: keys.truth("truncate")?.unwrap_or(true),
        })
    }

    fn long_rope(
        &self,
        top: &Keys,
        keys: &Keys,
        config: &CausalConfig,
    ) -> Result<RopeScaling, String> {
        let original = self.original(top, keys, config)?;
        let factor = Self::factor(keys, config, original)?;
        let usual = RopeScaling::long_rope_attention_factor(factor, original);
        Ok(RopeScaling::LongRope {
            original,
            short_factor: keys.need_numbers("short_factor")?,
            long_factor: keys.need_numbers("long_factor")?,
            attention_factor: keys.number("attention_factor")?.unwrap_or(usual),
        })
    }
}
