//! The parts of decoders: what a pass over tokens carries, the cache of keys and values, and the layers that
//! read both.

mod attention;
mod block;
pub(crate) mod cache;
mod config;
mod experts;
mod feed_forward;
pub(crate) mod input;
pub(crate) mod names;
pub(crate) mod norm;
pub(crate) mod pass;
mod presets;
mod projection;
mod rotary;
mod transformer_config;

pub use attention::Attention;
pub use block::Block;
pub use cache::{CacheStep, KvCache};
pub use config::{Architecture, CausalConfig, ExpertsConfig, FeedForwardKind, NormKind, Positions};
pub use feed_forward::FeedForward;
pub use input::CausalInput;
pub use names::ParameterLayout;
pub use rotary::{RopeScaling, Rotary};
pub use transformer_config::TransformerConfig;
