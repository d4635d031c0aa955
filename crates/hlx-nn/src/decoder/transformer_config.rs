//! The short form of a packed model's shape, with three that are measured and named.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{Architecture, CausalConfig, FeedForwardKind, ParameterLayout};
use crate::Result;
use crate::error::NnError;
use crate::limits::{MAX_HEADS, MAX_LAYERS, MAX_SIZE, check_parameters, check_sizes};

/// Not saved where it is 0: files of models without it have their old bytes.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(p: &f32) -> bool {
    *p == 0.0
}

/// The largest head width that the attention kernels take.
const MAX_HEAD_WIDTH: usize = 128;

/// The sizes of HLX's own transformer: a [`CausalLm`](crate::CausalLm) of the [packed layout](ParameterLayout) in the
/// shape of GPT-2, with the exact GELU and an output projection of its own. It becomes a [`CausalConfig`] by `into`.
///
/// ```
/// use hlx_nn::{CausalLm, ParameterBuilder, TransformerConfig};
///
/// let mut b = ParameterBuilder::new();
/// let model = CausalLm::new(&mut b, &TransformerConfig::tiny().into())?;
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// The number of token ids, V.
    pub vocabulary: usize,
    /// The width of the residual stream, C.
    pub width: usize,
    /// The number of blocks.
    pub n_layers: usize,
    /// The number of attention heads, H; it divides C, and C / H is at most 128.
    pub n_heads: usize,
    /// The hidden width of the feed-forward networks, F.
    pub feed_forward_width: usize,
    /// The largest number of positions.
    pub positions: usize,
    /// The probability of the dropouts on embeddings and branches, in [0, 1).
    pub dropout: f32,
    /// The probability of the dropout on attention weights, in [0, 1).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attention_dropout: f32,
}

impl TransformerConfig {
    /// Bytes, width 256, 4 layers of 4 heads, 128 positions: 3,323,392 parameters.
    pub fn tiny() -> Self {
        Self::preset(256, 4, 4, 128)
    }

    /// Bytes, width 512, 6 layers of 8 heads, 256 positions: 19,308,544 parameters.
    pub fn small() -> Self {
        Self::preset(512, 6, 8, 256)
    }

    /// Bytes, width 768, 12 layers of 12 heads, 512 positions: 85,842,432 parameters.
    pub fn medium() -> Self {
        Self::preset(768, 12, 12, 512)
    }

    fn preset(width: usize, n_layers: usize, n_heads: usize, positions: usize) -> Self {
        let (vocabulary, feed_forward_width, dropout) = (256, 4 * width, 0.0);
        Self {
            vocabulary,
            width,
            n_layers,
            n_heads,
            feed_forward_width,
            positions,
            dropout,
            attention_dropout: 0.0,
        }
    }

    /// The number of parameters:
    /// 2 V C + P C + 2 C + layers (4 C² + 2 C F + F + 9 C); the largest number for more than that.
    pub fn parameter_count(&self) -> usize {
        let sizes = [self.vocabulary, self.positions, self.n_layers];
        let [v, p, layers] = sizes.map(|size| size as u128);
        let (c, f) = (self.width as u128, self.feed_forward_width as u128);
        let of_width = |n: u128| n.saturating_mul(c);
        let block = of_width(4 * c + 9)
            .saturating_add(of_width(2 * f))
            .saturating_add(f);
        let count = of_width(2 * v + p + 2).saturating_add(layers.saturating_mul(block));
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    fn check_sizes(&self) -> Result<(), String> {
        let (c, layers) = (self.width, self.n_layers);
        check_sizes(&[
            ("vocabulary", self.vocabulary, MAX_SIZE),
            ("width", self.width, MAX_SIZE),
            ("n_layers", self.n_layers, MAX_LAYERS),
            ("n_heads", self.n_heads, MAX_HEADS),
            ("feed_forward_width", self.feed_forward_width, MAX_SIZE),
            ("positions", self.positions, MAX_SIZE),
        ])?;
        check_parameters(&[
            &[2, self.vocabulary, c],
            &[self.positions, c],
            &[4, layers, c, c],
            &[2, layers, c, self.feed_forward_width],
        ])
    }

    /// Checks that such a model can be made.
    ///
    /// # Errors
    /// [`NnError::Config`] with the size that cannot be.
    pub fn validate(&self) -> Result<()> {
        let fail = |reason: String| {
            Err(NnError::Config {
                what: "transformer",
                reason,
            })
        };
        if let Err(reason) = self.check_sizes() {
            return fail(reason);
        }
        let (width, n_heads) = (self.width, self.n_heads);
        if !width.is_multiple_of(n_heads) {
            return fail(format!(
                "n_heads is {n_heads}, expected a divisor of the width {width}"
            ));
        }
        if width / n_heads > MAX_HEAD_WIDTH {
            let found = width / n_heads;
            return fail(format!(
                "a head is {found} wide, expected at most {MAX_HEAD_WIDTH}"
            ));
        }
        let probabilities = [
            ("dropout", self.dropout),
            ("attention_dropout", self.attention_dropout),
        ];
        for (name, p) in probabilities {
            if !(0.0..1.0).contains(&p) {
                return fail(format!("{name} is {p}, expected 0 or more, below 1"));
            }
        }
        Ok(())
    }
}

impl From<TransformerConfig> for CausalConfig {
    fn from(sizes: TransformerConfig) -> Self {
        Self {
            layout: ParameterLayout::Packed,
            vocabulary: sizes.vocabulary,
            width: sizes.width,
            n_layers: sizes.n_layers,
            n_heads: sizes.n_heads,
            n_kv_heads: sizes.n_heads,
            head_width: sizes.width / sizes.n_heads.max(1),
            feed_forward_width: sizes.feed_forward_width,
            max_positions: sizes.positions,
            feed_forward: FeedForwardKind::GELU,
            tied_output: false,
            dropout: sizes.dropout,
            attention_dropout: sizes.attention_dropout,
            ..Self::of_family(Architecture::Gpt2)
        }
    }
}

impl CausalConfig {
    /// The short form of a packed model's shape; fails for a shape that has none.
    pub(super) fn short_form(&self) -> Result<TransformerConfig, String> {
        let sizes = TransformerConfig {
            vocabulary: self.vocabulary,
            width: self.width,
            n_layers: self.n_layers,
            n_heads: self.n_heads,
            feed_forward_width: self.feed_forward_width,
            positions: self.max_positions,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
        };
        // Compared without the probabilities, which may be NaN.
        let [found, expected] = [self.clone(), sizes.into()].map(|shape: Self| Self {
            dropout: 0.0,
            attention_dropout: 0.0,
            ..shape
        });
        match found == expected {
            true => Ok(sizes),
            false => {
                Err("a packed model has the shape of a TransformerConfig, and no other".to_owned())
            }
        }
    }
}

impl Serialize for CausalConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.layout {
            ParameterLayout::Apart => Self::serialize(self, serializer),
            ParameterLayout::Packed => {
                let sizes = self.short_form().map_err(S::Error::custom)?;
                sizes.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for CausalConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::of_form(&value, value.clone()).map_err(D::Error::custom)
    }
}

impl CausalConfig {
    /// Reads the text of a `config.json`; errors name the line and the column.
    pub fn from_json(text: &[u8]) -> serde_json::Result<Self> {
        let value: Value = serde_json::from_slice(text)?;
        Self::of_form(&value, &mut serde_json::Deserializer::from_slice(text))
    }

    /// Reads the form that a value has: the short one has no key `architecture`.
    fn of_form<'de, D: Deserializer<'de>>(
        value: &Value,
        deserializer: D,
    ) -> Result<Self, D::Error> {
        match value.get("architecture") {
            Some(_) => Self::deserialize(deserializer),
            None => TransformerConfig::deserialize(deserializer).map(Self::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CausalLm, Model};

    #[test]
    fn the_documented_parameter_counts_are_true() {
        assert_eq!(TransformerConfig::tiny().parameter_count(), 3_323_392);
        assert_eq!(TransformerConfig::small().parameter_count(), 19_308_544);
        assert_eq!(TransformerConfig::medium().parameter_count(), 85_842_432);
    }

    #[test]
    fn the_formula_counts_what_the_model_declares() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let odd = TransformerConfig {
            vocabulary: 31,
            width: 12,
            n_layers: 3,
            n_heads: 2,
            feed_forward_width: 17,
            positions: 9,
            dropout: 0.0,
            attention_dropout: 0.0,
        };
        for config in [TransformerConfig::tiny(), odd] {
            let model = Model::zeroed(&device, |b| CausalLm::new(b, &config.into()))?;
            assert_eq!(model.weights().n_elements(), config.parameter_count());
        }
        Ok(())
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let message = |change: &dyn Fn(&mut TransformerConfig)| {
            let mut config = TransformerConfig::tiny();
            change(&mut config);
            config.validate().expect_err("refused").to_string()
        };
        let heads = message(&|config| config.n_heads = 3);
        assert_eq!(
            heads,
            "transformer: n_heads is 3, expected a divisor of the width 256"
        );
        let layers = message(&|config| config.n_layers = 0);
        assert_eq!(layers, "transformer: n_layers is 0, expected at least 1");
        let dropout = message(&|config| config.dropout = 1.0);
        assert_eq!(
            dropout,
            "transformer: dropout is 1, expected 0 or more, below 1"
        );
        let head = message(&|config| config.n_heads = 1);
        assert_eq!(
            head,
            "transformer: a head is 256 wide, expected at most 128"
        );
    }

    #[test]
    fn packed_models_have_the_short_form_in_files() -> Result<()> {
        let config = CausalConfig::from(TransformerConfig::tiny());
        let text = serde_json::to_string(&config).expect("written");
        let expected = r#"{"vocabulary":256,"width":256,"n_layers":4,"n_heads":4,"feed_forward_width":1024,"positions":128,"dropout":0.0}"#;
        assert_eq!(text, expected);
        let read: CausalConfig = serde_json::from_str(&text).expect("read");
        assert_eq!(read, config);
        config.validate()
    }

    #[test]
    fn errors_in_files_of_both_forms_name_the_line() {
        for text in [
            "{\n\"colour\": 1}",
            "{\"architecture\": \"llama\",\n\"colour\": 1}",
        ] {
            let error = CausalConfig::from_json(text.as_bytes()).expect_err("refused");
            let line = error.to_string();
            assert!(line.starts_with("unknown field `colour`"), "{line}");
            assert!(line.ends_with("at line 2 column 8"), "{line}");
        }
    }

    #[test]
    fn a_packed_shape_without_a_short_form_is_refused() {
        let config = CausalConfig {
            tied_output: true,
            ..TransformerConfig::tiny().into()
        };
        let line = config.validate().expect_err("refused").to_string();
        let expected = "a packed model has the shape of a TransformerConfig, and no other";
        assert_eq!(line, format!("causal model: {expected}"));
        let line = serde_json::to_string(&config).expect_err("refused");
        assert_eq!(line.to_string(), expected);
    }

    #[test]
    fn files_that_name_no_family_are_read_with_the_names_of_llama() {
        let config = CausalConfig::preset("llama3").expect("a preset");
        let text = serde_json::to_string(&config).expect("written");
        let old = text.replace(r#""llama""#, r#""custom""#);
        assert_ne!(old, text);
        let read: CausalConfig = serde_json::from_str(&old).expect("read");
        assert_eq!(read, config);
    }
}
