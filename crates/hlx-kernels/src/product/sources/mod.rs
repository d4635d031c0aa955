//! Products whose terms are found in another way than as the rows and columns of matrices.

pub(crate) mod experts;
pub(crate) mod patches;
