//! The sizes of an attention, and where its operands lie.

use hlx_core::arith;
use hlx_core::cpu::with_flush;
use hlx_core::{Buffer, sizes};

use super::pages::{PAGE, Pages};
use crate::error::check_len;
use crate::{KernelError, Layout, Operand, Result};

/// The push constants of passes over ranges.
pub use crate::push::attention::ranged_forward_64 as Push;

/// The widest head.
pub const WIDEST_HEAD: usize = 256;
/// Extents of sequences are below this: positions and windows are sums of two.
const LONGEST: usize = 1 << 29;

/// The sizes of an attention, and how its scores become weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Sequences, `B`.
    pub batch: usize,
    /// Queries of a sequence, `T`.
    pub queries: usize,
    /// Keys of a sequence, `S`.
    pub keys: usize,
    /// Heads of queries, `H`.
    pub heads: usize,
    /// Heads of keys and values, `G`, which divides `H`.
    pub key_heads: usize,
    /// Width of a head, `D`: 1 to 256.
    pub head_width: usize,
    /// What scores are multiplied by.
    pub scale: f32,
    /// Scores become `cap tanh(s / cap)`.
    pub soft_cap: Option<f32>,
    /// Weights are dropped.
    pub dropout: Option<WeightDropout>,
    /// A query sees no key after its own position.
    pub causal: bool,
    /// A query sees no key this far from its position, or farther.
    pub window: Option<usize>,
}

/// Dropout of attention's weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightDropout {
    /// The probability that a weight is dropped, from 0 to 1.
    pub p: f32,
    /// The run's seed.
    pub seed: u64,
    /// The place in the model; no two dropouts of one model share a number.
    pub purpose: u32,
}

impl WeightDropout {
    /// What a weight that stays is multiplied by, `1 / (1 - p)`.
    pub(super) fn factor(&self) -> f32 {
        with_flush(|| arith::div(1.0, arith::sub(1.0, self.p)))
    }
}

/// What scores are multiplied by unless another scale is given: `1 / sqrt(head_width)`.
pub fn default_scale(head_width: usize) -> f32 {
    with_flush(|| arith::rsqrt(head_width as f32))
}

impl Attention {
    /// Causal attention of `[batch, time]` positions among themselves.
    pub fn causal([batch, time]: [usize; 2], heads: usize, head_width: usize) -> Self {
        Self {
            batch,
            queries: time,
            keys: time,
            heads,
            key_heads: heads,
            head_width,
            scale: default_scale(head_width),
            soft_cap: None,
            dropout: None,
            causal: true,
            window: None,
        }
    }

    /// `[B, T, H, D]` and `[B, S, G, D]`.
    pub(super) fn shapes(&self) -> [[usize; 4]; 2] {
        [
            [self.batch, self.queries, self.heads, self.head_width],
            [self.batch, self.keys, self.key_heads, self.head_width],
        ]
    }

    /// The layouts of contiguous operands of queries, and of keys.
    pub(super) fn layouts(&self) -> Result<[Layout; 2]> {
        let [of_queries, of_keys] = self.shapes();
        Ok([
            Layout::contiguous(&of_queries)?,
            Layout::contiguous(&of_keys)?,
        ])
    }

    /// Query heads of one key head.
    pub(super) fn group(&self) -> usize {
        self.heads / self.key_heads
    }

    /// Heads of all sequences.
    pub(super) fn all_heads(&self) -> usize {
        self.batch * self.heads
    }

    /// Key heads of all sequences.
    pub(super) fn all_key_heads(&self) -> usize {
        self.batch * self.key_heads
    }

    /// Queries of all heads.
    pub(super) fn all_queries(&self) -> usize {
        self.all_heads() * self.queries
    }

    /// Elements of `o`.
    pub(super) fn output_len(&self) -> usize {
        self.all_queries() * self.head_width
    }

    /// Elements of `dk`.
    pub(super) fn key_len(&self) -> usize {
        self.all_key_heads() * self.keys * self.head_width
    }

    /// What a kernel of `products` products of queries and keys counts; documents and lengths are on
    /// the device and make it less.
    pub(super) fn flops(&self, products: u64) -> u64 {
        self.flops_of_heads(self.all_heads(), products)
    }

    /// As [`Attention::flops`], of a part of all samples' heads.
    pub(super) fn flops_of_heads(&self, heads: usize, products: u64) -> u64 {
        let [queries, keys] = [self.queries, self.keys].map(|n| n as u64);
        let behind = match self.causal {
            true => queries.min(keys) * queries.min(keys).saturating_sub(1) / 2,
            false => 0,
        };
        let both_sides = if self.causal { 1 } else { 2 };
        let of_window = |window| (window as u64).saturating_mul(both_sides * queries);
        let pairs = self.window.map_or(u64::MAX, of_window);
        let pairs = pairs.min(queries * keys - behind);
        2 * products * heads as u64 * pairs * self.head_width as u64
    }

    pub(super) fn check(&self, operation: &'static str) -> Result<()> {
        let width = self.head_width;
        check_that!(operation, (1..=WIDEST_HEAD).contains(&width) =>
            "head_width is {width}, expected 1 to {WIDEST_HEAD}")?;
        let (heads, key_heads) = (self.heads, self.key_heads);
        let divides = key_heads > 0 && heads > 0 && heads.is_multiple_of(key_heads);
        check_that!(operation, divides =>
            "{heads} query heads and {key_heads} key heads, expected a multiple of them")?;
        for (name, length) in [("queries", self.queries), ("keys", self.keys)] {
            check_that!(operation, (1..LONGEST).contains(&length) =>
                "{length} {name}, expected 1 to {}", LONGEST - 1)?;
        }
        check_that!(operation, self.window != Some(0) => "window is 0, expected at least 1")?;
        let cap = self.soft_cap.unwrap_or(1.0);
        check_that!(operation, cap > 0.0 && cap.is_finite() =>
            "soft_cap is {cap}, expected a positive number")?;
        let p = self.dropout.map_or(0.0, |dropout| dropout.p);
        check_that!(operation, (0.0..=1.0).contains(&p) =>
            "p is {p}, expected a probability from 0 to 1")?;
        let extents = [self.batch, self.queries.max(self.keys), heads, width];
        let len = sizes::checked_elements(&extents);
        let fits = len.is_some_and(|len| u32::try_from(len).is_ok());
        check_that!(operation, fits => "an operand of {self:?} has more than 2^32 - 1 elements")
    }

    /// Checks the counter of dropped weights.
    pub(super) fn check_counter(
        &self,
        operation: &'static str,
        counter: Option<&Buffer>,
    ) -> Result<()> {
        check_len(operation, "counter", counter, 2)?;
        let is_counted = counter.is_some() || self.dropout.is_none();
        check_that!(operation, is_counted => "weights are dropped, expected a counter")
    }

    pub(super) fn expect_no_dropout(&self, operation: &'static str) -> Result<()> {
        check_that!(operation, self.dropout.is_none() => "weights are dropped, expected none")
    }

    /// The sizes, checked, with where operands of the shapes of q, k and v lie.
    pub(super) fn placed(
        &self,
        operation: &'static str,
        names: [&'static str; 3],
        operands: [Operand<'_>; 3],
    ) -> Result<Placed> {
        self.check(operation)?;
        let [of_queries, of_keys] = self.shapes();
        let shapes = [of_queries, of_keys, of_keys];
        let place = |i: usize| strided(operation, names[i], operands[i], shapes[i]);
        Ok(self.at([place(0)?, place(1)?, place(2)?]))
    }

    /// The sizes with where the rows of operands lie.
    pub(super) fn at(&self, places: [Strided; 3]) -> Placed {
        Placed {
            attention: *self,
            places,
            pool_pages: None,
        }
    }

    /// Where the rows of `o` and its gradient lie.
    pub(super) fn output_place(&self) -> Strided {
        Strided::contiguous(self.queries, self.heads, self.head_width)
    }

    /// Where contiguous queries lie, and keys and values in the pages of a pool.
    pub(super) fn paged(&self, pages: &Pages<'_>) -> Placed {
        let of_pool = Strided {
            batch: 0,
            ..Strided::contiguous(PAGE, self.key_heads, self.head_width)
        };
        Placed {
            pool_pages: Some(pages.n),
            ..self.at([self.output_place(), of_pool, of_pool])
        }
    }

    /// Where contiguous gradients of q, k and v lie, each in its own buffer.
    pub(super) fn contiguous(&self) -> Placed {
        let of_keys = Strided::contiguous(self.keys, self.key_heads, self.head_width);
        self.at([self.output_place(), of_keys, of_keys])
    }
}

/// Where q, k and v lie in a packed `[B, T, 3, H, D]`.
///
/// # Errors
/// If it has more elements than memory.
pub fn layouts_of_packed(of: &Attention) -> Result<[Layout; 3]> {
    let joint = Layout::contiguous(&[of.batch, of.queries, 3, of.heads, of.head_width])?;
    let argument = KernelError::argument("attention");
    let part = |idx| joint.select(2, idx).map_err(argument);
    Ok([part(0)?, part(1)?, part(2)?])
}

/// Where an operand's rows lie: the first element, and the strides of samples, positions and heads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strided {
    pub first: usize,
    pub batch: usize,
    pub position: usize,
    pub head: usize,
}

impl Strided {
    /// Of `[B, positions, heads, width]` in row-major order.
    pub fn contiguous(positions: usize, heads: usize, width: usize) -> Self {
        Self {
            first: 0,
            batch: positions * heads * width,
            position: heads * width,
            head: width,
        }
    }

    pub fn at(&self, sample: usize, position: usize, head: usize) -> usize {
        self.first + sample * self.batch + position * self.position + head * self.head
    }

    /// Whether every row begins at a multiple of four elements.
    pub fn is_of_vectors(&self) -> bool {
        let strides = [self.first, self.batch, self.position, self.head];
        strides.iter().all(|stride| stride.is_multiple_of(4))
    }
}

/// The sizes of an attention, and where the rows of q, k and v lie.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub attention: Attention,
    pub places: [Strided; 3],
    /// The pages of the pool that keys and values lie in, if they do.
    pub pool_pages: Option<usize>,
}

impl Placed {
    pub fn push(&self) -> Push {
        let (of, [q, k, v]) = (&self.attention, self.places);
        let dropout = of.dropout.unwrap_or_default();
        let cap = of.soft_cap.unwrap_or(1.0);
        block!(Push =>
            batch: of.batch, queries: of.queries, keys: of.keys, heads: of.heads, group: of.group(),
            q_first: q.first, q_batch: q.batch, q_position: q.position, q_head: q.head,
            k_first: k.first, k_batch: k.batch, k_position: k.position, k_head: k.head,
            v_first: v.first, v_batch: v.batch, v_position: v.position, v_head: v.head,
            scale: of.scale, cap, inverse_cap: with_flush(|| arith::div(1.0, cap)),
            seed_low: dropout.seed as u32, seed_high: (dropout.seed >> 32) as u32,
            purpose: dropout.purpose, p: dropout.p, factor: dropout.factor(),
            pool_pages: self.pool_pages.unwrap_or(0))
    }

    /// Whether rows are whole vectors of four.
    pub fn is_of_vectors(&self) -> bool {
        let width = self.attention.head_width;
        width.is_multiple_of(4) && self.places.iter().all(Strided::is_of_vectors)
    }

    /// The specialization constants: `D`, whether rows are whole vectors of four, whether scores are
    /// capped, whether weights are dropped.
    pub fn constants(&self) -> [(u32, u32); 4] {
        let of = &self.attention;
        constants!(0: of.head_width, self.is_of_vectors(), of.soft_cap.is_some(),
            of.dropout.is_some())
    }
}

fn strided(
    operation: &'static str,
    name: &'static str,
    operand: Operand<'_>,
    expected: [usize; 4],
) -> Result<Strided> {
    let (layout, found) = (operand.layout, operand.layout.shape());
    check_that!(operation, found == expected =>
        "{name} has shape {found:?}, expected {expected:?}")?;
    let (_, end) = layout.span();
    check_that!(operation, end <= operand.buffer.len() =>
        "{name} ends at element {end} of {}", operand.buffer.len())?;
    let stride = |axis: usize| match (expected[axis], layout.strides()[axis]) {
        (0 | 1, _) => Some(0),
        (_, stride) => usize::try_from(stride).ok(),
    };
    let dense = expected[3] == 1 || layout.strides()[3] == 1;
    match (stride(0), stride(1), stride(2)) {
        (Some(batch), Some(position), Some(head)) if dense && u32::try_from(end).is_ok() => {
            Ok(Strided {
                first: layout.offset(),
                batch,
                position,
                head,
            })
        }
        _ => {
            let strides = layout.strides();
            Err(KernelError::argument(operation)(format!(
                "{name} has strides {strides:?}, expected a dense last dimension and none below 0"
            )))
        }
    }
}
