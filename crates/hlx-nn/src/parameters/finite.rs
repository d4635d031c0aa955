//! Weights that hold NaN or an infinity, found in their files.

use safetensors::tensor::{Dtype, SafeTensors};

use super::files::format_error;
use crate::Result;
use crate::error::NnError;

/// Fails for a safetensors file in memory that holds NaN or an infinity: weights of a run that diverged, or
/// of a damaged file, which would otherwise show as logits that are NaN.
///
/// # Errors
/// [`NnError::Mismatch`] with the first such tensor by name, or for bytes that are no safetensors file.
///
/// ```
/// use hlx_core::Device;
/// use hlx_nn::{Linear, Model, check_finite};
///
/// let device = Device::open("cpu")?;
/// let model = Model::new(&device, 1, |b| Ok(Linear::new(b, 2, 1)))?;
/// check_finite(&model.weights().to_safetensors()?)?;
/// let bias = &model.weights().parameters()[1];
/// device.upload(&bias.tensor()?.detach().buffer()?, &[f32::NAN])?;
/// let error = check_finite(&model.weights().to_safetensors()?).expect_err("it is refused");
/// assert_eq!(error.to_string(), "model: bias holds 1 NaN or infinite value");
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub fn check_finite(bytes: &[u8]) -> Result<()> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| format_error(&error))?;
    let mut tensors = file.tensors();
    tensors.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (name, view) in &tensors {
        if let Some(reason) = non_finite(name, view.dtype(), view.data()) {
            return Err(NnError::mismatch("model", reason));
        }
    }
    Ok(())
}

/// Says how many values of a tensor are NaN or infinite, if any is.
pub(crate) fn non_finite(name: &str, dtype: Dtype, bytes: &[u8]) -> Option<String> {
    // An exponent of ones alone.
    let halves = |exponent: u16| {
        let words = bytes.as_chunks::<2>().0.iter();
        words
            .filter(|&&word| u16::from_le_bytes(word) & exponent == exponent)
            .count()
    };
    let n = match dtype {
        Dtype::F16 => halves(0x7c00),
        Dtype::BF16 => halves(0x7f80),
        Dtype::F32 => {
            let words = bytes.as_chunks::<4>().0.iter();
            let is_wrong = |word: &&[u8; 4]| !f32::from_le_bytes(**word).is_finite();
            words.filter(is_wrong).count()
        }
        _ => 0,
    };
    let values = if n == 1 { "value" } else { "values" };
    (n > 0).then(|| format!("{name} holds {n} NaN or infinite {values}"))
}
