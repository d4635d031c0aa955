//! Any causal language model that HLX trains.

use hlx_autograd::Tensor;
use hlx_core::Device;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Architecture, CacheStep, CausalConfig, CausalInput, CausalLm, CausalModel, KvCache, Mode,
    Module, ParameterBuilder, Result, Transformer, TransformerConfig,
};

/// The shape of a [`LanguageModel`]; in a `config.json` told apart by the key `architecture`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum LanguageModelConfig {
    /// Of a [`Transformer`].
    Transformer(TransformerConfig),
    /// Of a [`CausalLm`].
    Causal(Box<CausalConfig>),
}

impl LanguageModelConfig {
    /// Checks that such a model can be made.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) with the value that cannot be.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Transformer(config) => config.validate(),
            Self::Causal(config) => config.validate(),
        }
    }

    /// The family whose names the model's files have; [`Architecture::Custom`] of a [`Transformer`].
    pub fn architecture(&self) -> Architecture {
        match self {
            Self::Transformer(_) => Architecture::Custom,
            Self::Causal(config) => config.architecture,
        }
    }
}

impl<'de> Deserialize<'de> for LanguageModelConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let parsed = match value.get("architecture") {
            Some(_) => serde_json::from_value(value).map(|causal| Self::Causal(Box::new(causal))),
            None => serde_json::from_value(value).map(Self::Transformer),
        };
        parsed.map_err(serde::de::Error::custom)
    }
}

/// A [`Transformer`] or a [`CausalLm`], as a configuration says.
#[derive(Debug)]
pub enum LanguageModel {
    /// In the shape of GPT-2, with an output projection of its own.
    Transformer(Transformer),
    /// One of today's architectures.
    Causal(Box<CausalLm>),
}

impl LanguageModel {
    /// Declares the model.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config).
    pub fn new(builder: &mut ParameterBuilder, config: &LanguageModelConfig) -> Result<Self> {
        Ok(match config {
            LanguageModelConfig::Transformer(config) => {
                Self::Transformer(Transformer::new(builder, config)?)
            }
            LanguageModelConfig::Causal(config) => {
                Self::Causal(Box::new(CausalLm::new(builder, config)?))
            }
        })
    }

    /// The shape.
    pub fn config(&self) -> LanguageModelConfig {
        match self {
            Self::Transformer(model) => LanguageModelConfig::Transformer(model.config().clone()),
            Self::Causal(model) => LanguageModelConfig::Causal(Box::new(model.config().clone())),
        }
    }

    /// The device of its parameters.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`](crate::NnError::NotBuilt).
    pub fn device(&self) -> Result<Device> {
        let embedding = match self {
            Self::Transformer(model) => &model.token_embedding,
            Self::Causal(model) => &model.embedding,
        };
        Ok(embedding.weight.tensor()?.device().clone())
    }

    fn inner(&self) -> &dyn CausalModel {
        match self {
            Self::Transformer(model) => model,
            Self::Causal(model) => &**model,
        }
    }
}

impl Module for LanguageModel {
    fn forward(&self, ids: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.inner().forward(ids, mode)
    }
}

impl CausalModel for LanguageModel {
    fn vocabulary(&self) -> usize {
        self.inner().vocabulary()
    }

    fn max_positions(&self) -> usize {
        self.inner().max_positions()
    }

    fn logits(&self, input: &CausalInput<'_>, mode: &Mode) -> Result<Tensor> {
        self.inner().logits(input, mode)
    }

    fn logits_and_balance(
        &self,
        input: &CausalInput<'_>,
        mode: &Mode,
    ) -> Result<(Tensor, Option<Tensor>)> {
        self.inner().logits_and_balance(input, mode)
    }

    fn cache(&self, device: &Device, batch: usize, capacity: usize) -> Result<KvCache> {
        self.inner().cache(device, batch, capacity)
    }

    fn logits_of_step(
        &self,
        ids: &Tensor,
        rows: Option<&Tensor>,
        step: CacheStep<'_>,
    ) -> Result<Tensor> {
        self.inner().logits_of_step(ids, rows, step)
    }
}
