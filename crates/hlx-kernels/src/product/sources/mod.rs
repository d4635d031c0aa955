//! Products whose terms are found in another way than as the rows of a matrix.

pub(crate) mod experts;
pub(crate) mod patches;
