//! The kernels of HLX: one specification, one GLSL shader and one CPU twin each, equal bits.
//!
//! Each module is one kernel family, with the same stem as its folder in `shaders/`; all products are in [`product`].
//! A module opens with its formula, shapes and order of summation; below are the launchers, the CPU twin and the tests.
//! Launchers take the [`Device`](hlx_core::Device) first, then inputs, outputs, parameters.
//!
//! This crate knows devices through `hlx-core`. It knows neither the tape nor models.

#[macro_use(multiversion)]
extern crate hlx_core;

#[macro_use]
mod macros;
mod chain;
mod columns;
mod convert;
mod division;
mod element;
mod error;
mod join;
mod kernel;
mod layout;
mod map;
mod pairs;
mod parallel;
#[path = "../spv/push.rs"]
mod push;
mod rows;
mod terms;
mod tuning;
mod window;

pub mod activation;
pub mod attention;
pub mod batch_norm;
pub mod conv2d;
pub mod cross_entropy;
pub mod draw;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod experts;
pub mod indexing;
pub mod interpolate;
pub mod lanes;
pub mod mse;
pub mod norm;
pub mod optimizer;
#[doc(hidden)] // For `hlx-contract` alone.
pub mod plain;
pub mod pool;
pub mod product;
pub mod recurrent;
pub mod reduce;
pub mod reduce_axes;
pub mod rope;
pub mod scan;
pub mod softmax;
pub mod sort;
pub mod testing;
pub mod transpose;
pub mod tree_digest;

pub use error::{KernelError, Result};
pub use layout::{Layout, MAX_RANK, Operand, broadcast_shape, row_major};
pub use tuning::{
    AttentionTuning, ColumnCut, DigitLayout, KernelTuning, MapTuning, ProductTile, ProductTuning,
    RowCut,
};
pub use window::Windows;

/// The digests of every shader's source and module, a line each: what this build computes with.
pub const SHADER_DIGESTS: &str = include_str!("../spv/digests.txt");
#[doc(hidden)] // For tests.
pub use chain::modules as chain_modules;
// For the launchers of crates above, which report the same errors in the same words.
#[doc(hidden)]
pub use error::{check_len, check_that};
