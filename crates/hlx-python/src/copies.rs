//! Copies of a tensor's values.

use hlx_autograd::{Result, Tensor};

/// A copy of a tensor's values, with nothing of its history.
pub fn copied(x: &Tensor) -> Result<Tensor> {
    let out = x.device().alloc_typed(x.dtype(), x.n_elements())?;
    if x.n_elements() > 0 {
        hlx_kernels::elementwise::copy_strided(x.device(), x.operand(), &out)?;
    }
    Tensor::from_buffer(x.device(), out, x.shape())
}

/// A copy that gradients flow through: PyTorch's `clone`.
pub fn cloned(x: &Tensor) -> Result<Tensor> {
    let values = copied(x)?.buffer()?;
    Tensor::from_tensors("clone", &[x], values, x.shape(), |dy| {
        Ok(vec![Some(dy.clone())])
    })
}
