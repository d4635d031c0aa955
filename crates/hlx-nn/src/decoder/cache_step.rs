//! One pass that appends to a cache.

use std::cell::RefCell;

use hlx_autograd::{AttentionSpec, Tensor};
use hlx_core::{Buffer, Device};
use hlx_kernels::attention::append::{AppendInputs, HeadNorms, HeadRotation, HeadRows};
use hlx_kernels::attention::{Attention, Limits, PAGE, Pages, query_ranges};
use hlx_kernels::{KernelError, Operand};

use super::pool::{PagePool, refused};
use crate::Result;
use crate::error::NnError;
use crate::mode::HeldNorms;

/// One pass that appends to a cache.
#[derive(Debug)]
pub struct CacheStep<'a> {
    /// The position of each token, padding included, ids \[B, T\]: those of the groups, one behind the other.
    pub(crate) positions: Tensor,
    groups: Vec<Group>,
    pool: &'a PagePool,
}

/// Sequences that get as many tokens in a pass, padding included.
#[derive(Debug)]
pub(crate) struct Group {
    /// Words \[B, S / 32\]: the page of each block of 32 positions.
    table: Buffer,
    /// The tokens of each sequence in the pass.
    time: usize,
    /// The position of each sequence's first token, ids \[B\].
    first_positions: Tensor,
    /// The tokens of each sequence, the new ones included, ids \[B\].
    lengths: Tensor,
    /// Whether the table counts all pages of the pool.
    is_in_order: bool,
    /// What queries see in layers of these windows: layers share it.
    ranges: RefCell<Vec<(Option<usize>, Buffer)>>,
}

/// What heads of queries and keys go through on their way into attention.
#[derive(Default)]
pub(crate) struct HeadSteps {
    /// The gains of the norms of queries and keys, \[D\], and what is added under their root.
    pub norms: Option<([Tensor; 2], f32)>,
    /// The angle of a step of each pair, and what sines and cosines are multiplied by.
    pub rotation: Option<(Tensor, f32)>,
}

impl<'a> CacheStep<'a> {
    /// Of one group, whose ids are \[B, T\], or of several, whose ids are \[1, all\].
    pub(crate) fn new(pool: &'a PagePool, positions: Tensor, groups: Vec<Group>) -> Self {
        Self {
            positions,
            groups,
            pool,
        }
    }

    /// The norms of weight-decomposed adapters that all passes of the cache share.
    pub(crate) fn norms(&self) -> &HeldNorms {
        self.pool.norms()
    }

    /// Takes the heads of the new queries, \[B, T, H, D\], keys and values, \[B, T, G, D\], through their
    /// steps, writes keys and values behind those of a layer, and attends to what each sequence holds: \[B, T, H, D\].
    pub(crate) fn attend(
        &self,
        layer_idx: usize,
        [q, k, v]: [&Tensor; 3],
        steps: &HeadSteps,
        spec: AttentionSpec,
    ) -> Result<Tensor> {
        let new = [side_by_side(q)?, side_by_side(k)?, side_by_side(v)?];
        if let [group] = &self.groups[..] {
            return self.attend_group(layer_idx, group, &new, steps, &spec);
        }
        let mut first = 0;
        let mut parts = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let n = group.batch() * group.time;
            let [q, k, v] = new.each_ref().map(|x| x.narrow(1, first, n));
            parts.push(self.attend_group(layer_idx, group, &[q?, k?, v?], steps, &spec)?);
            first += n;
        }
        Ok(Tensor::cat(&parts.iter().collect::<Vec<_>>(), 1)?)
    }

    /// The heads of a group's queries, in the shape of those that it is given.
    fn attend_group(
        &self,
        layer_idx: usize,
        group: &Group,
        new: &[Tensor; 3],
        steps: &HeadSteps,
        spec: &AttentionSpec,
    ) -> Result<Tensor> {
        let q = &new[0];
        let &[_, _, heads, head_width] = q.shape() else {
            let found = q.shape();
            return Err(refused(format!("queries have shape {found:?}")));
        };
        let cached = &self.pool.layers[layer_idx];
        let [key_heads, _] = cached.heads();
        let batch = group.batch();
        let positions = group.table.len() / batch.max(1) * PAGE;
        let sequences = [group.time, positions];
        let attention = spec.sizes(batch, sequences, [heads, key_heads], head_width);
        let device = q.device();
        let ranges = group.ranges(device, &attention)?;
        let counter = spec.dropped().map(|mask| &mask.counter);
        let o = self.with_inputs(group, new, steps, |inputs| {
            cached.attend(device, inputs, &ranges, counter, &attention)
        })?;
        Ok(Tensor::from_buffer(device, o, q.shape())?)
    }

    /// Runs a kernel that appends with what it reads.
    fn with_inputs(
        &self,
        group: &Group,
        [q, k, v]: &[Tensor; 3],
        steps: &HeadSteps,
        append: impl FnOnce(&AppendInputs<'_>) -> Result<Buffer, KernelError>,
    ) -> Result<Buffer> {
        let buffers = |[a, b]: &[Tensor; 2]| Ok::<_, NnError>([a.buffer()?, b.buffer()?]);
        let norms = steps.norms.as_ref();
        let norms = norms.map(|(gains, eps)| Ok::<_, NnError>((buffers(gains)?, *eps)));
        let norms = norms.transpose()?;
        let rotation = steps.rotation.as_ref();
        let rotation =
            rotation.map(|(frequencies, scale)| Ok::<_, NnError>((frequencies.buffer()?, *scale)));
        let rotation = rotation.transpose()?;
        let inputs = AppendInputs {
            q: rows_of(q),
            k: rows_of(k),
            v: rows_of(v),
            norms: norms.as_ref().map(|(weights, eps)| HeadNorms {
                weights: weights.each_ref(),
                eps: *eps,
            }),
            rotation: rotation.as_ref().map(|(frequencies, scale)| HeadRotation {
                frequencies,
                scale: *scale,
            }),
            first_positions: &group.first_positions.buffer()?,
            lengths: &group.lengths.buffer()?,
            pages: Some(Pages {
                table: &group.table,
                n: self.pool.n_pages(),
                in_order: group.is_in_order,
            }),
        };
        Ok(append(&inputs)?)
    }
}

impl Group {
    /// Sequences whose pages are anywhere in a pool.
    pub fn new(table: Buffer, time: usize, first_positions: Tensor, lengths: Tensor) -> Self {
        Self {
            table,
            time,
            first_positions,
            lengths,
            is_in_order: false,
            ranges: RefCell::default(),
        }
    }

    /// The same sequences, whose table counts all pages of the pool.
    pub fn in_order(self) -> Self {
        Self {
            is_in_order: true,
            ..self
        }
    }

    fn batch(&self) -> usize {
        self.lengths.n_elements()
    }

    /// What queries see.
    fn ranges(&self, device: &Device, attention: &Attention) -> Result<Buffer> {
        let mut all = self.ranges.borrow_mut();
        let known = all.iter().find(|(window, _)| *window == attention.window);
        if let Some((_, ranges)) = known {
            return Ok(ranges.clone());
        }
        let ranges = device.alloc_shape(&[4, attention.batch, attention.queries])?;
        let limits = Limits {
            documents: None,
            lengths: Some(&self.lengths.buffer()?),
            first_positions: Some(&self.first_positions.buffer()?),
        };
        query_ranges(device, &limits, &ranges, attention)?;
        all.push((attention.window, ranges.clone()));
        Ok(ranges)
    }
}

/// The tensor \[B, T, heads, D\] itself where a token's heads lie side by side and tokens at one distance, else
/// a contiguous copy.
fn side_by_side(x: &Tensor) -> Result<Tensor> {
    let layout = x.layout();
    let (&[batch, time, heads, width], &[of_batch, of_time, of_head, of_column]) =
        (layout.shape(), layout.strides())
    else {
        return Ok(x.contiguous()?);
    };
    let dense = (width == 1 || of_column == 1) && (heads == 1 || of_head == width as isize);
    let even = batch == 1 || time == 1 || of_batch == time as isize * of_time;
    match dense && even && of_batch >= 0 && of_time >= 0 {
        true => Ok(x.clone()),
        false => Ok(x.contiguous()?),
    }
}

/// Where the heads of tokens lie that are side by side.
fn rows_of(x: &Tensor) -> HeadRows<'_> {
    let Operand { buffer, layout } = x.operand();
    let token_axis = usize::from(layout.shape()[1] > 1);
    HeadRows {
        buffer,
        first: layout.offset(),
        stride: layout.strides()[token_axis].unsigned_abs(),
    }
}
