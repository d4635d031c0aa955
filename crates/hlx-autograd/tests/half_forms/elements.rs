//! Rows of operations an element at a time, and of those in place.

use hlx_autograd::{Activation, Binary, DType, Index, Rounding, Unary};

use crate::row::{Outcome, Row, functions, ids, in_place, mask, rows};

/// The operations of two operands: of two shapes, without dimensions, and beside a number.
fn binary() -> Vec<Row> {
    let defined = Binary::ALL
        .iter()
        .filter(|kind| kind.is_defined(DType::F32));
    let of = |&kind: &Binary| {
        [
            Row::new(kind.name(), &["&x[1]"], &[&[2, 1, 3], &[4, 1]], move |x| {
                Ok(x[0].binary(kind, &x[1])?.tensors())
            }),
            Row::new(kind.name(), &["&x[1]"], &[&[], &[5]], move |x| {
                Ok(x[0].binary(kind, &x[1])?.tensors())
            }),
            Row::new(kind.name(), &["0.7"], &[&[7]], move |x| {
                Ok(x[0].binary(kind, 0.7)?.tensors())
            }),
        ]
    };
    defined.flat_map(of).collect()
}

/// The operations of one operand. Activations have a kernel of their own for f32, and rows by name.
fn unary() -> Vec<Row> {
    let defined = Unary::ALL.iter().filter(|kind| kind.is_defined(DType::F32));
    let is_activation = |name| Activation::ALL.iter().any(|kind| kind.name() == name);
    let of = |&kind: &Unary| {
        let name = match is_activation(kind.name()) {
            true => "unary",
            false => kind.name(),
        };
        Row::new(name, &[], &[&[3, 5]], move |x| {
            Ok(x[0].unary(kind, [0.3, 0.6])?.tensors())
        })
    };
    defined.map(of).collect()
}

#[rustfmt::skip] // One line per row.
pub fn elements() -> Vec<Row> {
    let named = rows! { x:
        [[33]] (x[0]).gelu();
        [[33]] (x[0]).gelu_tanh();
        [[33]] (x[0]).relu();
        [[33]] (x[0]).silu();
        [[33]] (x[0]).sigmoid();
        [[33]] (x[0]).tanh();
        [[33]] (x[0]).softplus();
        [[33]] (x[0]).leaky_relu(0.01);
        [[33]] (x[0]).leaky_relu(0.3);
        [[33]] (x[0]).elu(1.0);
        [[33]] (x[0]).elu(0.7);
        [[33]] (x[0]).clamp(-0.3, 0.9);
        [[33]] (x[0]).clamp(-0.7, 0.1);
        [[33]] (x[0]).clamp_min(0.3);
        [[3, 4], [4]] (x[0]).clamp_min(&x[1]);
        [[33]] (x[0]).clamp_max(0.3);
        [[3, 4], [4]] (x[0]).clamp_max(&x[1]);
        [[33]] (x[0]).softplus_with(1.0, 20.0);
        [[33]] (x[0]).softplus_with(1.7, 0.9);
        [[3, 4], [4]] (x[0]).add_scaled(&x[1], 1.7);
        [[3, 4], [4]] (x[0]).add_scaled(&x[1], -0.3);
        [[3, 4]] (x[0]).add_scaled(0.9, 1.7);
        [[3, 4], [4]] (x[0]).div_rounded(&x[1], Rounding::Floor);
        [[3, 4], [4]] (x[0]).div_rounded(&x[1], Rounding::Trunc);
        [[3, 4]] (x[0]).div_rounded(0.3, Rounding::Trunc);
        [[33]] (x[0]).mul(0.3);
        [[33]] (x[0]).mul(-1.7);
        [[3, 4], [4]] (x[0]).where_(&mask(&x[0], &[3, 1]), &x[1]);
        [[3, 4]] (x[0]).where_(&mask(&x[0], &[4]), 0.7);
        [[3, 4]] (x[0]).masked_fill(&mask(&x[0], &[4]), 0.7);
        [[3, 4]] (x[0]).masked_fill(&mask(&x[0], &[3, 1]), -0.3);
        [[33]] (x[0]).to_dtype(DType::F32);
        [[33]] (x[0]).to_dtype(DType::F16);
        [[33]] (x[0]).to_dtype(DType::BF16);
        [[33]] (x[0]).to_dtype(DType::I32);
        [[33]] (x[0]).to_dtype(DType::U32);
        [[33]] (x[0]).to_dtype(DType::I8);
        [[33]] (x[0]).to_dtype(DType::U8);
        [[33]] (x[0]).to_dtype(DType::Bool);
        [[3, 4]] (x[0]).zeros_like();
        [[3, 4]] (x[0]).ones_like();
    };
    let functions = functions! { x:
        [[2, 3], [2, 1]] cat(&[&x[0], &x[1]], 1);
        [[2, 3], [1, 3]] cat(&[&x[0], &x[1]], 0);
        [[2, 3], [2, 3]] stack(&[&x[0], &x[1]], 1);
        [[2, 3], [2, 3]] stack(&[&x[0], &x[1]], -1);
        [[2, 3], [3, 4]] einsum("ij,jk->ik", &[&x[0], &x[1]]);
        [[2, 3], [3, 4], [4, 2]] einsum("ij,jk,kl->il", &[&x[0], &x[1], &x[2]]);
        [[2, 3], [5, 4]] einsum("ij,kl->il", &[&x[0], &x[1]]);
        [[3, 3]] einsum("ii->i", &[&x[0]]);
    };
    [named, functions, unary(), binary()].into_iter().flatten().collect()
}

#[rustfmt::skip] // One line per row.
pub fn written() -> Vec<Row> {
    in_place! { x:
        [[3, 4], [4]] add_(&x[1]);
        [[3, 4]] add_(0.7);
        [[3, 4], [4]] sub_(&x[1]);
        [[3, 4]] sub_(0.7);
        [[3, 4], [4]] mul_(&x[1]);
        [[3, 4]] mul_(0.7);
        [[3, 4], [4]] div_(&x[1]);
        [[3, 4]] div_(0.7);
        [[3, 4], [4]] pow_(&x[1]);
        [[3, 4]] pow_(3.0);
        [[3, 4], [4]] remainder_(&x[1]);
        [[3, 4]] remainder_(0.7);
        [[3, 4]] neg_();
        [[3, 4]] abs_();
        [[3, 4]] square_();
        [[3, 4]] sqrt_();
        [[3, 4]] rsqrt_();
        [[3, 4]] reciprocal_();
        [[3, 4]] exp_();
        [[3, 4]] log_();
        [[3, 4]] tanh_();
        [[3, 4]] sigmoid_();
        [[3, 4]] relu_();
        [[3, 4]] floor_();
        [[3, 4]] ceil_();
        [[3, 4]] round_();
        [[3, 4]] tril_(0);
        [[3, 4]] tril_(-1);
        [[3, 4]] triu_(0);
        [[3, 4]] triu_(2);
        [[3, 4]] clamp_(-0.3, 0.9);
        [[3, 4]] clamp_(-0.7, 0.1);
        [[3, 4]] zero_();
        [[3, 4]] fill_(0.7);
        [[3, 4]] fill_(-0.3);
        [[3, 4], [4]] copy_(&x[1]);
        [[3, 4]] masked_fill_(&mask(&x[0], &[4]), 0.7);
        [[3, 4]] masked_fill_(&mask(&x[0], &[4]), -0.3);
        [[3, 4], [2, 4]] scatter_(0, &ids(&x[0], &[2, 0, 1, 1, 2, 2, 0, 1], &[2, 4]), &x[1]);
        [[3, 4], [3, 2]] scatter_(1, &ids(&x[0], &[3, 0, 1, 1, 2, 2], &[3, 2]), &x[1]);
        [[3, 4], [2, 4]] scatter_add_(0, &ids(&x[0], &[2, 0, 1, 1, 2, 2, 1, 1], &[2, 4]), &x[1]);
        [[3, 4], [3, 2]] scatter_add_(1, &ids(&x[0], &[3, 0, 1, 1, 2, 2], &[3, 2]), &x[1]);
        [[3, 4], [3, 4]] index_add_(0, &ids(&x[0], &[2, 2, 2], &[3]), &x[1]);
        [[3, 4], [3, 2]] index_add_(1, &ids(&x[0], &[3, 3], &[2]), &x[1]);
        [[3, 4], [4]] index_put_(&[Index::Tensor(ids(&x[0], &[2, 2, 0], &[3]))], &x[1], false);
        [[3, 4], [3, 1]] index_put_(&[Index::Tensor(ids(&x[0], &[2, 2, 0], &[3]))], &x[1], true);
        [[3, 4], [2, 3]] index_put_(&[Index::At(1), Index::Range { start: None, end: Some(3), step: 1 }], &x[1].select(0, 0)?, true);
        [[3, 4], [1, 3, 4]] index_put_(&[Index::New, Index::Ellipsis], &x[1], false);
    }
}
