//! Conversions from and to the arrays of `ndarray`.

use hlx_autograd::Tensor;
use hlx_core::{Device, Element};
use ndarray::{Array, ArrayBase, Data, Dimension, IxDyn};

use crate::source::{Source, tensor_of};
use crate::{IoError, Result};

/// Uploads an array of any layout, in its logical order: `torch.from_numpy`, except that nothing is
/// shared. Elements are stored as [`Source`] says.
///
/// # Errors
/// [`IoError::Range`] for an integer that does not fit, [`IoError::Tensor`] for more than 8 dimensions.
pub fn from_ndarray<S, D>(device: &Device, array: &ArrayBase<S, D>) -> Result<Tensor>
where
    S: Data<Elem: Source>,
    D: Dimension,
{
    let name = ("from_ndarray", "the array");
    tensor_of(device, name, array.iter().copied(), array.shape())
}

/// Downloads a tensor as an array in row-major order, of a type and a number of dimensions known at
/// compile time (`Ix2`) or not (`IxDyn`); waits for the device. `x.numpy()`, except that nothing is
/// shared.
///
/// # Errors
/// [`IoError::Argument`] for another number of dimensions, [`IoError::Tensor`] for another type of
/// elements.
pub fn to_ndarray<T: Element, D: Dimension>(tensor: &Tensor) -> Result<Array<T, D>> {
    const OP: &str = "to_ndarray";
    let elements = tensor.to_vec::<T>()?;
    let array = Array::from_shape_vec(IxDyn(tensor.shape()), elements);
    let array = array.map_err(|error| IoError::argument(OP, error.to_string()))?;
    array.into_dimensionality().map_err(|_| {
        let (found, expected) = (tensor.shape(), D::NDIM.unwrap_or_default());
        let reason = format!("the tensor has shape {found:?}, expected {expected} dimensions");
        IoError::argument(OP, reason)
    })
}

#[cfg(test)]
mod tests {
    use hlx_core::testing;
    use ndarray::{Array2, ArrayD, Ix1, Ix2, Ix3, array};

    use super::*;

    #[test]
    fn arrays_of_any_layout_are_taken_in_their_logical_order() -> Result<()> {
        for device in testing::devices() {
            let a = Array2::from_shape_fn((3, 4), |(i, j)| (10 * i + j) as f32);
            for view in [a.view(), a.t(), a.slice(ndarray::s![..;-1, 1..;2])] {
                let x = from_ndarray(device, &view)?;
                assert_eq!(x.shape(), view.shape());
                assert_eq!(to_ndarray::<f32, Ix2>(&x)?, view);
            }
            let x = from_ndarray(device, &a)?.transpose(0, 1)?.flip(&[0])?;
            assert_eq!(
                to_ndarray::<f32, IxDyn>(&x)?,
                a.t().slice(ndarray::s![..;-1, ..]).into_dyn()
            );
            let empty = ArrayD::<u8>::zeros(vec![2, 0]);
            assert_eq!(
                to_ndarray::<u8, IxDyn>(&from_ndarray(device, &empty)?)?,
                empty
            );
            let one = ndarray::arr0(true);
            assert_eq!(
                from_ndarray(device, &one)?.item::<hlx_core::Bool>()?,
                true.into()
            );
        }
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() -> Result<()> {
        let device = &testing::devices()[0];
        let x = from_ndarray(device, &array![i64::from(i32::MIN), 7])?;
        assert_eq!(to_ndarray::<i32, Ix1>(&x)?, array![i32::MIN, 7]);
        let error = from_ndarray(device, &array![1_i64, 1 << 31]).expect_err("too large");
        assert_eq!(
            error.to_string(),
            "from_ndarray: element 1 of the array is 2147483648, which i32 does not hold"
        );
        let error = to_ndarray::<i32, Ix3>(&x).expect_err("one dimension");
        assert_eq!(
            error.to_string(),
            "to_ndarray: the tensor has shape [2], expected 3 dimensions"
        );
        let error = to_ndarray::<f32, Ix1>(&x).expect_err("integers");
        assert_eq!(
            error.to_string(),
            "to_vec: the tensor has elements of i32, expected f32"
        );
        Ok(())
    }
}
