//! Layers, the transformer, losses, initialisation, optimizers and model files of HLX.
//!
//! All parameters of a model lie in one buffer and their gradients in a second of the same
//! layout ([`ParameterStore`]), so that one dispatch updates them all. Layers are plain structs
//! that hold handles to their parameters; a model is made in two steps, first declared to a
//! [`ParameterBuilder`], then built.
//!
//! ```no_run
//! use hlx_autograd::{BackwardPlan, Tensor};
//! use hlx_core::Context;
//! use hlx_nn::{AdamW, AdamWConfig, ForwardContext, Optimizer, Transformer, TransformerConfig};
//!
//! let ctx = Context::open("auto")?;
//! let model = Transformer::new(&ctx, &TransformerConfig::tiny(), 42)?;
//! let mut optimizer = AdamW::new(model.store(), AdamWConfig::default())?;
//! let ids = Tensor::ids(&ctx, &[72, 76, 88], &[1, 3])?.with_samples(0)?;
//! let targets = Tensor::ids(&ctx, &[76, 88, 10], &[1, 3])?;
//! let scale = Tensor::from_slice(&ctx, &[1.0 / 3.0], &[1])?;
//! let logits = model.forward(&ids, &ForwardContext::new(&ctx, 1, 3)?)?;
//! let loss = hlx_nn::cross_entropy(&logits, &targets, &scale, 0.0)?;
//! loss.backward_with(&BackwardPlan::default())?;
//! optimizer.step(model.store(), 1e-3)?;
//! # Ok::<(), hlx_nn::NnError>(())
//! ```

mod error;
mod forward_context;
mod gradient_tree;
mod init;
mod layers;
mod loss;
mod model_file;
mod optimizer;
mod parameters;
mod state_digest;
mod transformer;

pub use error::NnError;
pub use forward_context::ForwardContext;
pub use gradient_tree::{GradientTree, MicroBatch, MicroBatchPlan};
pub use init::Init;
pub use layers::{
    Block, Dropout, Embedding, FeedForward, LayerNorm, Linear, Mlp, MultiHeadAttention,
};
pub use loss::{cross_entropy, mse};
pub use model_file::{CONFIG_FILE, MODEL_FILE, load_model, save_model};
pub use optimizer::{
    Adam, AdamConfig, AdamW, AdamWConfig, Optimizer, OptimizerState, Sgd, SgdConfig, StateTensor,
};
pub use parameters::{Parameter, ParameterBuilder, ParameterStore};
pub use state_digest::{PendingStateDigest, StateDigest, StateDigester};
pub use transformer::{Transformer, TransformerConfig};

/// The result of an operation on models.
pub type Result<T, E = NnError> = std::result::Result<T, E>;

/// The README's example is compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
