//! The sizes of an attention over ranges, and where its operands lie.

use hlx_core::arith;
use hlx_core::cpu::with_flush;
use hlx_core::{Buffer, sizes};

use super::shaders::Push;
use super::{AttentionInputs, AttentionSaved};
use crate::error::{check_len, check_that};
use crate::{KernelError, Operand};

/// The widest head.
pub const WIDEST_HEAD: usize = 256;
/// Extents of sequences are below this: positions and windows are sums of two.
const LONGEST: usize = 1 << 29;

/// The sizes of an attention, and how its scores become weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RangedAttention {
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightDropout {
    /// The probability that a weight is dropped, from 0 to 1.
    pub p: f32,
    /// The run's seed.
    pub seed: u64,
    /// The place in the model; no two dropouts of one model share a number.
    pub purpose: u32,
}

impl WeightDropout {
    pub(super) const NONE: Self = Self {
        p: 0.0,
        seed: 0,
        purpose: 0,
    };

    /// What a weight that stays is multiplied by, `1 / (1 - p)`.
    pub(in crate::attention) fn factor(&self) -> f32 {
        with_flush(|| arith::div(1.0, arith::sub(1.0, self.p)))
    }
}

/// Where an operand's rows lie: the first element, and the strides of samples, positions and heads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strided {
    pub first: usize,
    pub batch: usize,
    pub position: usize,
    pub head: usize,
}

impl Strided {
    pub(super) fn at(&self, sample: usize, position: usize, head: usize) -> usize {
        self.first + sample * self.batch + position * self.position + head * self.head
    }

    /// Puts rows `[B, positions, heads, width]` where they lie.
    pub(super) fn put(&self, rows: &[f32], to: &mut [f32], [positions, heads, width]: [usize; 3]) {
        for (row, values) in rows.chunks_exact(width).enumerate() {
            let (position, head) = (row / heads, row % heads);
            let at = self.at(position / positions, position % positions, head);
            to[at..][..width].copy_from_slice(values);
        }
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
    pub attention: RangedAttention,
    pub places: [Strided; 3],
}

impl RangedAttention {
    /// The sizes with where the rows of operands lie.
    pub(super) fn at(&self, places: [Strided; 3]) -> Placed {
        Placed {
            attention: *self,
            places,
        }
    }

    /// Query heads of one key head.
    pub(in crate::attention) fn group(&self) -> usize {
        self.heads / self.key_heads
    }

    /// Elements of `o`.
    pub(super) fn output_len(&self) -> usize {
        self.batch * self.queries * self.heads * self.head_width
    }

    /// Elements of `dk`.
    pub(super) fn key_len(&self) -> usize {
        self.batch * self.keys * self.key_heads * self.head_width
    }

    /// Queries of all heads.
    pub(super) fn all_queries(&self) -> usize {
        self.batch * self.heads * self.queries
    }

    /// What a kernel of `products` products of queries and keys counts; documents and lengths are on
    /// the device and make it less.
    pub(super) fn flops(&self, products: u64) -> u64 {
        self.flops_of_heads(self.batch * self.heads, products)
    }

    /// As [`RangedAttention::flops`], of a part of all samples' heads.
    pub(super) fn flops_of_heads(&self, heads: usize, products: u64) -> u64 {
        let seen = match self.causal {
            true => self.keys - self.keys.min(self.queries) / 2,
            false => self.keys,
        };
        let both_sides = if self.causal { 1 } else { 2 };
        let of_window = |window: usize| window.saturating_mul(both_sides);
        let window = self.window.map_or(seen, of_window);
        let pairs = (heads * self.queries) as u64 * seen.min(window) as u64;
        2 * products * pairs * self.head_width as u64
    }

    pub(in crate::attention) fn check(&self, operation: &'static str) -> Result<(), KernelError> {
        let width = self.head_width;
        check_that(operation, (1..=WIDEST_HEAD).contains(&width), || {
            format!("head_width is {width}, expected 1 to {WIDEST_HEAD}")
        })?;
        let (heads, key_heads) = (self.heads, self.key_heads);
        let divides = key_heads > 0 && heads > 0 && heads.is_multiple_of(key_heads);
        check_that(operation, divides, || {
            format!("{heads} query heads and {key_heads} key heads, expected a multiple of them")
        })?;
        for (name, length) in [("queries", self.queries), ("keys", self.keys)] {
            check_that(operation, (1..LONGEST).contains(&length), || {
                format!("{length} {name}, expected 1 to {}", LONGEST - 1)
            })?;
        }
        check_that(operation, self.window != Some(0), || {
            "window is 0, expected at least 1".to_owned()
        })?;
        let cap = self.soft_cap.unwrap_or(1.0);
        check_that(operation, cap > 0.0 && cap.is_finite(), || {
            format!("soft_cap is {cap}, expected a positive number")
        })?;
        let p = self.dropout.map_or(0.0, |dropout| dropout.p);
        check_that(operation, (0.0..=1.0).contains(&p), || {
            format!("p is {p}, expected a probability from 0 to 1")
        })?;
        let extents = [self.batch, self.queries.max(self.keys), heads, width];
        let len = sizes::checked_elements(&extents);
        let fits = len.is_some_and(|len| u32::try_from(len).is_ok());
        check_that(operation, fits, || {
            format!("an operand of {self:?} has more than 2^32 - 1 elements")
        })
    }

    /// Checks the operands, and returns where their rows lie.
    pub(super) fn places(
        &self,
        operation: &'static str,
        inputs: &AttentionInputs<'_>,
    ) -> Result<[Strided; 3], KernelError> {
        check_len(
            operation,
            "query_ranges",
            inputs.query_ranges,
            [4, self.batch, self.queries],
        )?;
        if let Some(counter) = inputs.counter {
            check_len(operation, "counter", counter, 2)?;
        }
        check_that(
            operation,
            inputs.counter.is_some() || self.dropout.is_none(),
            || "weights are dropped, expected a counter".to_owned(),
        )?;
        self.places_of(operation, ["q", "k", "v"], [inputs.q, inputs.k, inputs.v])
    }

    /// Checks operands of the shapes of q, k and v, and returns where their rows lie.
    pub(super) fn places_of(
        &self,
        operation: &'static str,
        [q_name, k_name, v_name]: [&'static str; 3],
        [q, k, v]: [Operand<'_>; 3],
    ) -> Result<[Strided; 3], KernelError> {
        let of_queries = [self.batch, self.queries, self.heads, self.head_width];
        let of_keys = [self.batch, self.keys, self.key_heads, self.head_width];
        Ok([
            strided(operation, q_name, q, of_queries)?,
            strided(operation, k_name, k, of_keys)?,
            strided(operation, v_name, v, of_keys)?,
        ])
    }

    /// Checks what a backward pass reads and writes, and returns where the operands' rows lie.
    pub(super) fn check_backward(
        &self,
        operation: &'static str,
        inputs: &AttentionInputs<'_>,
        saved: &AttentionSaved<'_>,
        [dq, dk, dv]: [&Buffer; 3],
    ) -> Result<[Strided; 3], KernelError> {
        let places = self.places(operation, inputs)?;
        self.check_saved(operation, saved)?;
        for (name, buffer, expected) in [
            ("dq", dq, self.output_len()),
            ("dk", dk, self.key_len()),
            ("dv", dv, self.key_len()),
        ] {
            check_len(operation, name, buffer, expected)?;
        }
        Ok(places)
    }

    /// Checks what a backward pass reads besides the inputs.
    pub(super) fn check_saved(
        &self,
        operation: &'static str,
        saved: &AttentionSaved<'_>,
    ) -> Result<(), KernelError> {
        self.check(operation)?;
        for (name, buffer, expected) in [
            ("key_ranges", saved.key_ranges, 4 * self.batch * self.keys),
            ("o", saved.o, self.output_len()),
            ("stats", saved.stats, 2 * self.all_queries()),
            ("d_o", saved.d_o, self.output_len()),
            ("delta", saved.delta, self.all_queries()),
        ] {
            check_len(operation, name, buffer, expected)?;
        }
        Ok(())
    }
}

impl Placed {
    pub(super) fn push(&self) -> Push {
        let (of, [q, k, v]) = (&self.attention, self.places);
        let dropout = of.dropout.unwrap_or(WeightDropout::NONE);
        let cap = of.soft_cap.unwrap_or(1.0);
        Push {
            batch: of.batch as u32,
            queries: of.queries as u32,
            keys: of.keys as u32,
            heads: of.heads as u32,
            group: of.group() as u32,
            q_first: q.first as u32,
            q_batch: q.batch as u32,
            q_position: q.position as u32,
            q_head: q.head as u32,
            k_first: k.first as u32,
            k_batch: k.batch as u32,
            k_position: k.position as u32,
            k_head: k.head as u32,
            v_first: v.first as u32,
            v_batch: v.batch as u32,
            v_position: v.position as u32,
            v_head: v.head as u32,
            scale: of.scale,
            cap,
            inverse_cap: with_flush(|| arith::div(1.0, cap)),
            seed_low: dropout.seed as u32,
            seed_high: (dropout.seed >> 32) as u32,
            purpose: dropout.purpose,
            p: dropout.p,
            factor: dropout.factor(),
        }
    }

    /// The specialization constants: `D`, whether rows are whole vectors of four, whether scores are
    /// capped, whether weights are dropped.
    pub(super) fn constants(&self) -> [(u32, u32); 4] {
        let (of, places) = (&self.attention, &self.places);
        let vectors = of.head_width.is_multiple_of(4);
        let vectors = vectors && places.iter().all(Strided::is_of_vectors);
        [
            (0, of.head_width as u32),
            (1, u32::from(vectors)),
            (2, u32::from(of.soft_cap.is_some())),
            (3, u32::from(of.dropout.is_some())),
        ]
    }
}

fn strided(
    operation: &'static str,
    name: &'static str,
    operand: Operand<'_>,
    expected: [usize; 4],
) -> Result<Strided, KernelError> {
    let layout = operand.layout;
    check_that(operation, layout.shape() == expected, || {
        format!(
            "{name} has shape {:?}, expected {expected:?}",
            layout.shape()
        )
    })?;
    let (_, end) = layout.span();
    check_that(operation, end <= operand.buffer.len(), || {
        format!("{name} ends at element {end} of {}", operand.buffer.len())
    })?;
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
        _ => Err(KernelError::Argument {
            operation,
            reason: format!(
                "{name} has strides {:?}, expected a dense last dimension and none below 0",
                layout.strides()
            ),
        }),
    }
}
