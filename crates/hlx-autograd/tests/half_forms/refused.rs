//! Methods that have no 16-bit form, and calls that show it.

use hlx_autograd::{
    Activation, AttentionSpec, DropoutMask, ExpertChoices, Recurrence, Result, Tensor,
};

use crate::row::{Row, ids, ones, rows};

/// Kernels of training, for f32 alone: each refuses an operand of 16 bits.
#[rustfmt::skip] // One line per row.
pub fn refused() -> Vec<Row> {
    rows! { x:
        [[3, 4]] (x[0]).activation(Activation::GELU);
        [[1, 3, 2, 4], [1, 3, 2, 4], [1, 3, 2, 4]] (x[0]).attention(&x[1], &x[2], &AttentionSpec::causal());
        [[1, 3, 12]] (x[0]).packed_attention(2, &AttentionSpec::causal());
        [[3, 4]] (x[0]).cross_entropy_scaled(&ids(&x[0], &[1, 0, 3], &[3]), &ones(&x[0], &[1]), 0.1);
        [[3, 4]] (x[0]).cross_entropy_with_rows(&ids(&x[0], &[1, 0, 3], &[3]), &ones(&x[0], &[1]), 0.1);
        [[3, 4]] (x[0]).dropout(&dropped(&x[0])?);
        [[3, 4], [5, 4], [4, 5]] (x[0]).feed_forward((&x[1], None), Activation::GELU, (&x[2], None), Some(&x[0]));
        [[3, 4], [5, 4], [4, 5]] (x[0]).gated_feed_forward(None, [(&x[1], None), (&x[1], None), (&x[2], None)], Activation::SiLU, None);
        [[3, 4], [5, 4]] (x[0]).linears(None, &[(&x[1], None)]);
        [[3, 4], [5, 4], [3, 5]] (x[0]).linear_add(&x[1], None, &x[2]);
        [[2, 3, 6], [6, 2], [6]] (x[0]).gru_scan(recurrence(&x[1], &x[2]), None);
        [[2, 3, 8], [8, 2], [8]] (x[0]).lstm_scan(recurrence(&x[1], &x[2]), None);
        [[3, 4], [4], [4]] (x[0]).with_magnitudes(&x[1], &x[2]);
        [[3, 4], [3, 4]] (x[0]).mse_scaled(&x[1], &ones(&x[0], &[1]));
        [[2, 2, 4], [2]] (x[0]).rope(&ids(&x[0], &[0, 5], &[2]), &x[1], 1.0);
        [[3, 4]] (x[0]).to_experts(&choices(&x[0])?);
        [[3, 4], [5, 4]] (x[0]).experts_linear(&[x[1].clone(), x[1].clone()], &choices(&x[0])?);
        [[3, 4], [3, 1]] (x[0]).from_experts(&x[1], &choices(&x[0])?);
    }
}

fn recurrence<'a>(weight: &'a Tensor, bias: &'a Tensor) -> Recurrence<'a> {
    Recurrence {
        weight,
        bias: Some(bias),
        projection: None,
        reverse: false,
    }
}

fn choices(x: &Tensor) -> Result<ExpertChoices> {
    ExpertChoices::new(&ids(x, &[0, 1, 0], &[3, 1]), 2)
}

fn dropped(x: &Tensor) -> Result<DropoutMask> {
    Ok(DropoutMask {
        p: 0.5,
        seed: 7,
        purpose: 0,
        counter: x.device().buffer_of::<u32>(&[0, 0])?,
    })
}

/// Methods of integers alone: floats of every width are refused.
pub const OF_INTEGERS: [&str; 6] = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "bitwise_not",
];

/// Methods that compute no value from elements, with the reason.
pub const NO_OPERATIONS: [(&str, &[&str]); 6] = [
    (
        "make a tensor of given values or types",
        &[
            "from_slice",
            "from_blocks",
            "from_buffer",
            "parameter",
            "zeros",
            "ones",
            "full",
        ],
    ),
    (
        "make f32 or i32 values of no tensor",
        &[
            "arange",
            "linspace",
            "eye",
            "eye_of",
            "rand",
            "randn",
            "randint",
            "bernoulli",
        ],
    ),
    (
        "say what a tensor is, or read its words",
        &[
            "device",
            "is_of_blocks",
            "takes_experts_in_blocks",
            "values_apart",
            "layout",
            "samples",
            "shape",
            "rank",
            "n_elements",
            "dtype",
            "requires_grad",
            "is_leaf",
            "grad",
            "grad_fn",
            "has_grad",
            "input",
            "buffer",
            "operand",
            "printed",
            "to_vec",
            "item",
            "equal",
        ],
    ),
    (
        "hand the words on as they are",
        &[
            "detach",
            "with_samples",
            "with_samples_of",
            "with_gradient",
            "another_use",
            "viewed_again",
            "set_grad",
            "to",
            "view_dtype",
        ],
    ),
    (
        "differentiate, which every row does",
        &[
            "backward",
            "backward_with",
            "backward_from",
            "backward_recorded",
            "backward_of",
            "backward_of_with",
            "gradients",
            "gradients_of",
            "zero_grad",
            "register_hook",
            "requires_grad_",
        ],
    ),
    (
        "carry out what they are given",
        &[
            "from_operation",
            "from_tensors",
            "checkpoint",
            "checkpoint_with",
            "in_place",
            "in_place_of_base",
        ],
    ),
];
