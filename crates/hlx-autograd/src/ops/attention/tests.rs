//! Derivatives by finite differences, the packed form, and errors.

use crate::ops::DropoutMask;
use crate::ops::test_support::{check, input, message};
use crate::{AttentionSpec, Result, Tensor};

fn ids(like: &Tensor, ids: &[u32], shape: &[usize]) -> Option<Tensor> {
    Some(Tensor::from_slice::<u32>(like.device(), ids, shape).expect("the ids upload"))
}

/// One spec per option, and one with all of them, for operands of two samples of 7 positions.
fn specs(like: &Tensor) -> Vec<AttentionSpec> {
    let causal = AttentionSpec::causal;
    let counter = like.device().buffer_of::<u32>(&[3, 1]).expect("uploads");
    let dropout = Some(DropoutMask {
        p: 0.4,
        seed: 11,
        purpose: 3,
        counter,
    });
    let documents = ids(like, &[0, 0, 2, 2, 2, 2, 6, 0, 0, 0, 0, 4, 4, 4], &[2, 7]);
    let lengths = ids(like, &[6, 7], &[2]);
    vec![
        AttentionSpec::default(),
        causal(),
        AttentionSpec {
            window: Some(3),
            ..causal()
        },
        AttentionSpec {
            window: Some(3),
            ..AttentionSpec::default()
        },
        AttentionSpec {
            scale: Some(0.7),
            ..causal()
        },
        AttentionSpec {
            soft_cap: Some(0.8),
            ..causal()
        },
        AttentionSpec {
            dropout: dropout.clone(),
            ..causal()
        },
        AttentionSpec {
            documents: documents.clone(),
            ..causal()
        },
        AttentionSpec {
            lengths: lengths.clone(),
            ..causal()
        },
        AttentionSpec {
            window: Some(4),
            scale: Some(0.9),
            soft_cap: Some(1.5),
            dropout,
            documents,
            lengths,
            ..causal()
        },
    ]
}

#[test]
fn derivatives_agree_with_finite_differences() {
    let operands = [
        input(1, &[2, 7, 4, 3]),
        input(2, &[2, 7, 2, 3]),
        input(3, &[2, 7, 2, 3]),
    ];
    for spec in specs(&operands[0]) {
        check("attention", &operands, |x| {
            x[0].attention(&x[1], &x[2], &spec)
        });
    }
    let cached = [
        input(1, &[2, 2, 2, 4]),
        input(2, &[2, 6, 1, 4]),
        input(3, &[2, 6, 1, 4]),
    ];
    let spec = AttentionSpec {
        lengths: ids(&cached[0], &[3, 6], &[2]),
        first_positions: ids(&cached[0], &[1, 4], &[2]),
        ..AttentionSpec::causal()
    };
    check("attention", &cached, |x| {
        x[0].attention(&x[1], &x[2], &spec)
    });
}

#[test]
fn derivatives_of_the_packed_form_agree_with_finite_differences() {
    let causal = AttentionSpec::causal();
    check("attention", &[input(1, &[2, 5, 3 * 2 * 4])], |x| {
        x[0].packed_attention(2, &causal)
    });
    check("attention", &[input(2, &[1, 34, 3 * 2])], |x| {
        x[0].packed_attention(1, &causal)
    });
    let x = input(1, &[2, 7, 3 * 2 * 4]);
    for spec in specs(&x) {
        check("attention", std::slice::from_ref(&x), |x| {
            x[0].packed_attention(2, &spec)
        });
    }
}

/// The packed form has the bits of attention over its three views, with gradients; views with gaps and
/// in reverse are copied.
#[test]
fn the_packed_form_is_attention_over_views() -> Result<()> {
    let data = input(4, &[2, 7, 3 * 2 * 4]);
    for spec in specs(&data) {
        let [one, two] = [data.with_gradient(), data.with_gradient()];
        let packed = one.packed_attention(2, &spec)?;
        packed.square()?.sum()?.backward()?;
        let parts = two.reshape(&[2, 7, 3, 2, 4])?;
        let [q, k, v] = [
            parts.select(2, 0)?,
            parts.select(2, 1)?,
            parts.select(2, 2)?,
        ];
        let spread = q.transpose(2, 3)?.contiguous()?.transpose(2, 3)?;
        let reversed = k.flip(&[1])?.contiguous()?.flip(&[1])?;
        assert!(!spread.layout().is_contiguous() && !reversed.layout().is_contiguous());
        let views = spread.attention(&reversed, &v, &spec)?;
        views.square()?.sum()?.backward()?;
        assert_eq!(views.to_vec::<f32>()?, packed.to_vec::<f32>()?);
        let gradient = |x: &Tensor| x.grad().expect("a gradient").to_vec::<f32>();
        assert_eq!(gradient(&one)?, gradient(&two)?);
    }
    Ok(())
}

#[test]
fn unfitting_arguments_are_named() {
    let causal = AttentionSpec::causal();
    let of = |shape: &[usize]| input(1, shape);
    let (q, k) = (of(&[1, 4, 4, 2]), of(&[1, 5, 2, 2]));
    let cases = [
        (
            of(&[2, 5, 24]).packed_attention(3, &causal),
            "attention: qkv has shape [2, 5, 24], expected [batch, time, 3 x 3 heads x head width]",
        ),
        (
            q.attention(&of(&[1, 5, 3, 2]), &of(&[1, 5, 3, 2]), &causal),
            "attention: k has shape [1, 5, 3, 2], expected key heads that divide 4 query heads",
        ),
        (
            q.attention(&of(&[1, 5, 2, 3]), &k, &causal),
            "attention: k has shape [1, 5, 2, 3], expected [1, keys, key heads, 2]",
        ),
        (
            q.attention(&k, &of(&[1, 4, 2, 2]), &causal),
            "attention: v has shape [1, 4, 2, 2], expected [1, 5, 2, 2]",
        ),
        (
            of(&[1, 6, 4, 2]).attention(&k, &k, &causal),
            "attention: 6 queries are more than 5 keys, expected first_positions to say where they are",
        ),
        (
            of(&[1, 4, 1, 257]).attention(&of(&[1, 4, 1, 257]), &of(&[1, 4, 1, 257]), &causal),
            "attention: q has shape [1, 4, 1, 257], expected heads of 1 to 256 columns",
        ),
        (
            q.attention(
                &k,
                &k,
                &AttentionSpec {
                    lengths: ids(&q, &[1, 2], &[2]),
                    ..causal.clone()
                },
            ),
            "attention: lengths has shape [2], expected [1]",
        ),
        (
            q.attention(
                &k,
                &k,
                &AttentionSpec {
                    documents: Some(of(&[1, 5])),
                    ..causal.clone()
                },
            ),
            "attention: documents has elements of f32, expected u32",
        ),
    ];
    for (result, expected) in cases {
        assert_eq!(message(result), expected);
    }
}
