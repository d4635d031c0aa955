//! Views against the elements where PyTorch has them, and their derivatives.

use crate::Tensor;
use crate::ops::test_support::{check, input, message};

fn counted(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let device = hlx_core::testing::devices()[0].clone();
    Tensor::from_slice(&device, &values, shape).expect("uploads")
}

#[test]
fn views_show_the_elements_where_pytorch_has_them() -> crate::Result<()> {
    let x = counted(&[2, 3]);
    assert_eq!(
        x.transpose(0, 1)?.to_vec::<f32>()?,
        [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    );
    assert_eq!(x.slice(1, 0..9, 2)?.to_vec::<f32>()?, [0.0, 2.0, 3.0, 5.0]);
    assert_eq!(
        x.flip(&[-1])?.to_vec::<f32>()?,
        [2.0, 1.0, 0.0, 5.0, 4.0, 3.0]
    );
    assert_eq!(x.select(0, 1)?.to_vec::<f32>()?, [3.0, 4.0, 5.0]);
    assert_eq!(x.narrow(1, 1, 1)?.shape(), [2, 1]);
    assert_eq!(x.transpose(0, 1)?.flatten(0, -1)?.shape(), [6]);
    let parts = counted(&[5]).split(2, 0)?;
    assert_eq!(
        parts.iter().map(|part| part.shape()[0]).collect::<Vec<_>>(),
        [2, 2, 1]
    );
    assert_eq!(counted(&[7]).chunk(3, 0)?[2].to_vec::<f32>()?, [6.0]);
    Ok(())
}

#[test]
fn derivatives_agree_with_finite_differences() {
    let x = [input(1, &[3, 4])];
    check("reshape", &x, |x| x[0].reshape(&[2, 6])?.softmax());
    check("permute", &x, |x| {
        x[0].permute(&[1, 0])?.mul(&x[0].transpose(0, 1)?)
    });
    check("slice", &x, |x| x[0].slice(1, 1..4, 2)?.gelu());
    check("select", &x, |x| x[0].select(-2, 1)?.gelu());
    check("flip", &x, |x| x[0].flip(&[0, 1])?.mul(&x[0]));
    check("diagonal", &x, |x| x[0].diagonal(1, 0, 1)?.gelu());
    check("unfold", &x, |x| x[0].unfold(1, 3, 1)?.gelu());
    check("split", &x, |x| {
        let parts = x[0].split(2, 1)?;
        parts[0].mul(&parts[1])
    });
}

#[test]
fn an_expansion_has_the_sum_over_what_repeats() {
    check("expand", &[input(1, &[3, 1])], |x| {
        x[0].expand(&[2, 3, 4])?.gelu()
    });
    check("expand", &[input(2, &[4]), input(3, &[3, 4])], |x| {
        x[0].expand(&[3, 4])?.mul(&x[1])
    });
}

#[test]
fn wrong_movements_are_refused() {
    let x = input(1, &[3, 4]);
    for (result, expected) in [
        (
            x.reshape(&[5]),
            "reshape: shape [3, 4] has 12 elements, expected 5 as [5]",
        ),
        (
            x.permute(&[0, 0]),
            "permute: [0, 0] is no permutation of 2 dimensions",
        ),
        (
            x.select(2, 0),
            "select: dimension 2 is out of range for a tensor of 2",
        ),
        (
            x.select(0, 3),
            "select: range 3..4 by 1 does not lie in dimension 0 of 3",
        ),
        (
            x.expand(&[3, 5]),
            "expand: shape [3, 4] does not expand to [3, 5]",
        ),
    ] {
        assert_eq!(message(result), expected);
    }
}
