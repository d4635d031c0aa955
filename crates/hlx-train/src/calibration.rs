//! Which columns of a model's matrices count, measured on a text: the mean squares of what each matrix is multiplied by.
//!
//! The text is cut into windows of one length that do not overlap; a last one may be shorter. Activations are those of
//! the `portable` arithmetic, whose bits are the same on every device. Their squares are exact in f64, and a column's are
//! added in f64 in the order of the tokens, one after another. So the numbers are the same on every device and for every
//! number of threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, bail, ensure};
use hlx_autograd::{Tensor, no_grad};
use hlx_core::Arithmetic;
use hlx_nn::{CausalInput, CausalLm, CausalModel, InputObserver, Mode, hugging_face_name};

use crate::perplexity::rows_at_a_time;

/// Tokens of a window where nobody says how many, at most.
const USUAL_LENGTH: usize = 512;

/// The tokens of a window where nobody says how many: the model's positions, 512 at most.
pub fn usual_length(model: &CausalLm) -> usize {
    model.max_positions().min(USUAL_LENGTH)
}

/// Checks that tokens can be computed in windows of a length.
///
/// # Errors
/// A length that is none of the model's, fewer than two tokens, one that the model does not have.
pub(crate) fn check_tokens(model: &CausalLm, tokens: &[u32], length: usize) -> Result<()> {
    let (positions, vocabulary) = (model.max_positions(), model.vocabulary());
    ensure!(
        (2..=positions).contains(&length),
        "--length {length}: expected 2 to the model's {positions} positions"
    );
    ensure!(
        tokens.len() >= 2,
        "a text of {} tokens is too short",
        tokens.len()
    );
    if let Some(id) = tokens.iter().find(|&&id| id as usize >= vocabulary) {
        bail!("the token {id} is outside of the model's vocabulary of {vocabulary}");
    }
    Ok(())
}

/// The windows of tokens as batches of rows of one length, in order.
pub(crate) fn batches<'a>(
    model: &CausalLm,
    tokens: &'a [u32],
    length: usize,
) -> Vec<(&'a [u32], [usize; 2])> {
    let whole = tokens.len() / length * length;
    let batch = rows_at_a_time(model, length) * length;
    let mut batches: Vec<_> = tokens[..whole]
        .chunks(batch)
        .map(|rows| (rows, [rows.len() / length, length]))
        .collect();
    // One token alone predicts nothing.
    let rest = &tokens[whole..];
    if rest.len() >= 2 {
        batches.push((rest, [1, rest.len()]));
    }
    batches
}

/// The mean squares of the columns of a model's matrices, by the names of Hugging Face's tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importance(BTreeMap<String, Vec<f32>>);

impl Importance {
    /// Measures a model on tokens, in windows of `length` of them.
    ///
    /// # Errors
    /// A model in another arithmetic than `portable`; a length that is none of the model's, fewer than two tokens, one
    /// that the model does not have; activations that are not finite, and what the device reports.
    pub fn measure(model: &CausalLm, tokens: &[u32], length: usize) -> Result<Self> {
        check_tokens(model, tokens, length)?;
        let device = model.device()?;
        ensure!(
            device.arithmetic() == Arithmetic::Portable,
            "importance is measured in the portable arithmetic"
        );
        let sums = Arc::new(Sums::default());
        let mode = Mode::eval().with_observer(sums.clone());
        for (rows, shape) in batches(model, tokens, length) {
            let ids = Tensor::from_slice::<u32>(&device, rows, &shape)?.with_samples(0)?;
            no_grad(|| model.logits(&CausalInput::new(&ids), &mode))?;
        }
        let family = model.config().family();
        let sums = sums.0.lock().unwrap_or_else(PoisonError::into_inner);
        let means = sums.iter().map(|(name, (sums, n))| {
            let means: Vec<f32> = sums.iter().map(|sum| (sum / *n as f64) as f32).collect();
            ensure!(
                means.iter().all(|mean| mean.is_finite()),
                "{name}: is multiplied by numbers that are not finite"
            );
            Ok((hugging_face_name(family, name), means))
        });
        Ok(Self(means.collect::<Result<_>>()?))
    }

    /// The mean squares of what a tensor's columns are multiplied by; `None` of one that is no linear layer's, and of an
    /// expert that no token came to.
    pub fn of(&self, name: &str) -> Option<&[f32]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The names of the tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// For each weight the sums of squares of its columns, and the number of rows that were added.
#[derive(Debug, Default)]
struct Sums(Mutex<BTreeMap<String, (Vec<f64>, u64)>>);

impl InputObserver for Sums {
    fn observe(&self, weights: &[&str], x: &Tensor) -> hlx_nn::Result<()> {
        let columns = x.shape().last().copied().unwrap_or(1);
        let values = x.detach().contiguous()?.to_vec::<f32>()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in weights {
            let empty = || (vec![0.0; columns], 0);
            let (sums, n) = all.entry((*name).to_owned()).or_insert_with(empty);
            for row in values.chunks_exact(columns) {
                for (sum, &value) in sums.iter_mut().zip(row) {
                    *sum += f64::from(value) * f64::from(value);
                }
            }
            *n += (values.len() / columns) as u64;
        }
        Ok(())
    }
}
