//! The keys and values of sequences that are being generated.

use std::cell::RefCell;

use hlx_autograd::{AttentionSpec, Tensor};
use hlx_core::{Buffer, Device};
use hlx_kernels::attention::append::{AppendInputs, HeadNorms, HeadRotation, HeadRows};
use hlx_kernels::attention::{Attention, CachedHeads, Limits, query_ranges};
use hlx_kernels::{KernelError, Operand};

use super::input::shape_of;
use crate::Result;
use crate::error::NnError;

/// The keys and values of some sequences, in the memory that all their tokens will need. Made by
/// [`CausalModel::cache`](crate::CausalModel::cache).
#[derive(Debug)]
pub struct KvCache {
    device: Device,
    layers: Vec<CachedHeads>,
    /// The tokens of each sequence.
    lengths: Vec<usize>,
    capacity: usize,
}

/// A length of 0 for each sequence.
fn lengths_of(batch: usize) -> Result<Vec<usize>> {
    let mut lengths = Vec::new();
    let reserved = lengths.try_reserve_exact(batch);
    reserved.map_err(|_| NnError::Cache {
        reason: format!("there is no memory for {batch} sequences"),
    })?;
    lengths.resize(batch, 0);
    Ok(lengths)
}

impl KvCache {
    /// Allocates the memory: `heads` and `width` are those of the keys.
    pub(crate) fn new(
        device: &Device,
        n_layers: usize,
        [batch, capacity]: [usize; 2],
        [heads, width]: [usize; 2],
    ) -> Result<Self> {
        let layer = |_| CachedHeads::new(device, [batch, capacity], [heads, width]);
        Ok(Self {
            device: device.clone(),
            layers: (0..n_layers).map(layer).collect::<Result<_, _>>()?,
            lengths: lengths_of(batch)?,
            capacity,
        })
    }

    /// The tokens that each sequence has.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The tokens that a sequence can have.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keeps the sequences of these numbers, in this order, and drops the others.
    ///
    /// # Errors
    /// [`NnError::Cache`] for a number that there is not.
    pub fn retain(&mut self, sequences: &[usize]) -> Result<()> {
        let batch = self.lengths.len();
        if let Some(sequence) = sequences.iter().find(|&&sequence| sequence >= batch) {
            return Err(refused(format!(
                "sequence {sequence} is to be retained, and there are {batch}"
            )));
        }
        let ids: Vec<u32> = sequences.iter().map(|&sequence| sequence as u32).collect();
        let ids = Tensor::from_slice::<u32>(&self.device, &ids, &[ids.len()])?;
        for layer in &mut self.layers {
            *layer = layer.select(&self.device, &ids.buffer()?)?;
        }
        self.lengths = sequences
            .iter()
            .map(|&sequence| self.lengths[sequence])
            .collect();
        Ok(())
    }

    /// Forgets the tokens of each sequence from a number on, such as drafts that were not accepted.
    ///
    /// # Errors
    /// [`NnError::Cache`] for more tokens than a sequence has, or another number of sequences.
    pub fn truncate(&mut self, lengths: &[usize]) -> Result<()> {
        let fits = lengths
            .iter()
            .zip(&self.lengths)
            .all(|(new, old)| new <= old);
        if lengths.len() != self.lengths.len() || !fits {
            let held = &self.lengths;
            return Err(refused(format!(
                "lengths {lengths:?}, and the sequences have {held:?}"
            )));
        }
        self.lengths = lengths.to_vec();
        Ok(())
    }

    /// Copies the first `n_tokens` tokens of a sequence of another cache to sequence `to`, which holds nothing else then.
    ///
    /// # Errors
    /// [`NnError::Cache`] for tokens or sequences that there are not; caches of other models or capacities.
    pub fn copy_sequence(
        &mut self,
        to: usize,
        (from, sequence): (&Self, usize),
        n_tokens: usize,
    ) -> Result<()> {
        let held = from.lengths.get(sequence).copied().unwrap_or(0);
        if to >= self.lengths.len() || n_tokens > held || self.layers.len() != from.layers.len() {
            let batch = self.lengths.len();
            return Err(refused(format!(
                "{n_tokens} tokens of sequence {sequence}, which has {held}, are copied to sequence {to} of {batch}"
            )));
        }
        for (layer, other) in self.layers.iter().zip(&from.layers) {
            layer.copy_sequence(&self.device, to, (other, sequence), n_tokens)?;
        }
        self.lengths[to] = n_tokens;
        Ok(())
    }

    /// The first `n` sequences in the same memory, if their words lie side by side: what is appended to one cache is
    /// in the other, which doesn't count it.
    pub(crate) fn front(&self, n: usize) -> Result<Option<Self>> {
        let layers = self.layers.iter().map(|layer| layer.front(n));
        let layers = layers.collect::<Result<Option<Vec<_>>, _>>()?;
        Ok(layers.map(|layers| Self {
            device: self.device.clone(),
            layers,
            lengths: self.lengths[..n].to_vec(),
            capacity: self.capacity,
        }))
    }

    /// Counts the tokens of a sequence anew.
    pub(crate) fn set_length(&mut self, sequence: usize, n_tokens: usize) {
        self.lengths[sequence] = n_tokens;
    }

    /// Checks that `new[b]` of the `time` tokens of row b can be appended, counts them, and returns where the
    /// first of each sequence goes.
    pub(crate) fn advance(
        &mut self,
        batch: usize,
        time: usize,
        new: &[usize],
        max_positions: usize,
    ) -> Result<Vec<usize>> {
        let limit = self.capacity.min(max_positions);
        let rows = self.lengths.len();
        if batch != rows || new.len() != rows {
            let found = format!("{batch} rows of ids and {} counts", new.len());
            return Err(refused(format!(
                "{found}, expected {rows} of the sequences"
            )));
        }
        for (sequence, (held, new)) in self.lengths.iter().zip(new).enumerate() {
            if *new == 0 || *new > time {
                let reason = format!("sequence {sequence} takes {new} of {time} tokens");
                return Err(refused(reason));
            }
            if held + new > limit {
                let total = held + new;
                let reason =
                    format!("sequence {sequence} gets {total} tokens, room is for {limit}");
                return Err(refused(reason));
            }
        }
        let first = self.lengths.clone();
        for (held, new) in self.lengths.iter_mut().zip(new) {
            *held += new;
        }
        Ok(first)
    }

    /// Starts a pass that appends `new[b]` of the tokens of row b of the ids \[B, T\].
    pub(crate) fn step(
        &mut self,
        ids: &Tensor,
        new: &[usize],
        max_positions: usize,
    ) -> Result<CacheStep<'_>> {
        let (batch, time) = shape_of(ids, self.capacity.min(max_positions))?;
        let first = self.advance(batch, time, new, max_positions)?;
        let device = ids.device();
        let words = |numbers: &[usize]| {
            let words: Vec<u32> = numbers.iter().map(|&number| number as u32).collect();
            Tensor::from_slice::<u32>(device, &words, &[batch])
        };
        let positions = first
            .iter()
            .flat_map(|&first| (first..first + time).map(|at| at as u32));
        let positions: Vec<u32> = positions.collect();
        Ok(CacheStep {
            positions: Tensor::from_slice::<u32>(device, &positions, &[batch, time])?,
            lengths: words(&self.lengths)?,
            first_positions: words(&first)?,
            ranges: RefCell::default(),
            layers: &self.layers,
        })
    }

    /// A pass that appends one token to each sequence, whose places are read on the device: ids \[B\] of the
    /// tokens held before it and after it.
    pub(crate) fn step_of(
        &self,
        first_positions: Tensor,
        lengths: Tensor,
    ) -> Result<CacheStep<'_>> {
        Ok(CacheStep {
            positions: first_positions.reshape(&[self.lengths.len(), 1])?,
            lengths,
            first_positions,
            ranges: RefCell::default(),
            layers: &self.layers,
        })
    }

    /// The device, and the memory of the first layer's keys, by which a recorded pass knows its cache.
    pub(crate) fn memory(&self) -> Option<(Device, Buffer)> {
        Some((self.device.clone(), self.layers.first()?.memory().clone()))
    }
}

/// One pass that appends to a cache.
#[derive(Debug)]
pub struct CacheStep<'a> {
    /// The position of each token, padding included, ids \[B, T\].
    pub(crate) positions: Tensor,
    /// The tokens of each sequence, the new ones included, ids \[B\].
    lengths: Tensor,
    /// The position of each row's first token, ids \[B\].
    first_positions: Tensor,
    /// What queries see in layers of these windows: layers share it.
    ranges: RefCell<Vec<(Option<usize>, Buffer)>>,
    layers: &'a [CachedHeads],
}

/// What heads of queries and keys go through on their way into attention.
#[derive(Default)]
pub(crate) struct HeadSteps {
    /// The gains of the norms of queries and keys, \[D\], and what is added under their root.
    pub norms: Option<([Tensor; 2], f32)>,
    /// The angle of a step of each pair, and what sines and cosines are multiplied by.
    pub rotation: Option<(Tensor, f32)>,
}

impl CacheStep<'_> {
    /// Takes the heads of the new queries, \[B, T, H, D\], keys and values, \[B, T, G, D\], through their
    /// steps, writes keys and values behind those of a layer, and attends to what each sequence holds: \[B, T, H, D\].
    pub(crate) fn attend(
        &self,
        layer_idx: usize,
        [q, k, v]: [&Tensor; 3],
        steps: &HeadSteps,
        spec: AttentionSpec,
    ) -> Result<Tensor> {
        let &[batch, time, heads, head_width] = q.shape() else {
            let found = q.shape();
            return Err(refused(format!("queries have shape {found:?}")));
        };
        let cached = &self.layers[layer_idx];
        let [_, capacity, key_heads, _] = cached.extents();
        let attention = spec.sizes(batch, [time, capacity], [heads, key_heads], head_width);
        let device = q.device();
        let ranges = self.ranges_of(device, &attention)?;
        let counter = spec.dropped().map(|mask| &mask.counter);
        let new = [side_by_side(q)?, side_by_side(k)?, side_by_side(v)?];
        let o = self.with_inputs(&new, steps, |inputs| {
            cached.attend(device, inputs, &ranges, counter, &attention)
        })?;
        Ok(Tensor::from_buffer(device, o, q.shape())?)
    }

    /// What queries see.
    fn ranges_of(&self, device: &Device, attention: &Attention) -> Result<Buffer> {
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

    /// Runs a kernel that appends with what it reads.
    fn with_inputs(
        &self,
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
            first_positions: &self.first_positions.buffer()?,
            lengths: &self.lengths.buffer()?,
        };
        Ok(append(&inputs)?)
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

pub(crate) fn refused(reason: String) -> NnError {
    NnError::Cache { reason }
}
