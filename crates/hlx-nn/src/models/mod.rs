//! Models: decoders of today's architectures, the transformer, and classifiers of images.

mod balance;
mod causal_lm;
mod causal_model;
mod classifier;
mod language_model;
mod presets;
mod token_step;
mod transformer;

pub use causal_lm::CausalLm;
pub use causal_model::CausalModel;
pub use classifier::{Classifier, ClassifierConfig, ClassifierKind};
pub use language_model::{LanguageModel, LanguageModelConfig};
pub use token_step::{TokenStep, likeliest};
pub use transformer::Transformer;
