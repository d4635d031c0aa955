//! The frames of operations: what unary, binary and row operations do besides their formulas.
//!
//! A closure that computes a gradient captures the tensors that it reads, and nothing else: the tape
//! saves no values that no derivative needs.

use hlx_core::{Buffer, Device};
use hlx_kernels::KernelError;
use hlx_kernels::broadcast_shape;

use crate::graph::tape::gradients_enabled;
use crate::graph::tensor::is_half;
use crate::samples::Samples;
use crate::{AutogradError, DType, Gradient, Result, Tensor};

/// The result of a kernel's launch.
type Launched = Result<(), KernelError>;

impl Tensor {
    /// Whether the elements have 16 bits: sums and products of them are computed in f32.
    pub(super) fn is_half(&self) -> bool {
        is_half(self.dtype())
    }

    /// Whether the elements have 16 bits and a gradient is wanted. Where an operation's derivative
    /// takes several steps, or adds, both passes are computed in f32 then, so that the gradient is
    /// rounded once, too; the values are the same.
    pub(super) fn rounds_gradient(&self) -> bool {
        self.is_half() && self.requires_grad() && gradients_enabled()
    }

    /// As [`Tensor::rounds_gradient`], of two operands: one has 16 bits, and one wants a gradient.
    pub(super) fn rounds_gradient_beside(&self, other: &Tensor) -> bool {
        let wanted = self.requires_grad() || other.requires_grad();
        wanted && gradients_enabled() && (self.is_half() || other.is_half())
    }

    /// Computes in f32 and rounds the result to the elements' type, once.
    pub(super) fn in_f32(
        &self,
        operation: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        operation(&self.to_dtype(DType::F32)?)?.to_dtype(self.dtype())
    }

    /// An operand of a 16-bit operation in f32; one that is no float stays, for the f32 form to refuse.
    pub(super) fn widened(&self) -> Result<Tensor> {
        match self.is_half() {
            true => self.to_dtype(DType::F32),
            false => Ok(self.clone()),
        }
    }

    /// As [`Tensor::in_f32`], of an operation with a weight and a bias.
    pub(super) fn weighted_in_f32(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        operation: impl FnOnce(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let bias = bias.map(Tensor::widened).transpose()?;
        let weight = weight.widened()?;
        self.in_f32(|x| operation(x, &weight, bias.as_ref()))
    }

    /// As [`Tensor::in_f32`], of a norm with gain and bias, or neither.
    pub(super) fn affine_in_f32(
        &self,
        affine: Option<[&Tensor; 2]>,
        operation: impl FnOnce(&Tensor, Option<[&Tensor; 2]>) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let Some([weight, bias]) = affine else {
            return self.in_f32(|x| operation(x, None));
        };
        self.weighted_in_f32(weight, Some(bias), |x, weight, bias| {
            operation(x, bias.map(|bias| [weight, bias]))
        })
    }

    /// Converts to a type and expands to a shape, for an operation that writes these values. A
    /// gradient of f32 is summed over what repeats as it is, not from sums of 16 bits.
    pub(crate) fn converted_to(
        &self,
        op: &'static str,
        dtype: DType,
        shape: &[usize],
        samples: Samples,
    ) -> Result<Tensor> {
        match is_half(dtype) && self.requires_grad() {
            true => self.expand_with(op, shape, samples)?.to_dtype(dtype),
            false => self.to_dtype(dtype)?.expand_with(op, shape, samples),
        }
    }

    /// Computes over a tensor without dimensions as over one of one, which PyTorch takes it for where
    /// an operation names a dimension.
    pub(super) fn as_vector(
        &self,
        operation: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        operation(&self.unsqueeze(0)?)?.squeeze(0)
    }

    /// The frame of y = f(x) over f32 values, element by element or in rows, whose derivative is a
    /// kernel: `forward(device, x, y)` and `backward(device, dy, dx)` launch the kernels.
    pub(super) fn map_or_rows(
        &self,
        op: &'static str,
        forward: impl FnOnce(&Device, &Buffer, &Buffer) -> Launched,
        backward: impl FnOnce(&Device, &Buffer, &Buffer) -> Launched + Send + 'static,
    ) -> Result<Tensor> {
        self.expect_type(op, "the input", DType::F32)?;
        let device = self.device();
        let y = device.alloc(self.n_elements())?;
        forward(device, &self.buffer()?, &y)?;
        let x = self.input();
        Tensor::from_operation(op, &[self], y, self.shape(), move |pass, dy| {
            let dx = pass.device().alloc(x.n_elements())?;
            backward(pass.device(), &dy.buffer()?, &dx)?;
            pass.add(&x, Gradient::owned(dx))
        })
    }
}

/// Operands, with their names for errors, broadcast to their joint shape, with the samples that they
/// have together.
pub(super) fn broadcast<const N: usize>(
    op: &'static str,
    named: [(&'static str, &Tensor); N],
) -> Result<[Tensor; N]> {
    let operands = named.map(|(_, operand)| operand);
    let others = named.map(|(name, operand)| (name, Some(operand)));
    operands[0].same_device(op, others)?;
    let shapes = operands.map(Tensor::shape);
    let Some(shape) = broadcast_shape(&shapes) else {
        let shapes: Vec<String> = shapes.iter().map(|shape| format!("{shape:?}")).collect();
        return Err(AutogradError::Argument {
            op,
            reason: format!("shapes {} do not broadcast", shapes.join(" and ")),
        });
    };
    let aligned = operands.map(|x| x.samples().broadcast(x.rank(), shape.len()));
    let samples = Samples::join(aligned);
    let mut expanded = Vec::with_capacity(N);
    for operand in operands {
        expanded.push(operand.expand_with(op, &shape, samples)?);
    }
    // There are as many as operands.
    Ok(std::array::from_fn(|i| expanded[i].clone()))
}

/// The type in which operands of two types are computed, by PyTorch's rules: floats before integers
/// before `bool`; of one kind the wider, and where neither holds the other's values i32 or f32. A
/// tensor without dimensions only decides the kind.
pub(super) fn promoted(a: &Tensor, b: &Tensor) -> DType {
    let kind = |dtype: DType| match dtype {
        DType::Bool => 0,
        dtype if dtype.is_integer() => 1,
        _ => 2,
    };
    let (left, right) = (a.dtype(), b.dtype());
    match (kind(left).cmp(&kind(right)), a.rank() == 0, b.rank() == 0) {
        (std::cmp::Ordering::Less, ..) => right,
        (std::cmp::Ordering::Greater, ..) => left,
        _ if left == right => left,
        (_, true, false) => right,
        (_, false, true) => left,
        _ => match (left, right) {
            (DType::F32 | DType::F16 | DType::BF16, _) => DType::F32,
            (DType::U8, DType::U32) | (DType::U32, DType::U8) => DType::U32,
            _ => DType::I32,
        },
    }
}

/// The type in which a kernel computes values of a type.
pub(super) fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        DType::I32 | DType::I8 => DType::I32,
        DType::U32 | DType::U8 | DType::Bool => DType::U32,
    }
}
