//! Python's protocols of tensors: making, attributes, operators, indices.

mod attributes;
pub mod index;
pub mod operators;
