//! The CPU twins of HLX's own shaders, which run only what `product` and `sum` make.

use hlx_core::{Buffer, Device};
use hlx_kernels::KernelError;
use hlx_kernels::product::{MatMul, matmul};
use hlx_store::Handle;

use super::own::{Own, PRODUCT_SHADER};
use super::product::{product, sum};
use super::{ContractError, Kernel, Scalar};

/// Runs a kernel of one of HLX's own shaders on buffers in binding order.
pub(crate) fn run(
    own: &Own,
    device: &Device,
    kernel: &Kernel,
    buffers: &[Buffer],
) -> Result<(), ContractError> {
    match own.name == PRODUCT_SHADER {
        true => product_twin(device, kernel, buffers),
        false => sum_twin(device, kernel, buffers),
    }
}

/// The handles of a kernel's inputs, in order.
fn tensors<const N: usize>(kernel: &Kernel) -> [Option<Handle>; N] {
    std::array::from_fn(|place| kernel.inputs.get(place).and_then(|input| input.tensor))
}

/// Whether a kernel is what [`product`] or [`sum`] would make, apart from names.
fn is_like(kernel: &Kernel, mut made: Kernel) -> bool {
    for (ours, theirs) in made.inputs.iter_mut().zip(&kernel.inputs) {
        ours.name.clone_from(&theirs.name);
        ours.shape.clone_from(&theirs.shape);
    }
    for (ours, theirs) in made.outputs.iter_mut().zip(&kernel.outputs) {
        ours.name.clone_from(&theirs.name);
        ours.shape.clone_from(&theirs.shape);
    }
    made == *kernel
}

/// A kernel that is not what `maker` makes, [`product`] or [`sum`].
fn unlike(device: &Device, kernel: &Kernel, maker: &str) -> ContractError {
    let why = format!("it uses HLX's {maker} in another way than `{maker}` does");
    no_twin(device, kernel, &why)
}

fn failed(kernel: &Kernel, source: KernelError) -> ContractError {
    let contract = kernel.name.clone();
    ContractError::Kernel { contract, source }
}

/// Runs the product's CPU twin.
fn product_twin(device: &Device, kernel: &Kernel, buffers: &[Buffer]) -> Result<(), ContractError> {
    let unlike = || unlike(device, kernel, "product");
    let &[Scalar::U32(m), Scalar::U32(n), Scalar::U32(k), ..] = &kernel.push_constants[..] else {
        return Err(unlike());
    };
    let sizes = [m, n, k].map(|size| size as usize);
    let made = product(&kernel.name, sizes, tensors(kernel)).map_err(|_| unlike())?;
    let [a, b, bias, c] = buffers else {
        return Err(unlike());
    };
    if !is_like(kernel, made) {
        return Err(unlike());
    }
    let [m, n, k] = sizes;
    matmul(device, a, b, Some(bias), c, &MatMul::new(m, n, k))
        .map_err(|source| failed(kernel, source))
}

/// Runs the sum's CPU twin.
fn sum_twin(device: &Device, kernel: &Kernel, buffers: &[Buffer]) -> Result<(), ContractError> {
    let unlike = || unlike(device, kernel, "sum");
    let &[Scalar::U32(count), ..] = &kernel.push_constants[..] else {
        return Err(unlike());
    };
    let made = sum(&kernel.name, &[count as usize], tensors(kernel)).map_err(|_| unlike())?;
    let [a, b, c] = buffers else {
        return Err(unlike());
    };
    if !is_like(kernel, made) {
        return Err(unlike());
    }
    hlx_kernels::elementwise::add(device, a, b, c).map_err(|source| failed(kernel, source))
}

/// The CPU device's error for a contract that has no twin.
pub(crate) fn no_twin(device: &Device, kernel: &Kernel, why: &str) -> ContractError {
    ContractError::Device {
        contract: kernel.name.clone(),
        device: device.info().name.clone(),
        reason: format!("{why}; the CPU device runs HLX's own kernels, a Vulkan device any"),
    }
}
