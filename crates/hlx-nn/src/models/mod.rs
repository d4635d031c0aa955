//! Models: the causal language model of any architecture, and classifiers of images.

mod balance;
mod causal_lm;
mod causal_model;
mod classifier;
mod residual;
mod slots;
mod token_step;

pub use causal_lm::CausalLm;
pub use causal_model::CausalModel;
pub use classifier::{Classifier, ClassifierConfig, ClassifierKind};
pub use slots::{Piece, Slots};
pub use token_step::{TokenStep, likeliest};
