//! The graph of what was computed: tensors, their places on the tape, what is saved for the backward
//! pass, and that pass.
//!
//! These files know one another, because a tensor holds its place on the tape, the tape's rules capture
//! tensors, and the backward pass, which the rules are given, makes tensors of gradients.

pub(crate) mod backward;
pub(crate) mod hook;
pub(crate) mod input;
pub(crate) mod saved;
pub(crate) mod saved_tensor;
pub(crate) mod tape;
pub(crate) mod tensor;
