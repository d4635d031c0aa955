//! The parts of decoders: what a pass over tokens carries, the cache of keys and values, and the layers that
//! read both.

mod attention;
mod block;
pub(crate) mod cache;
pub(crate) mod cache_step;
mod config;
mod experts;
mod feed_forward;
pub(crate) mod input;
pub(crate) mod names;
pub(crate) mod norm;
pub(crate) mod pass;
pub(crate) mod pool;
mod presets;
mod projection;
mod rotary;
mod transformer_config;

pub use attention::Attention;
pub use block::Block;
pub use cache::KvCache;
pub use cache_step::CacheStep;
pub use config::{Architecture, CausalConfig, ExpertsConfig, FeedForwardKind, NormKind, Positions};
pub use feed_forward::FeedForward;
pub use input::CausalInput;
pub use names::ParameterLayout;
pub use pool::PagePool;
pub use rotary::{RopeScaling, Rotary};
pub use transformer_config::TransformerConfig;
