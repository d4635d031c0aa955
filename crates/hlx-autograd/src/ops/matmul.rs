//! Matrix products with broadcast batches, and sums of products by their indices.

use hlx_core::{Buffer, Device};
use hlx_kernels::broadcast_shape;
use hlx_kernels::product::{
    End, Incoming, MatMul, Matrices, Operand, Role, matmul_integers, multiply,
};

use super::weight_gradient::WeightGradient;
use crate::samples::Samples;
use crate::{Backward, DType, Gradient, Input, Result, Tensor};

/// The roles of the operands of a forward pass's product.
const FORWARD: [Role; 2] = [Role::Signal, Role::Weight];
/// Those of a recurrent layer's step.
pub(super) const STEP: [Role; 2] = [Role::TimeStep; 2];

/// The roles in the products that are the derivatives of one with such roles, by the left operand and by the right one.
fn roles_of_gradients(roles: [Role; 2]) -> [[Role; 2]; 2] {
    match roles {
        STEP => [STEP; 2],
        _ => [[Role::Gradient, Role::Saved], [Role::Saved, Role::Gradient]],
    }
}

impl Tensor {
    /// Computes the matrix product A B, as `torch.matmul`: A is \[.., M, K\], B is \[.., K, N\], and
    /// the dimensions before them broadcast. A vector at the left is a row, at the right a column, and
    /// its dimension is dropped from the result. Each element is one chain of fused multiply-adds over
    /// K in order; in the integer arithmetic a sum over quantised operands, of which A has two digits, and backward the gradient
    /// of the product.
    ///
    /// Operands of f16 or bf16 are multiplied in f32. Products of integers wrap in their type.
    ///
    /// Where B is one matrix for all rows of A, its gradient is summed by the shard rule, over the
    /// rows in order; in the integer arithmetic over at most 131,072 rows of a shard.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), and
    /// [`AutogradError::DType`](crate::AutogradError::DType) for operands of different types or `bool`.
    #[doc = example!(
        x: "let product = x.matmul(&x.transpose(0, 1)?)?;",
        "assert_eq!(product.to_vec::<f32>()?, [14.0, 32.0, 32.0, 77.0]);"
    )]
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        self.matmul_of(other, FORWARD)
    }

    /// Computes [`Tensor::matmul`] of operands that have these roles in the step.
    pub(super) fn matmul_of(&self, other: &Tensor, roles: [Role; 2]) -> Result<Tensor> {
        const OP: &str = "matmul";
        self.same_device(OP, [("the right operand", Some(other))])?;
        if self.is_half() && other.dtype() == self.dtype() {
            return self.in_f32(|x| x.matmul_of(&other.to_dtype(DType::F32)?, roles));
        }
        if matches!(self.dtype(), DType::I8 | DType::U8) && other.dtype() == self.dtype() {
            // 8-bit types wrap as their 32-bit sums' low bits do.
            let [a, b] = [self, other].map(|x| x.to_dtype(DType::I32));
            return a?.matmul(&b?)?.to_dtype(self.dtype());
        }
        let is_whole = matches!(self.dtype(), DType::I32 | DType::U32);
        let dtype = if is_whole { self.dtype() } else { DType::F32 };
        self.expect_type(OP, "the left operand", dtype)?;
        other.expect_type(OP, "the right operand", dtype)?;
        match (self.rank(), other.rank()) {
            (0, _) => Err(self.shape_error(OP, "the left operand", "[.., M, K]")),
            (_, 0) => Err(other.shape_error(OP, "the right operand", "[.., K, N]")),
            (1, 1) => self.unsqueeze(0)?.matmul_of(other, roles)?.squeeze(0),
            (1, _) => self.unsqueeze(0)?.matmul_of(other, roles)?.squeeze(-2),
            (_, 1) => self.matmul_of(&other.unsqueeze(1)?, roles)?.squeeze(-1),
            (2, 2) if is_whole => self.matmul_batched(other, roles),
            (_, 2) if is_whole => {
                // All rows in one product.
                let product = self.flatten(0, -2)?.matmul(other)?;
                let rows = &self.shape()[..self.rank() - 1];
                product.reshape(&[rows, &product.shape()[1..]].concat())
            }
            (_, 2) => self.matmul_shared(other, roles),
            _ => self.matmul_batched(other, roles),
        }
    }

    /// Computes the products of each element of a vector with each of another, \[M, N\], as
    /// `torch.outer`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) unless both have one dimension.
    #[doc = example!(
        x: "let row = x.select(0, 0)?;",
        "assert_eq!(row.outer(&row)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 2.0, 4.0, 6.0, 3.0, 6.0, 9.0]);"
    )]
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        self.same_device("outer", [("the right operand", Some(other))])?;
        for (argument, vector) in [("the left operand", self), ("the right operand", other)] {
            if vector.rank() != 1 {
                return Err(vector.shape_error("outer", argument, "one dimension"));
            }
        }
        self.unsqueeze(1)?.mul(other)
    }

    /// One right matrix: all rows of A in one product.
    fn matmul_shared(&self, other: &Tensor, roles: [Role; 2]) -> Result<Tensor> {
        const OP: &str = "matmul";
        let (rows, k) = self.rows_and_columns(OP)?;
        let n = match other.shape() {
            &[inner, n] if inner == k => n,
            _ => return Err(other.shape_error(OP, "the right operand", format!("[{k}, N]"))),
        };
        let device = self.device();
        let c = device.alloc_shape(&[rows, n])?;
        if !c.is_empty() {
            let b = other.matrix()?;
            let a = match self.rank() {
                2 => self.matrix()?,
                _ => (self.buffer()?, false),
            };
            product(device, [a, b], roles, [1, rows, n, k], &c)?;
        }
        let mut shape = self.shape().to_vec();
        shape[self.rank() - 1] = n;
        let samples = self
            .samples()
            .moved(|axis| (axis + 1 != shape.len()).then_some(axis));
        let batch = self.batch();
        let [a, b] = saved(self, other);
        let product = Tensor::of_rule(OP, &[self, other], (c, &shape), move |pass, dc, _| {
            if pass.is_recorded() {
                return recorded_backward(pass, dc, [&a, &b], rows, roles_of_gradients(roles));
            }
            let dc = dc.buffer()?;
            let reads_rows = a.place.requires_grad() && b.values.is_some();
            let [[of_dc, of_b], _] = roles_of_gradients(roles);
            let incoming = Incoming::new(of_dc, &dc, reads_rows);
            if let (true, Some(a)) = (b.place.requires_grad(), &a.values) {
                let a = a.buffer()?;
                let gradient = WeightGradient {
                    dy: &incoming,
                    x: (&a).into(),
                    widths: [n, k],
                    rows,
                    transposed: true,
                };
                gradient.add_to(pass, &b.place, batch)?;
            }
            let Some(b) = b.values.as_ref().filter(|_| a.place.requires_grad()) else {
                return Ok(());
            };
            let da = left_gradient(pass.device(), &incoming, b, of_b, [rows, n, k])?;
            pass.add(&a.place, Gradient::owned(da))
        })?;
        Ok(product.with_samples_of(samples))
    }

    /// A right matrix for each left one; the dimensions before them broadcast.
    fn matmul_batched(&self, other: &Tensor, roles: [Role; 2]) -> Result<Tensor> {
        const OP: &str = "matmul";
        let (&[ref left @ .., m, k], &[ref right @ .., inner, n]) = (self.shape(), other.shape())
        else {
            return Err(self.shape_error(OP, "the left operand", "[.., M, K]"));
        };
        let leading = broadcast_shape(&[left, right]).filter(|_| k == inner);
        let Some(leading) = leading else {
            let expected = format!("[{k}, N], and before it what broadcasts with {left:?}");
            return Err(other.shape_error(OP, "the right operand", expected));
        };
        let rank = leading.len() + 2;
        let samples = [self, other].map(|x| x.samples().broadcast(x.rank(), rank));
        let samples = Samples::join(samples.map(|s| s.moved(|at| (at + 2 < rank).then_some(at))));
        let with = |tail: [usize; 2]| [&leading[..], &tail].concat();
        let a = self.expand_with(OP, &with([m, k]), samples)?;
        let b = other.expand_with(OP, &with([k, n]), samples)?;
        let shape = with([m, n]);
        let c = batched(&a, &b, roles)?;
        let operands = [a, b];
        let inputs = [&operands[0], &operands[1]];
        let [a, b] = saved(inputs[0], inputs[1]);
        let [of_left, of_right] = roles_of_gradients(roles);
        let product = Tensor::of_rule(OP, &inputs, (c, &shape), move |pass, dc, _| {
            if let Some(values) = b.values.as_ref().filter(|_| a.place.requires_grad()) {
                let da = dc.matmul_of(&values.transpose(-2, -1)?, of_left)?;
                pass.add_tensor(&a.place, &da)?;
            }
            if let Some(values) = a.values.as_ref().filter(|_| b.place.requires_grad()) {
                let db = values.transpose(-2, -1)?.matmul_of(dc, of_right)?;
                pass.add_tensor(&b.place, &db)?;
            }
            Ok(())
        })?;
        Ok(product.with_samples_of(samples))
    }

    /// A matrix's memory, or its transpose's: as it lies, if one of both is contiguous.
    fn matrix(&self) -> Result<(Buffer, bool)> {
        if !self.layout().is_contiguous() {
            let transposed = self.detach().transpose(-2, -1)?;
            if transposed.layout().is_contiguous() {
                return Ok((transposed.buffer()?, true));
            }
        }
        Ok((self.buffer()?, false))
    }

    /// Computes a sum of products by the letters of its indices, as `torch.einsum`:
    /// `einsum("bij,bjk->bik", &[&a, &b])`. Operands are multiplied from left to right; an index that
    /// no later operand and not the result has is summed as soon as it can be: in the product, or by
    /// the order of [`Tensor::sum_dim`] if only one operand has it. `...` stands for broadcast leading
    /// dimensions. Products of integers have the types of [`Tensor::matmul`], sums of them those of
    /// [`Tensor::sum`].
    ///
    /// # Errors
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) for an expression that does not fit the operands.
    #[doc = example!(
        x: "let rows = Tensor::einsum(\"ij,ij->i\", &[&x, &x])?;",
        "assert_eq!(rows.to_vec::<f32>()?, [14.0, 77.0]);"
    )]
    pub fn einsum(expression: &str, operands: &[&Tensor]) -> Result<Tensor> {
        super::einsum::einsum(expression, operands)
    }
}

/// An operand of a product as the backward pass needs it.
struct SavedOperand {
    place: Input,
    /// The values of which the other one's gradient is made; `None` if nobody reads it.
    values: Option<Tensor>,
}

fn saved(a: &Tensor, b: &Tensor) -> [SavedOperand; 2] {
    let of = |one: &Tensor, other: &Tensor| SavedOperand {
        place: one.input(),
        values: other.requires_grad().then(|| one.clone()),
    };
    [of(a, b), of(b, a)]
}

/// One product per pair of matrices, of which both operands have equally many.
fn batched(a: &Tensor, b: &Tensor, roles: [Role; 2]) -> Result<Buffer> {
    let device = a.device();
    let (&[ref leading @ .., m, k], Some(&n)) = (a.shape(), b.shape().last()) else {
        return a.buffer();
    };
    let batch: usize = leading.iter().product();
    let c = device.alloc_shape_typed(a.dtype(), &[batch, m, n])?;
    if c.is_empty() {
        return Ok(c);
    }
    let is_float = a.dtype().is_float();
    let (a, b) = (a.matrix()?, b.matrix()?);
    if is_float {
        product(device, [a, b], roles, [batch, m, n, k], &c)?;
        return Ok(c);
    }
    let product = MatMul {
        batch,
        trans_a: a.1,
        trans_b: b.1,
        ..MatMul::new(m, n, k)
    };
    matmul_integers(device, &a.0, &b.0, &c, &product)?;
    Ok(c)
}

/// Computes C = A B of `batch` matrices of \[M, K\] and \[K, N\]. An operand comes with whether its matrices are stored as
/// their transposes.
fn product(
    device: &Device,
    [(a, trans_a), (b, trans_b)]: [(Buffer, bool); 2],
    roles: [Role; 2],
    [batch, m, n, k]: [usize; 4],
    c: &Buffer,
) -> Result<()> {
    let of = |vectors: usize, are_columns: bool| match are_columns {
        true => Matrices::columns(batch, k, vectors),
        false => Matrices::rows(batch, vectors, k),
    };
    let a = Operand::new(device, roles[0], &a, of(m, trans_a))?;
    let b = Operand::new(device, roles[1], &b, of(n, !trans_b))?;
    Ok(multiply(device, [&a, &b], End::NONE, c)?)
}

/// The gradients of C = A B with one matrix B, made of operations.
fn recorded_backward(
    pass: &mut Backward<'_>,
    dc: &Tensor,
    [a, b]: [&SavedOperand; 2],
    rows: usize,
    [of_left, of_right]: [[Role; 2]; 2],
) -> Result<()> {
    if let Some(values) = a.values.as_ref().filter(|_| b.place.requires_grad()) {
        let [k, n] = [values.shape()[values.rank() - 1], dc.shape()[dc.rank() - 1]];
        let left = values.reshape(&[rows, k])?.transpose(0, 1)?;
        let db = left.matmul_of(&dc.reshape(&[rows, n])?, of_right)?;
        pass.add_tensor(&b.place, &db)?;
    }
    if let Some(values) = b.values.as_ref().filter(|_| a.place.requires_grad()) {
        let da = dc.matmul_of(&values.transpose(0, 1)?, of_left)?;
        pass.add_tensor(&a.place, &da)?;
    }
    Ok(())
}

/// The gradient of the left operand, dC Bᵀ, of all rows.
fn left_gradient(
    device: &Device,
    dc: &Incoming<'_>,
    b: &Tensor,
    of_b: Role,
    [rows, n, k]: [usize; 3],
) -> Result<Buffer> {
    let da = device.alloc_shape(&[rows, k])?;
    let (b, trans_b) = b.matrix()?;
    if da.is_empty() || n == 0 {
        device.fill(&da, 0)?;
        return Ok(da);
    }
    let of = match trans_b {
        true => Matrices::columns(1, n, k),
        false => Matrices::rows(1, k, n),
    };
    let b = Operand::new(device, of_b, &b, of)?;
    let dc = dc.rows(device, rows, n)?;
    multiply(device, [&dc, &b], End::NONE, &da)?;
    Ok(da)
}

#[cfg(test)]
mod tests {
    use hlx_kernels::KernelTuning;

    use crate::ops::test_support::{check, input, message};
    use crate::{BackwardPlan, Tensor};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        for shapes in [
            [&[3, 5][..], &[5, 4]],
            [&[2, 3, 5], &[5, 4]],
            [&[2, 3, 5], &[2, 5, 4]],
            [&[2, 1, 3, 5], &[4, 5, 2]],
            [&[5], &[5, 4]],
            [&[3, 5], &[5]],
            [&[5], &[5]],
            [&[3, 5], &[2, 5, 4]],
        ] {
            let operands = [input(1, shapes[0]), input(2, shapes[1])];
            check("matmul", &operands, |x| x[0].matmul(&x[1]));
        }
    }

    #[test]
    fn a_large_weight_whose_shards_are_computed_in_turn_has_the_same_bits() -> crate::Result<()> {
        for device in hlx_core::testing::devices() {
            let mut tuning = KernelTuning::of(device).clone();
            tuning.shards_in_turn_from = 1;
            let mut gradients = Vec::new();
            for device in [device.clone(), tuning.on(device)?] {
                for shards in [2, 8] {
                    let x = Tensor::randn(&device, &[8, 16, 12], 1)?.with_samples(0)?;
                    let weight = Tensor::randn(&device, &[20, 12], 2)?.with_gradient();
                    let upstream = Tensor::randn(&device, &[8, 16, 20], 3)?;
                    let plan = BackwardPlan {
                        shards,
                        ..BackwardPlan::default()
                    };
                    let y = x.linear(&weight, None)?.mul(&upstream)?;
                    y.sum()?.backward_with(&plan)?;
                    let gradient = weight.grad().expect("a gradient").to_vec::<f32>()?;
                    gradients.push(gradient.into_iter().map(f32::to_bits).collect::<Vec<_>>());
                }
            }
            assert_eq!(gradients[..2], gradients[2..], "{}", device.info());
            assert_ne!(gradients[0], gradients[1]);
        }
        Ok(())
    }

    #[test]
    fn outer_products_and_single_elements() -> crate::Result<()> {
        let (a, b) = (input(1, &[3]), input(2, &[4]));
        assert_eq!(
            a.outer(&b)?.to_vec::<f32>()?,
            a.unsqueeze(1)?.matmul(&b.unsqueeze(0)?)?.to_vec::<f32>()?
        );
        let dot: f32 = a.matmul(&a)?.item()?;
        assert!(dot > 0.0);
        let text = message(a.outer(&a.unsqueeze(0)?));
        assert_eq!(
            text,
            "outer: the right operand has shape [1, 3], expected one dimension"
        );
        Ok(())
    }

    #[test]
    fn transposed_operands_are_taken_as_they_lie() -> crate::Result<()> {
        let (a, b) = (input(1, &[5, 3]), input(2, &[4, 5]));
        let views = a.transpose(0, 1)?.matmul(&b.transpose(0, 1)?)?;
        let copies = a
            .transpose(0, 1)?
            .contiguous()?
            .matmul(&b.transpose(0, 1)?.contiguous()?)?;
        assert_eq!(views.to_vec::<f32>()?, copies.to_vec::<f32>()?);
        check("matmul", &[a, b], |x| {
            x[0].transpose(0, 1)?.matmul(&x[1].transpose(0, 1)?)
        });
        Ok(())
    }

    #[test]
    fn a_weight_made_by_an_operation_has_its_gradient_passed_on() {
        check("matmul", &[input(1, &[3, 5]), input(2, &[5, 4])], |x| {
            x[0].matmul(&x[1].mul(&x[1])?)
        });
    }

    #[test]
    fn products_of_integers_wrap_in_their_type() -> crate::Result<()> {
        for device in hlx_core::testing::devices() {
            let whole =
                |values: Vec<i32>, shape: &[usize]| Tensor::from_slice(device, &values, shape);
            let a = whole(vec![1 << 30, 3, -2, 5, 7, 1], &[3, 2])?;
            let b = whole(vec![4, 1, 2, -1], &[2, 2])?;
            let rows = [6, (1 << 30) - 3, 2, -7, 30, 6];
            assert_eq!(a.matmul(&b)?.to_vec::<i32>()?, rows);
            let stacked = Tensor::stack(&[&a, &a], 0)?;
            let product = stacked.matmul(&b)?;
            assert_eq!(product.shape(), [2, 3, 2]);
            assert_eq!(product.to_vec::<i32>()?, [rows, rows].concat());
            let pair = Tensor::stack(&[&b, &b.transpose(0, 1)?], 0)?;
            let product = stacked.matmul(&pair)?.select(0, 0)?;
            assert_eq!(product.to_vec::<i32>()?, rows);
            let row = a.select(0, 2)?.matmul(&b)?;
            assert_eq!(row.to_vec::<i32>()?, rows[4..]);
            let bytes = [&a, &b].map(|x| x.to_dtype(crate::DType::I8));
            let [x, y] = bytes;
            let product = x?.matmul(&y?)?;
            assert_eq!(product.to_vec::<i8>()?, [6, -3, 2, -7, 30, 6]);
            let ones = Tensor::ones(device, &[4, 2], crate::DType::I32)?;
            let linear = a.linear(&ones, Some(&ones.select(1, 0)?))?;
            assert_eq!(linear.to_vec::<i32>()?[4..8], [4; 4]);
        }
        Ok(())
    }

    #[test]
    fn unequal_inner_extents_are_refused() {
        let text = message(input(1, &[3, 5]).matmul(&input(2, &[4, 5])));
        assert_eq!(
            text,
            "matmul: the right operand has shape [4, 5], expected [5, N]"
        );
    }
}
