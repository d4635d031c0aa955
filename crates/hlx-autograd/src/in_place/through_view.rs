//! Changes in place of a view that the tape follows: the tensor that it views takes the change into its history, and
//! other views get theirs from it anew, as in PyTorch.
//!
//! A view here is any tensor over the memory of a *base* whose elements are in row-major order. Where the view's
//! elements are in the base is said by a tensor of their places, so that the derivatives are operations.

use hlx_kernels::Layout;
use hlx_kernels::elementwise::assign_strided;

use crate::graph::tape::{Rule, gradients_enabled};
use crate::samples::Samples;
use crate::{AutogradError, Input, Result, Tensor};

impl Tensor {
    /// Writes the result of an operation on `view` into its memory, as [`Tensor::in_place`], where it is a view of
    /// `base`: gradients flow from both through what was written.
    ///
    /// # Errors
    /// As [`Tensor::in_place`], and [`AutogradError::Argument`] if the tensor is no view of `base`.
    #[doc = example!(
        x: "let mut base = x.with_gradient().mul(1.0)?;",
        "let mut row = base.select(0, 0)?;",
        "Tensor::in_place_of_base(&mut base, &mut row, \"mul_\", |row| row.mul(5.0))?;",
        "assert_eq!(base.to_vec::<f32>()?, [5.0, 10.0, 15.0, 4.0, 5.0, 6.0]);",
        "assert!(base.sum()?.backward().is_ok());"
    )]
    pub fn in_place_of_base(
        base: &mut Tensor,
        view: &mut Tensor,
        op: &'static str,
        operation: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<()> {
        let value = operation(&view.original(op, view.requires_grad())?)?;
        let tracked = gradients_enabled() && (base.requires_grad() || value.requires_grad());
        if !tracked {
            view.assign(op, &value)?;
            return Ok(());
        }
        view.check_kind(op, value.dtype())?;
        if value.shape() != view.shape() {
            let expected = format!("{:?}, as a tensor in place keeps its shape", view.shape());
            return Err(value.shape_error(op, "the result", expected));
        }
        base.check_leaf(op, &value)?;
        let places = base.places_in_base(op, view)?;
        let value = value.to_dtype(view.dtype())?;
        let changed = base.with_part(op, &places, &value)?;
        if view.n_elements() > 0 {
            let apart = Tensor::from_buffer(view.device(), value.copied()?, view.shape())?;
            assign_strided(view.device(), apart.operand(), view.operand())?;
        }
        base.changed(Some((changed, base.samples())));
        *view = base.viewed_again(view)?;
        Ok(())
    }

    /// Another handle of a view of this tensor, whose history is this tensor's: after a change in place of this
    /// tensor or of another view that the tape followed.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if `view` is no view of this tensor.
    #[doc = example!(
        x: "let base = x.with_gradient().mul(1.0)?;",
        "let row = base.detach().select(0, 0)?;",
        "assert!(base.viewed_again(&row)?.requires_grad());"
    )]
    pub fn viewed_again(&self, view: &Tensor) -> Result<Tensor> {
        const OP: &str = "view";
        let places = self.places_in_base(OP, view)?;
        let (x, shape) = (self.input(), self.shape().to_vec());
        let rule = move |pass: &mut crate::Backward<'_>, dy: &Tensor| {
            let flat = dy.reshape::<isize>(&[-1])?;
            let none = Tensor::zeros(dy.device(), &[shape.iter().product()], dy.dtype())?;
            pass.add_tensor(&x, &none.index_add(0, &places, &flat)?.reshape(&shape)?)
        };
        let output = (view.shape(), view.n_elements());
        let place = Tensor::place(OP, &[self], output, || Rule::of(rule))?;
        Ok(view.changed_by(place, Samples::None))
    }

    /// The places of a view's elements among this tensor's, in row-major order, as u32.
    fn places_in_base(&self, op: &'static str, view: &Tensor) -> Result<Tensor> {
        let (own, other) = (self.operand(), view.operand());
        let shares = own.buffer.overlaps(other.buffer)
            && own.layout.is_contiguous()
            && self.dtype() == view.dtype()
            && other.layout.span().0 >= own.layout.offset()
            && other.layout.span().1 <= own.layout.offset() + self.n_elements();
        if !shares {
            let reason = format!("{} is no view of {}", view.described(), self.described());
            return Err(AutogradError::Argument { op, reason });
        }
        let numbers: Vec<u32> = (0..self.n_elements() as u32).collect();
        let numbers = Tensor::from_slice(self.device(), &numbers, &[self.n_elements()])?;
        let within = other
            .layout
            .starting_at(other.layout.offset() - own.layout.offset());
        numbers.with_places(within).reshape::<isize>(&[-1])
    }

    /// The same memory at the places of a layout.
    fn with_places(&self, layout: Layout) -> Tensor {
        self.with_layout(layout, Samples::None, Input::constant(0))
    }

    /// The place on the tape of this tensor with `value` at `places`.
    fn with_part(&self, op: &'static str, places: &Tensor, value: &Tensor) -> Result<Input> {
        let (x, part) = (self.input(), value.input());
        let (places, shape) = (places.clone(), value.shape().to_vec());
        let rule = move |pass: &mut crate::Backward<'_>, dy: &Tensor| {
            let flat = dy.reshape::<isize>(&[-1])?;
            if part.requires_grad() {
                pass.add_tensor(&part, &flat.index_select(0, &places)?.reshape(&shape)?)?;
            }
            if x.requires_grad() {
                let none = Tensor::zeros(dy.device(), &[places.n_elements()], dy.dtype())?;
                let rest = flat.scatter(0, &places, &none)?;
                pass.add_tensor(&x, &rest.reshape(dy.shape())?)?;
            }
            Ok(())
        };
        let output = (self.shape(), self.n_elements());
        Tensor::place(op, &[self, value], output, || Rule::of(rule))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};
    use crate::{Result, Tensor};

    /// x with row 1 doubled in place through a view, read through another view of the same memory.
    fn doubled(x: &Tensor) -> Result<Tensor> {
        let mut base = x.mul(1.0)?;
        let column = base.select(1, 2)?;
        let mut row = base.select(0, 1)?;
        Tensor::in_place_of_base(&mut base, &mut row, "mul_", |row| row.mul(2.0))?;
        let column = base.viewed_again(&column)?;
        base.square()?
            .sum()?
            .add(row.sum()?)?
            .add(column.square()?.sum()?)
    }

    #[test]
    fn gradients_flow_through_a_changed_view() -> Result<()> {
        let x = input(1, &[3, 4]);
        check("in_place_of_base", std::slice::from_ref(&x), |x| {
            doubled(&x[0])
        });
        let twice = doubled(&x.with_gradient())?;
        let again = x.mul(Tensor::from_slice(x.device(), &[1.0, 2.0, 1.0], &[3, 1])?)?;
        let rows = again.square()?.sum()?.add(again.select(0, 1)?.sum()?)?;
        let expected = rows.add(again.select(1, 2)?.square()?.sum()?)?;
        assert!((twice.item::<f32>()? - expected.item::<f32>()?).abs() < 1e-5);
        Ok(())
    }

    #[test]
    fn what_is_no_view_is_refused() {
        let (mut base, mut other) = (
            input(1, &[4]).with_gradient().neg().expect("runs"),
            input(2, &[2]),
        );
        let changed = Tensor::in_place_of_base(&mut base, &mut other, "neg_", Tensor::neg);
        let text = message(changed.map(|()| other));
        assert_eq!(text, "neg_: [2] of constant is no view of [4] of neg");
    }
}
