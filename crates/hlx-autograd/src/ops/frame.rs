//! The frames of operations: what unary, binary and row operations do besides their formulas.
//!
//! A closure that computes a gradient captures the buffers that it reads, and nothing else: the tape
//! keeps no values that no derivative needs.

use hlx_core::{Buffer, Context};
use hlx_kernels::KernelError;

use crate::{DType, Gradient, Result, Tensor};

/// The result of a kernel's launch.
type Launched = Result<(), KernelError>;

/// How a binary operation hands its gradient on to one of its operands.
pub(super) enum Slope {
    /// The gradient itself.
    Same,
    /// What a kernel makes of it.
    By(Kernel),
}

/// Launches the kernel that computes an operand's gradient from dy.
type Kernel = Box<dyn FnOnce(&Context, &Buffer, &Buffer) -> Launched + Send>;

impl Slope {
    /// A gradient that `kernel(ctx, dy, dx)` computes.
    pub fn by(
        kernel: impl FnOnce(&Context, &Buffer, &Buffer) -> Launched + Send + 'static,
    ) -> Self {
        Self::By(Box::new(kernel))
    }
}

impl Tensor {
    /// The frame of y = f(x), element by element or in rows: `forward(ctx, x, y)` and
    /// `backward(ctx, dy, dx)` launch the kernels.
    pub(super) fn unary(
        &self,
        op: &'static str,
        forward: impl FnOnce(&Context, &Buffer, &Buffer) -> Launched,
        backward: impl FnOnce(&Context, &Buffer, &Buffer) -> Launched + Send + 'static,
    ) -> Result<Tensor> {
        self.unary_of_output(op, forward, |_| backward)
    }

    /// As [`Tensor::unary`], where the derivative reads the output: `backward(y)` makes the closure.
    pub(super) fn unary_of_output<B>(
        &self,
        op: &'static str,
        forward: impl FnOnce(&Context, &Buffer, &Buffer) -> Launched,
        backward: impl FnOnce(&Buffer) -> B,
    ) -> Result<Tensor>
    where
        B: FnOnce(&Context, &Buffer, &Buffer) -> Launched + Send + 'static,
    {
        self.expect_type(op, "the input", DType::F32)?;
        let ctx = self.context();
        let y = ctx.alloc(self.n_elements())?;
        forward(ctx, &self.buffer()?, &y)?;
        let (x, backward) = (self.input(), backward(&y));
        Tensor::from_operation(op, &[self], y, self.shape(), move |pass, dy| {
            let dx = pass.context().alloc(x.n_elements())?;
            backward(pass.context(), &dy.buffer()?, &dx)?;
            pass.add(&x, Gradient::owned(dx))
        })
    }

    /// The frame of out = f(a, b), element by element over two tensors of one shape:
    /// `forward(ctx, a, b, out)` launches the kernel, `slopes` are those of a and b.
    pub(super) fn binary(
        &self,
        op: &'static str,
        other: &Tensor,
        forward: impl FnOnce(&Context, &Buffer, &Buffer, &Buffer) -> Launched,
        slopes: [Slope; 2],
    ) -> Result<Tensor> {
        self.same_context(op, [("the right operand", Some(other))])?;
        self.expect_type(op, "the left operand", DType::F32)?;
        other.expect_shape(op, "the right operand", self.shape())?;
        let ctx = self.context();
        let out = ctx.alloc(self.n_elements())?;
        forward(ctx, &self.buffer()?, &other.buffer()?, &out)?;
        // What only a constant's gradient would read is not kept.
        let operands = [self.input(), other.input()].into_iter().zip(slopes);
        let operands: Vec<_> = operands
            .filter(|(input, _)| input.requires_grad())
            .collect();
        Tensor::from_operation(op, &[self, other], out, self.shape(), move |pass, dy| {
            let dy = dy.buffer()?;
            for (input, slope) in operands {
                let gradient = match slope {
                    Slope::Same => Gradient::shared(dy.clone()),
                    Slope::By(kernel) => {
                        let dx = pass.context().alloc(input.n_elements())?;
                        kernel(pass.context(), &dy, &dx)?;
                        Gradient::owned(dx)
                    }
                };
                pass.add(&input, gradient)?;
            }
            Ok(())
        })
    }
}
