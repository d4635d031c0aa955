//! Operations in place: results that are written into the tensor's own memory, which views share.
//!
//! What may be changed, and what becomes of gradients, is as in PyTorch:
//! - Within [`no_grad`](crate::no_grad), or where no gradient is involved, the values change and the
//!   tape stays as it is.
//! - Else the tensor takes the result's place on the tape. Other handles and views of the memory no
//!   longer know how its values came about: using one in an operation is
//!   [`AutogradError::History`]. A leaf is refused ([`AutogradError::LeafInPlace`]).
//! - An earlier operation's derivative that has saved the values from before is refused in the backward
//!   pass ([`AutogradError::Changed`]). The derivative of the operation in place itself saves a copy
//!   where it reads them.
//!
//! A result is computed as the operation of the same name without `_` does, to the same bits, and then
//! assigned; sums of equal layout are computed in place.

mod through_view;

use hlx_core::{Bool, DType};
use hlx_kernels::elementwise::{Unary, add_assign, assign_strided};

use crate::error::AutogradError;
use crate::graph::tape::{Rule, gradients_enabled};
use crate::ops::{Index, Operand};
use crate::{Input, Result, Tensor};

impl Tensor {
    /// Assigns the result of an operation to this tensor's memory.
    fn assign(&mut self, op: &'static str, value: &Tensor) -> Result<&mut Self> {
        self.same_device(op, [("the value", Some(value))])?;
        self.check_kind(op, value.dtype())?;
        if value.shape() != self.shape() {
            let expected = format!("{:?}, as a tensor in place keeps its shape", self.shape());
            return Err(value.shape_error(op, "the result", expected));
        }
        let tracked = self.check_leaf(op, value)?;
        let value = value.to_dtype(self.dtype())?;
        if self.n_elements() > 0 {
            let shared = value.operand().buffer.overlaps(self.operand().buffer);
            let apart = match shared {
                true => Tensor::from_buffer(self.device(), value.copied()?, self.shape())?,
                false => value.clone(),
            };
            assign_strided(self.device(), apart.operand(), self.operand())?;
        }
        self.changed(tracked.then(|| (value.input(), value.samples())));
        Ok(self)
    }

    /// Notes that the values have changed; with a place on the tape, they have come from there.
    fn changed(&mut self, by: Option<(Input, crate::Samples)>) {
        let (first, end) = self.layout().span();
        let buffer = self.operand().buffer.clone();
        let tracked = by.is_some();
        self.device().note_change(&buffer, first..end, tracked);
        if let Some((input, samples)) = by {
            *self = self.changed_by(input, samples);
        }
    }

    /// Whether the tape has to follow a change to `value`.
    fn check_leaf(&self, op: &'static str, value: &Tensor) -> Result<bool> {
        if self.is_of_blocks() {
            let reason = format!("a weight of {:?} in blocks does not change", self.shape());
            return Err(AutogradError::Argument { op, reason });
        }
        let tracked = gradients_enabled() && (self.requires_grad() || value.requires_grad());
        if tracked && self.is_of_leaf() {
            let tensor = self.described();
            return Err(AutogradError::LeafInPlace { op, tensor });
        }
        Ok(tracked)
    }

    /// Checks that values of a type may be stored here: no float in an integer, no number in a `bool`.
    fn check_kind(&self, op: &'static str, found: DType) -> Result<()> {
        let kind = |dtype: DType| match dtype {
            DType::Bool => 0,
            other if other.is_integer() => 1,
            _ => 2,
        };
        let expected = self.dtype();
        if kind(found) <= kind(expected) {
            return Ok(());
        }
        Err(AutogradError::DType {
            op,
            argument: "the result",
            found,
            expected,
        })
    }

    /// Writes the result of any operation on this tensor into its memory: `operation(x)` in place of x, as
    /// PyTorch's methods with an underscore do. `op` names the change in errors.
    ///
    /// # Errors
    /// Those of the operation, and as [`Tensor::add_`].
    #[doc = example!(
        x: "let mut x = x;",
        "x.in_place(\"softmax_\", |x| x.softmax_dim(0))?;",
        "assert_eq!(x.sum()?.item::<f32>()?, 3.0);"
    )]
    pub fn in_place(
        &mut self,
        op: &'static str,
        operation: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<&mut Self> {
        let value = operation(&self.original(op, self.requires_grad())?)?;
        self.assign(op, &value)
    }

    /// Adds the other operand, as `torch.Tensor.add_`.
    ///
    /// # Errors
    /// As [`Tensor::add`]; [`AutogradError::Shape`] if the result has another shape,
    /// [`AutogradError::DType`] if its type is of another kind (a float for an integer),
    /// [`AutogradError::LeafInPlace`]; a kernel error if elements of the tensor share memory
    /// ([`Tensor::expand`]). So for all operations in place.
    ///
    /// ```
    /// # use hlx_autograd::{DType, Tensor};
    /// # let device = hlx_core::Device::open("cpu")?;
    /// let mut x = Tensor::ones(&device, &[3], DType::F32)?;
    /// x.add_(2.0)?.mul_(3.0)?;
    /// assert_eq!(x.to_vec::<f32>()?, [9.0; 3]);
    /// # Ok::<(), hlx_autograd::AutogradError>(())
    /// ```
    pub fn add_(&mut self, other: impl Operand) -> Result<&mut Self> {
        const OP: &str = "add_";
        let other = other.beside(self)?;
        let dense = |x: &Tensor| x.dtype() == DType::F32 && x.layout().is_contiguous();
        let alike = other.shape() == self.shape() && dense(self) && dense(&other);
        let tracked = gradients_enabled() && (self.requires_grad() || other.requires_grad());
        let apart = || !other.operand().buffer.overlaps(self.operand().buffer);
        if alike && !tracked && self.n_elements() > 0 && apart() {
            self.same_device(OP, [("the right operand", Some(&other))])?;
            let unit = hlx_core::ALIGNMENT_WORDS;
            if self.layout().offset().is_multiple_of(unit) {
                add_assign(self.device(), &self.buffer()?, &other.buffer()?)?;
                self.changed(None);
                return Ok(self);
            }
        }
        let sum = self.add(&other)?;
        self.assign(OP, &sum)
    }

    /// Writes zeros, as `torch.Tensor.zero_`.
    ///
    /// # Errors
    /// As [`Tensor::add_`].
    #[doc = example!(x: "let mut x = x;", "x.zero_()?;", "assert_eq!(x.to_vec::<f32>()?, [0.0; 6]);")]
    pub fn zero_(&mut self) -> Result<&mut Self> {
        self.filled("zero_", 0.0)
    }

    /// Writes one value to every element, as `torch.Tensor.fill_`.
    ///
    /// # Errors
    /// As [`Tensor::add_`].
    #[doc = example!(
        x: "x.select(0, 1)?.fill_(9.0)?;",
        "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 9.0, 9.0, 9.0]);"
    )]
    pub fn fill_(&mut self, value: f32) -> Result<&mut Self> {
        self.filled("fill_", value)
    }

    fn filled(&mut self, op: &'static str, value: f32) -> Result<&mut Self> {
        let value = Tensor::full(self.device(), &[], value, self.dtype())?;
        self.overwritten(op, &value)
    }

    /// Writes the elements of another tensor, broadcast and converted to this one's shape and type, as
    /// `torch.Tensor.copy_`. The gradient goes to the other tensor.
    ///
    /// # Errors
    /// As [`Tensor::add_`], and [`AutogradError::Argument`] if it does not broadcast to this shape.
    #[doc = example!(
        x: "x.select(0, 0)?.copy_(&x.select(0, 1)?)?;",
        "assert_eq!(x.to_vec::<f32>()?, [4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);"
    )]
    pub fn copy_(&mut self, source: &Tensor) -> Result<&mut Self> {
        self.same_device("copy_", [("the source", Some(source))])?;
        self.overwritten("copy_", source)
    }

    /// Forgets the values and takes others, of any type, broadcast.
    fn overwritten(&mut self, op: &'static str, source: &Tensor) -> Result<&mut Self> {
        let rank = self.rank().max(source.rank());
        let samples = source.samples().broadcast(source.rank(), rank);
        let value = source.converted_to(op, self.dtype(), self.shape(), samples)?;
        if !self.check_leaf(op, &value)? {
            return self.assign(op, &value);
        }
        // The values from before have no part in the result: their gradient is zero.
        let (x, y) = (self.input(), value.input());
        let output = (self.shape(), self.n_elements());
        let rule = move |pass: &mut crate::Backward<'_>, dy: &Tensor| {
            pass.add_tensor(&y, dy)?;
            match x.requires_grad() {
                true => pass.add_tensor(&x, &dy.zeros_like()?),
                false => Ok(()),
            }
        };
        let inputs = [&*self, &value];
        let place = Tensor::place(op, &inputs, output, || Rule::of(rule))?;
        let value = value.at(place);
        self.assign(op, &value)
    }

    /// Writes `value` where the mask holds, as `torch.Tensor.masked_fill_`.
    ///
    /// # Errors
    /// As [`Tensor::masked_fill`] and [`Tensor::add_`].
    #[doc = example!(
        x: "let mut x = x;",
        "x.masked_fill_(&x.gt(4.0)?, 0.0)?;",
        "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 0.0, 0.0]);"
    )]
    pub fn masked_fill_(&mut self, mask: &Tensor, value: f32) -> Result<&mut Self> {
        let filled = self.masked_fill(mask, value)?;
        self.assign("masked_fill_", &filled)
    }

    /// Brings every element within \[low, high\], as `torch.Tensor.clamp_`.
    ///
    /// # Errors
    /// As [`Tensor::add_`].
    #[doc = example!(
        x: "let mut x = x;",
        "x.clamp_(2.0, 4.0)?;",
        "assert_eq!(x.to_vec::<f32>()?, [2.0, 2.0, 3.0, 4.0, 4.0, 4.0]);"
    )]
    pub fn clamp_(&mut self, low: f32, high: f32) -> Result<&mut Self> {
        const OP: &str = "clamp_";
        let clamped = self.original(OP, self.requires_grad())?.clamp(low, high)?;
        self.assign(OP, &clamped)
    }

    /// Takes 0 for what is below it, as `torch.Tensor.relu_`. The derivative reads the result.
    ///
    /// # Errors
    /// As [`Tensor::add_`].
    #[doc = example!(
        x: "let mut x = x.sub(3.0)?;",
        "x.relu_()?;",
        "assert_eq!(x.to_vec::<f32>()?, [0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);"
    )]
    pub fn relu_(&mut self) -> Result<&mut Self> {
        let value = self.unary(Unary::ReLU, [0.0; 2])?;
        self.assign("relu_", &value)
    }

    /// Takes 1 / (1 + e^-x), as `torch.Tensor.sigmoid_`. The derivative reads the result.
    ///
    /// # Errors
    /// As [`Tensor::add_`].
    #[doc = example!(
        "let mut x = Tensor::zeros(&device, &[2], DType::F32)?;",
        "assert_eq!(x.sigmoid_()?.to_vec::<f32>()?, [0.5, 0.5]);"
    )]
    pub fn sigmoid_(&mut self) -> Result<&mut Self> {
        let value = self.unary(Unary::Sigmoid, [0.0; 2])?;
        self.assign("sigmoid_", &value)
    }

    /// Takes the hyperbolic tangent, as `torch.Tensor.tanh_`. The derivative reads the result.
    ///
    /// # Errors
    /// As [`Tensor::add_`].
    #[doc = example!(
        "let mut x = Tensor::zeros(&device, &[2], DType::F32)?;",
        "assert_eq!(x.tanh_()?.to_vec::<f32>()?, [0.0, 0.0]);"
    )]
    pub fn tanh_(&mut self) -> Result<&mut Self> {
        let value = self.unary(Unary::Tanh, [0.0; 2])?;
        self.assign("tanh_", &value)
    }

    /// This tensor as an operation in place reads it: where a derivative will read the values from
    /// before, a copy with this tensor's place on the tape.
    fn original(&self, op: &'static str, is_read: bool) -> Result<Tensor> {
        if !is_read || !gradients_enabled() {
            return Ok(self.clone());
        }
        self.check_history(op)?;
        let (device, values) = (self.device(), self.copied()?);
        Tensor::dense_over(device, values, self.shape(), self.samples(), self.input())
    }

    /// Writes `source[i]` at `i with index[i] in the place of dim`, as `torch.Tensor.scatter_`.
    ///
    /// # Errors
    /// As [`Tensor::scatter`] and [`Tensor::add_`].
    #[doc = example!(
        x: "let index = Tensor::from_slice(&device, &[2_i32, 0], &[2, 1])?;",
        "let mut x = x;",
        "x.scatter_(1, &index, &Tensor::zeros(&device, &[2, 1], DType::F32)?)?;",
        "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 0.0, 0.0, 5.0, 6.0]);"
    )]
    pub fn scatter_(&mut self, dim: isize, index: &Tensor, source: &Tensor) -> Result<&mut Self> {
        let written = self.scatter(dim, index, source)?;
        self.assign("scatter_", &written)
    }

    /// Adds `source[i]` at `i with index[i] in the place of dim`, as `torch.Tensor.scatter_add_`.
    ///
    /// # Errors
    /// As [`Tensor::scatter_add`] and [`Tensor::add_`].
    #[doc = example!(
        x: "let index = Tensor::from_slice(&device, &[2_i32, 0], &[2, 1])?;",
        "let mut x = x;",
        "x.scatter_add_(1, &index, &Tensor::ones(&device, &[2, 1], DType::F32)?)?;",
        "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 4.0, 5.0, 5.0, 6.0]);"
    )]
    pub fn scatter_add_(
        &mut self,
        dim: isize,
        index: &Tensor,
        source: &Tensor,
    ) -> Result<&mut Self> {
        let added = self.scatter_add(dim, index, source)?;
        self.assign("scatter_add_", &added)
    }

    /// Adds the slices of `source` at the indices along a dimension, as `torch.Tensor.index_add_`.
    ///
    /// # Errors
    /// As [`Tensor::index_add`] and [`Tensor::add_`].
    #[doc = example!(
        x: "let index = Tensor::from_slice(&device, &[1_i32], &[1])?;",
        "let mut x = x;",
        "x.index_add_(0, &index, &x.narrow(0, 0, 1)?)?;",
        "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);"
    )]
    pub fn index_add_(&mut self, dim: isize, index: &Tensor, source: &Tensor) -> Result<&mut Self> {
        let added = self.index_add(dim, index, source)?;
        self.assign("index_add_", &added)
    }

    /// Writes `values`, broadcast, at `x[items]`, or with `accumulate` adds them to what is there, as
    /// `torch.Tensor.index_put_`: PyTorch's `x[items] = values`.
    ///
    /// # Errors
    /// As [`Tensor::index_put`] and [`Tensor::add_`].
    #[doc = example!(
        x: "let mut x = x;",
        "let columns = Tensor::from_slice(&device, &[0_i32, -1], &[2])?;",
        "x.index_put_(&[1.into(), (&columns).into()], &Tensor::zeros(&device, &[], DType::F32)?, false)?;",
        "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 0.0, 5.0, 0.0]);"
    )]
    pub fn index_put_(
        &mut self,
        items: &[Index],
        values: &Tensor,
        accumulate: bool,
    ) -> Result<&mut Self> {
        let written = self.index_put(items, values, accumulate)?;
        self.assign("index_put_", &written)
    }

    /// Switches the collection of this tensor's gradient on or off, as `torch.Tensor.requires_grad_`: with
    /// it on, a constant becomes a leaf ([`Tensor::with_gradient`]); with it off, a leaf a constant.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for `false` of an operation's output: [`Tensor::detach`] it.
    #[doc = example!(
        x: "let mut x = x;",
        "x.requires_grad_(true)?;",
        "assert!(x.requires_grad() && x.is_leaf());"
    )]
    pub fn requires_grad_(&mut self, requires_grad: bool) -> Result<&mut Self> {
        match (requires_grad, self.requires_grad(), self.is_leaf()) {
            (true, false, _) => *self = self.with_gradient(),
            (false, true, true) => *self = self.detach(),
            (false, true, false) => {
                return Err(AutogradError::Argument {
                    op: "requires_grad_",
                    reason: "the tensor is the output of an operation; detach it".to_owned(),
                });
            }
            _ => {}
        }
        Ok(self)
    }

    /// Whether no operation with a derivative has made this tensor, as `torch.Tensor.is_leaf`.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "assert!(x.is_leaf() && !x.exp()?.is_leaf());"
    )]
    pub fn is_leaf(&self) -> bool {
        self.input().node().is_none()
    }

    /// Whether two tensors have the same shape and, as values of one type, the same elements; NaN is
    /// equal to nothing. As `torch.equal`; waits for the device.
    ///
    /// # Errors
    /// [`AutogradError::Device`], and what the device reports.
    #[doc = example!(x: "assert!(x.equal(&x.mul(1.0)?)? && !x.equal(&x.neg()?)?);")]
    pub fn equal(&self, other: &Tensor) -> Result<bool> {
        self.same_device("equal", [("the right operand", Some(other))])?;
        if self.shape() != other.shape() {
            return Ok(false);
        }
        let all = self.eq(other)?.flatten(0, -1)?.all(&[0], false)?;
        Ok(all.item::<Bool>()?.into())
    }
}

/// Defines methods in place from those that return a new tensor; the last word says whose derivative
/// reads the values from before, of which a copy is then saved: nobody's, the other operand's, or this
/// tensor's.
macro_rules! in_place {
    ($($(#[$documentation:meta])* $name:ident $of:ident ($($argument:ident: $type:ty),*) $read:ident)+) => {
        impl Tensor {
            $(
                $(#[$documentation])*
                ///
                /// # Errors
                /// As [`Tensor::add_`].
                pub fn $name(&mut self $(, $argument: $type)*) -> Result<&mut Self> {
                    const OP: &str = stringify!($name);
                    in_place!(@ $read self OP $of $($argument)*)
                }
            )+
        }
    };
    (@ nobody $self:ident $op:ident $of:ident $($argument:ident)*) => {{
        let value = $self.$of($($argument),*)?;
        $self.assign($op, &value)
    }};
    (@ other $self:ident $op:ident $of:ident $other:ident) => {{
        let other = $other.beside($self)?;
        let value = $self.original($op, other.requires_grad())?.$of(&other)?;
        $self.assign($op, &value)
    }};
    (@ this $self:ident $op:ident $of:ident) => {{
        let value = $self.original($op, $self.requires_grad())?.$of()?;
        $self.assign($op, &value)
    }};
    (@ this $self:ident $op:ident $of:ident $other:ident) => {{
        let other = $other.beside($self)?;
        let is_read = $self.requires_grad() || other.requires_grad();
        let value = $self.original($op, is_read)?.$of(&other)?;
        $self.assign($op, &value)
    }};
}

in_place! {
    /// Subtracts the other operand, as `torch.Tensor.sub_`.
    sub_ sub (other: impl Operand) nobody
    /// Multiplies by the other operand, as `torch.Tensor.mul_`.
    mul_ mul (other: impl Operand) other
    /// Divides by the other operand, as `torch.Tensor.div_`.
    div_ div (other: impl Operand) other
    /// Raises to the power of the other operand, as `torch.Tensor.pow_`.
    pow_ pow (other: impl Operand) this
    /// Takes the remainder by the other operand, as `torch.Tensor.remainder_`.
    remainder_ remainder (other: impl Operand) other
    /// Changes the sign, as `torch.Tensor.neg_`.
    neg_ neg () nobody
    /// Takes the magnitude, as `torch.Tensor.abs_`.
    abs_ abs () this
    /// Takes the square, as `torch.Tensor.square_`.
    square_ square () this
    /// Takes the square root, as `torch.Tensor.sqrt_`.
    sqrt_ sqrt () nobody
    /// Takes 1 / sqrt(x), as `torch.Tensor.rsqrt_`.
    rsqrt_ rsqrt () nobody
    /// Takes 1 / x, as `torch.Tensor.reciprocal_`.
    reciprocal_ reciprocal () nobody
    /// Takes e^x, as `torch.Tensor.exp_`.
    exp_ exp () nobody
    /// Takes the natural logarithm, as `torch.Tensor.log_`.
    log_ log () this
    /// Takes the largest whole number up to x, as `torch.Tensor.floor_`.
    floor_ floor () nobody
    /// Takes the least whole number from x on, as `torch.Tensor.ceil_`.
    ceil_ ceil () nobody
    /// Takes the nearest whole number, as `torch.Tensor.round_`.
    round_ round () nobody
    /// Keeps the elements up to a diagonal, as `torch.Tensor.tril_`.
    tril_ tril (diagonal: isize) nobody
    /// Keeps the elements from a diagonal on, as `torch.Tensor.triu_`.
    triu_ triu (diagonal: isize) nobody
}
