//! The parts of decoders: what a pass over tokens carries, the cache of keys and values, and the layers that
//! read both.

mod attention;
pub(crate) mod block;
pub(crate) mod cache;
mod config;
mod experts;
mod feed_forward;
mod fused;
pub(crate) mod input;
mod multi_head_attention;
pub(crate) mod norm;
pub(crate) mod pass;
mod rotary;
mod transformer_block;
mod transformer_config;

pub use cache::{CacheStep, KvCache};
pub use config::{Architecture, CausalConfig, ExpertsConfig, FeedForwardKind, NormKind, Positions};
pub use input::CausalInput;
pub use multi_head_attention::MultiHeadAttention;
pub use rotary::{RopeScaling, Rotary};
pub use transformer_block::Block;
pub use transformer_config::TransformerConfig;
