//! The samples of a step as words for the device, inputs and targets, row by row; and the losses of rows.

use anyhow::Result;
use hlx_autograd::{DType, Tensor, no_grad};
use hlx_core::Device;
use hlx_nn::{CausalInput, CausalLm, CausalModel, Mode};

use crate::data::TokenRows;

/// The samples of one step, cut into micro-batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The parts, in order.
    pub micro_batches: Vec<Rows>,
    /// Targets of these parts; those of the whole batch are what the loss is divided by.
    pub n_targets: usize,
    /// What the run's speed counts: bytes read, padding left out, or images.
    pub n_inputs: usize,
}

/// How many samples a step has, and a micro-batch, and which of them this process computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    /// The samples of a step.
    pub batch_size: usize,
    /// The samples of a micro-batch; the number divides this process's samples.
    pub micro_batch_size: usize,
    /// The first sample of this process in the batch.
    pub first_sample: usize,
    /// The samples of this process.
    pub n_samples: usize,
}

impl BatchSizes {
    /// Those of a process that computes all samples.
    pub fn whole(batch_size: usize, micro_batch_size: usize) -> Self {
        Self {
            batch_size,
            micro_batch_size,
            first_sample: 0,
            n_samples: batch_size,
        }
    }

    /// This process's samples by their number in the batch.
    pub fn mine(&self) -> std::ops::Range<usize> {
        self.first_sample..self.first_sample + self.n_samples
    }
}

/// The inputs and the targets of some samples, one row of each a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The inputs' extents, samples first.
    pub shape: Vec<usize>,
    /// The inputs' type, of words: f32 or u32.
    pub dtype: DType,
    /// The inputs as words.
    pub inputs: Vec<u32>,
    /// For rows of several documents: the column where each input's begins, in the inputs' extents.
    pub documents: Option<Vec<u32>>,
    /// For rows that are padded on the right: how many inputs of each are not padding, where the loss depends on
    /// it.
    pub lengths: Option<Vec<u32>>,
    /// The targets' extents, samples first.
    pub target_shape: Vec<usize>,
    /// The classes to predict, or [`IGNORE_INDEX`](hlx_autograd::IGNORE_INDEX).
    pub targets: Vec<u32>,
    /// How many samples at the front are empty.
    pub n_empty: usize,
}

impl Rows {
    /// The number of samples, empty ones included.
    pub fn len(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Uploads the rows into new tensors.
    ///
    /// # Errors
    /// What the device reports.
    pub fn to_tensors(&self, device: &Device) -> Result<RowTensors> {
        let inputs = device
            .buffer_of::<u32>(&self.inputs)?
            .view_as(self.dtype, self.inputs.len())?;
        let documents = self.documents.as_ref();
        let documents =
            documents.map(|columns| Tensor::from_slice::<u32>(device, columns, &self.shape));
        let lengths = self.lengths.as_ref();
        let lengths =
            lengths.map(|lengths| Tensor::from_slice::<u32>(device, lengths, &[lengths.len()]));
        Ok(RowTensors {
            inputs: Tensor::from_buffer(device, inputs, &self.shape)?.with_samples(0)?,
            documents: documents.transpose()?,
            lengths: lengths.transpose()?,
            targets: Tensor::from_slice::<u32>(device, &self.targets, &self.target_shape)?,
        })
    }

    /// Uploads the rows into the tensors of rows of the same shapes.
    ///
    /// # Errors
    /// What the device reports.
    pub fn upload(&self, device: &Device, tensors: &RowTensors) -> Result<()> {
        device.upload_words(&tensors.inputs.buffer()?, &self.inputs)?;
        for (tensor, words) in [
            (&tensors.documents, &self.documents),
            (&tensors.lengths, &self.lengths),
        ] {
            if let Some((tensor, words)) = tensor.as_ref().zip(words.as_ref()) {
                device.upload_words(&tensor.buffer()?, words)?;
            }
        }
        Ok(device.upload_words(&tensors.targets.buffer()?, &self.targets)?)
    }
}

/// Rows on a device.
#[derive(Clone, Debug)]
pub struct RowTensors {
    /// The inputs, which know their samples.
    pub inputs: Tensor,
    /// For rows of several documents: where each input's begins.
    pub documents: Option<Tensor>,
    /// For padded rows: how many inputs of each are not padding.
    pub lengths: Option<Tensor>,
    /// The classes to predict.
    pub targets: Tensor,
}

impl RowTensors {
    /// The rows as a language model's input, in which no document sees another.
    pub fn input(&self) -> CausalInput<'_> {
        CausalInput {
            documents: self.documents.as_ref(),
            lengths: self.lengths.as_ref(),
            ..CausalInput::new(&self.inputs)
        }
    }
}

impl From<TokenRows> for Rows {
    fn from(rows: TokenRows) -> Self {
        let shape = vec![rows.batch, rows.time];
        Self {
            shape: shape.clone(),
            dtype: DType::U32,
            inputs: rows.ids,
            documents: None,
            lengths: None,
            target_shape: shape,
            targets: rows.targets,
            n_empty: rows.n_empty,
        }
    }
}

/// The loss of every position, 0 where nothing is predicted.
pub(crate) fn row_losses(model: &CausalLm, rows: &Rows) -> Result<Vec<f32>> {
    let device = model.device()?;
    let rows = rows.to_tensors(&device)?;
    let one = Tensor::from_slice(&device, &[1.0], &[1])?;
    let losses = no_grad(|| -> hlx_nn::Result<Tensor> {
        let logits = model.logits(&rows.input(), &Mode::eval())?;
        Ok(logits.cross_entropy_with_rows(&rows.targets, &one, 0.0)?.1)
    })?;
    Ok(losses.to_vec::<f32>()?)
}
