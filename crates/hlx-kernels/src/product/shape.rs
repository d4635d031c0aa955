//! The sizes of matrix products, and how their operands lie.

use hlx_core::{Buffer, sizes};

use crate::error::{check_len, check_sizes};
use crate::{KernelError, Result};

/// The shape of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMul {
    /// Matrices in the batch.
    pub batch: usize,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Terms of each chain.
    pub k: usize,
    /// A is stored `[K,M]`.
    pub trans_a: bool,
    /// B is stored `[N,K]`.
    pub trans_b: bool,
    /// Elements from one matrix of A to the next; 0 shares one.
    pub stride_a: usize,
    /// Elements from one matrix of B to the next; 0 shares one.
    pub stride_b: usize,
    /// Elements from one matrix of C to the next; at least M N.
    pub stride_c: usize,
    /// The chains start at what C holds.
    pub accumulate: bool,
}

impl MatMul {
    /// Describes one product `[M,K] x [K,N]` that overwrites C. Sizes that no memory holds are refused where it is
    /// computed.
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            batch: 1,
            m,
            n,
            k,
            trans_a: false,
            trans_b: false,
            stride_a: m.saturating_mul(k),
            stride_b: k.saturating_mul(n),
            stride_c: m.saturating_mul(n),
            accumulate: false,
        }
    }

    /// Checks that a buffer of a product has the elements of `batch` matrices of some rows and columns, `stride` apart.
    pub(super) fn check_extent(
        &self,
        operation: &'static str,
        argument: &'static str,
        buffer: &Buffer,
        stride: usize,
        [rows, columns]: [usize; 2],
    ) -> Result<()> {
        check_sizes(operation, &[rows, columns])?;
        let before = sizes::checked_product([self.batch.saturating_sub(1), stride]);
        let len = before.and_then(|before| sizes::checked_sum([before, rows * columns]));
        let len = len.ok_or_else(|| {
            let matrices = format!("{argument} of {} matrices, {stride} apart,", self.batch);
            let reason = format!("{matrices} has more elements than memory holds");
            KernelError::argument(operation)(reason)
        })?;
        check_len(operation, argument, buffer, len)
    }
    pub(super) fn is_empty(&self) -> bool {
        self.batch == 0 || self.m == 0 || self.n == 0
    }
}
