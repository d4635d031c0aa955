//! One error for all of HLX's crates.

use hlx_autograd::AutogradError;
use hlx_core::CoreError;
use hlx_data::DataError;
use hlx_io::IoError;
use hlx_kernels::KernelError;
use hlx_nn::NnError;
use hlx_text::TextError;

/// An error of any part of HLX; `?` makes it of theirs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of a device.
    #[error(transparent)]
    Device(#[from] CoreError),
    /// Of a kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Of an operation on tensors.
    #[error(transparent)]
    Tensor(#[from] AutogradError),
    /// Of a layer, a model, an optimizer or a model file.
    #[error(transparent)]
    Nn(#[from] NnError),
    /// Of a data set or a loader.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Of a tokenizer or a corpus.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Of an array or a file of tensors.
    #[error(transparent)]
    Io(#[from] IoError),
}

/// The result of a program that uses HLX.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_any_crate_reads_as_it_does_there() {
        let refused = || -> Result<()> {
            let device = hlx_core::testing::cpu()?;
            let x = hlx_autograd::Tensor::from_slice(&device, &[1.0, 2.0], &[2])?;
            x.reshape(&[3])?;
            Ok(())
        };
        let error = refused().expect_err("another number of elements");
        assert!(matches!(error, Error::Tensor(_)), "{error:?}");
        let expected = "reshape: shape [2] has 2 elements, expected 3 as [3]";
        assert_eq!(error.to_string(), expected);
    }
}
