//! Layers, the transformer, losses, initialisation, optimizers and model files of HLX.
//!
//! All parameters of a model lie in one buffer ([`Weights`]) and their gradients, once training needs
//! them, in a second of the same layout, so that one dispatch updates them all. Layers are plain
//! structs that hold handles to their parameters, each a [`Module`]; a model is made in two steps,
//! first declared to a [`ParameterBuilder`], then built: [`Model::new`] does both.
//!
//! ```
//! use hlx_autograd::{Activation, Tensor};
//! use hlx_core::Device;
//! use hlx_nn::{AdamW, AdamWConfig, CrossEntropyOptions, MLP, Mode, Model, Module, Optimizer};
//!
//! let device = Device::open("cpu")?;
//! let model = Model::new(&device, 42, |b| MLP::new(b, &[2, 8, 2], Activation::ReLU))?;
//! let mut optimizer = AdamW::new(model.weights(), AdamWConfig::default())?;
//! let x = Tensor::from_slice(&device, &[0.0, 1.0, 1.0, 0.0], &[2, 2])?;
//! let labels = Tensor::from_slice(&device, &[1_u32, 0], &[2])?;
//! let logits = model.forward(&x, &Mode::train(&device, 42)?)?;
//! let loss = logits.cross_entropy_loss(&labels, &CrossEntropyOptions::default())?;
//! loss.backward()?;
//! optimizer.step(model.weights(), 1e-3)?;
//! # Ok::<(), hlx_nn::NnError>(())
//! ```

mod decoder;
mod deferred_norms;
mod error;
mod exchange;
mod files;
mod gradient_tree;
mod init;
mod layers;
mod limits;
mod mode;
mod model;
mod models;
mod module;
mod optimizer;
mod parameters;
mod schedule;
mod shard_plan;
mod state_digest;
pub mod wide;

pub use decoder::{
    Architecture, Attention, Block, CacheStep, CausalConfig, CausalInput, ExpertsConfig,
    FeedForward, FeedForwardKind, KvCache, NormKind, PagePool, ParameterLayout, Positions,
    RopeScaling, Rotary, TransformerConfig,
};
pub use deferred_norms::DeferredNorms;
pub use error::NnError;
pub use exchange::{Alone, Exchange, gather_buffer, gather_state};
pub use files::{
    Arriving, CONFIG_FILE, GGUF_FILE, LOADING, MODEL_FILE, ModelConfig, NamedTensor, Nf4Matrix,
    PEFT_CONFIG_FILE, PEFT_FILE, TensorSource, export_hugging_face, gguf_of, has_blocks,
    hugging_face_config, hugging_face_dtype, hugging_face_files, hugging_face_name,
    hugging_face_notes, hugging_face_tensors, import_hugging_face, import_hugging_face_as,
    import_in_blocks, import_over, import_tensors, is_exported_config, is_hugging_face_folder,
    is_nf4_folder, is_own_peft_config, load_language_model, load_language_model_as, load_model,
    model_files, parse_hugging_face_config, peft_config, peft_unties_output,
    read_hugging_face_config, read_language_model_config, read_peft_config, save_model,
    stored_sha256, write_as_stored,
};
pub use gradient_tree::{GradientTree, MicroBatch, MicroBatchPlan};
pub use hlx_autograd::{CrossEntropyOptions, LossReduction};
pub use init::Init;
pub use layers::{
    AdaptiveAvgPool2d, AvgPool2d, BatchNorm, BatchNorm1d, BatchNorm2d, BatchNormConfig, Conv1d,
    Conv2d, ConvTranspose2d, Dropout, ELU, Embedding, Flatten, GRU, GroupNorm, Hardswish, Identity,
    LSTM, LayerNorm, LeakyReLU, Linear, LogSoftmax, LoraConfig, LowRank, MLP, MaxPool2d, Mish,
    NamePatterns, RMSNorm, RecurrentConfig, Sequential, Softmax,
};
pub use mode::{InputObserver, Mode};
pub use model::Model;
pub use models::{
    CausalLm, CausalModel, Classifier, ClassifierConfig, ClassifierKind, Piece, Slots, TokenStep,
    likeliest,
};
pub use module::Module;
pub use optimizer::{
    AVERAGE, Adafactor, AdafactorConfig, Adagrad, AdagradConfig, Adam, AdamConfig, AdamW,
    AdamW8bit, AdamWConfig, Averaged, Common, FlatOptimizer, Lion, LionConfig, LossScale,
    LossScaling, Muon, MuonAdjust, MuonConfig, NewtonSchulz, Optimizer, OptimizerState, OwnLayout,
    ParameterGroup, RMSprop, RMSpropConfig, SGD, SGDConfig, ScaleRule, Scaled, StateSpan,
    StateTensor, UpdateRule, Watched, clip_grad_norm_, clip_grad_value_, state_spans,
};
pub use parameters::{
    FrozenBase, InferenceModel, ModelBuffer, Parameter, ParameterBuilder, ParameterSet,
    ParameterUse, Part, Parts, PreparedWeights, Undivided, Weights, WeightsSnapshot, check_finite,
};
pub use schedule::{DecayShape, OneCycle, Plateau, PlateauConfig, PlateauState, Schedule};
pub use shard_plan::ShardPlan;
pub use state_digest::{PendingStateDigest, StateDigest, StateDigester, digested_tensors};

/// The result of an operation on models.
pub type Result<T, E = NnError> = std::result::Result<T, E>;
