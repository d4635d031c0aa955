//! Convolutions: derivatives, paddings, and what is refused.

use hlx_core::Device;

use super::*;
use crate::BackwardPlan;
use crate::graph::tape::enable_grad;
use crate::ops::test_support::{check, in_integer, input, message, values};

fn options() -> ConvOptions {
    ConvOptions {
        stride: [2, 1],
        padding: [1, 0],
        dilation: [1, 2],
        groups: 2,
        same: false,
    }
}

#[test]
fn derivatives_agree_with_finite_differences() {
    let x = [
        input(1, &[2, 4, 5, 6]),
        input(2, &[6, 2, 3, 2]),
        input(3, &[6]),
    ];
    check("conv2d", &x, |x| {
        x[0].conv2d(&x[1], Some(&x[2]), &options())
    });
    let x = [
        input(4, &[2, 6, 3, 4]),
        input(5, &[6, 2, 3, 2]),
        input(6, &[4]),
    ];
    check("conv_transpose2d", &x, |x| {
        x[0].conv_transpose2d(&x[1], Some(&x[2]), &options(), [1, 0])
    });
    let x = [input(7, &[2, 3, 7]), input(8, &[4, 3, 3])];
    check("conv1d", &x, |x| {
        x[0].conv1d(&x[1], None, &ConvOptions::default())
    });
}

#[test]
fn a_second_derivative_is_made_of_convolutions() {
    let x = [input(1, &[2, 2, 4, 4]), input(2, &[3, 2, 2, 2])];
    check("conv2d", &x, |x| {
        enable_grad(|| {
            let image = match x[0].requires_grad() {
                true => x[0].clone(),
                false => x[0].with_gradient(),
            };
            let y = image.conv2d(&x[1], None, &ConvOptions::default())?.tanh()?;
            let slope = y.square()?.sum()?.gradients(&[&image], true)?.remove(0);
            slope.expect("the image is used").square()?.sum()
        })
    });
}

#[test]
fn the_same_extents_need_one_zero_more_at_the_end_of_even_kernels() -> Result<()> {
    let (x, same) = (
        input(1, &[2, 2, 4, 5]),
        ConvOptions {
            dilation: [1, 3],
            same: true,
            ..ConvOptions::default()
        },
    );
    let w = input(2, &[3, 2, 4, 2]);
    let y = x.conv2d(&w, None, &same)?;
    assert_eq!(y.shape(), [2, 3, 4, 5]);
    let padded = x.pad(&[(1, 2), (1, 2)], Padding::Constant(0.0))?;
    let options = ConvOptions {
        same: false,
        ..same
    };
    assert!(y.equal(&padded.conv2d(&w, None, &options)?)?);
    check("conv2d", &[x.clone(), w.clone()], |x| {
        x[0].conv2d(&x[1], None, &same)
    });
    let signal = x.select(2, 0)?;
    let y = signal.conv1d(&w.select(2, 0)?, None, &same)?;
    assert_eq!(y.shape(), [2, 3, 5]);
    let strided = ConvOptions {
        stride: [2, 1],
        ..same
    };
    let text = message(x.conv2d(&w, None, &strided));
    assert_eq!(
        text,
        "conv2d: stride is [2, 1] and padding [0, 0] with `same`, expected [1, 1] and [0, 0]"
    );
    Ok(())
}

/// By the definition: an output that no tap reaches is the bias.
#[test]
fn output_padding_may_pass_the_stride_up_to_the_dilation() -> Result<()> {
    let (x, w, b) = (
        input(1, &[1, 1, 1, 3]),
        input(2, &[1, 1, 1, 2]),
        input(3, &[1]),
    );
    let options = ConvOptions {
        padding: [0, 1],
        dilation: [1, 4],
        ..ConvOptions::default()
    };
    let y = x
        .conv_transpose2d(&w, Some(&b), &options, [0, 3])?
        .to_vec::<f32>()?;
    let (x, w, b) = (
        x.to_vec::<f32>()?,
        w.to_vec::<f32>()?,
        b.to_vec::<f32>()?[0],
    );
    let mut expected = vec![b; 8];
    for (i, x) in x.iter().enumerate() {
        for (tap, w) in w.iter().enumerate() {
            if let Some(slot) = (i + 4 * tap).checked_sub(1) {
                expected[slot] += x * w;
            }
        }
    }
    assert_eq!(y.len(), expected.len());
    assert!(
        y.iter()
            .zip(&expected)
            .all(|(y, want)| (y - want).abs() < 1e-6),
        "{y:?}"
    );
    Ok(())
}

#[test]
fn a_second_derivative_of_signals_has_the_shape_of_their_weight() {
    let x = [input(1, &[2, 2, 5]), input(2, &[3, 2, 2])];
    check("conv1d", &x, |x| {
        enable_grad(|| {
            let weight = match x[1].requires_grad() {
                true => x[1].clone(),
                false => x[1].with_gradient(),
            };
            let y = x[0]
                .conv1d(&weight, None, &ConvOptions::default())?
                .tanh()?;
            let slope = y.square()?.sum()?.gradients(&[&weight], true)?.remove(0);
            slope.expect("the weight is used").square()
        })
    });
}

/// The gradient of a batch of signals in parts of a shard has the bits of the whole.
#[test]
fn parts_of_a_shard_of_signals_were_refused() -> Result<()> {
    let x = input(1, &[4, 2, 7]);
    let gradients = |parts: usize| -> Result<[Vec<f32>; 2]> {
        let parameters = [input(2, &[3, 2, 3]), input(3, &[3])];
        let [weight, bias] = parameters.map(|parameter| parameter.with_gradient());
        let each = 4 / parts;
        for part in 0..parts {
            let x = x.slice(0, part * each..(part + 1) * each, 1)?;
            let x = x.with_samples(0)?;
            let y = x.conv1d(&weight, Some(&bias), &ConvOptions::default())?;
            let plan = crate::BackwardPlan {
                shards: 1,
                accumulate: part > 0,
                whole_batch: parts == 1,
            };
            y.square()?.sum()?.backward_with(&plan)?;
        }
        let of = |tensor: &Tensor| tensor.grad().expect("a gradient").to_vec();
        Ok([of(&weight)?, of(&bias)?])
    };
    let whole = gradients(1)?;
    assert_eq!(gradients(2)?, whole);
    assert_eq!(gradients(4)?, whole);
    Ok(())
}

#[test]
fn unfitting_weights_are_refused() {
    let (x, w) = (input(1, &[1, 3, 4, 4]), input(2, &[2, 2, 3, 3]));
    let text = message(x.conv2d(&w, None, &ConvOptions::default()));
    assert_eq!(
        text,
        "conv2d: weight has shape [2, 2, 3, 3], expected [O, 3, h, w]"
    );
    let (x, w) = (input(1, &[1, 3, 4]), input(2, &[2, 2, 3]));
    let text = message(x.conv1d(&w, None, &ConvOptions::default()));
    let expected = "conv1d: weight has shape [2, 2, 3], expected [O, 3, l]";
    assert_eq!(text, expected);
    let text = message(
        w.select(0, 0)
            .and_then(|x| x.select(0, 0)?.conv1d(&w, None, &ConvOptions::default())),
    );
    assert_eq!(text, "conv1d: the input has shape [3], expected [N, C, L]");
}

/// Results, and the gradients of the images and of the weight, of some samples' values, from the first on.
fn of_samples(
    device: &Device,
    [x, dy]: [&[f32]; 2],
    samples: usize,
    shards: usize,
) -> Result<[Vec<f32>; 3]> {
    let images = Tensor::from_slice(device, &x[..samples * 2 * 5 * 6], &[samples, 2, 5, 6])?;
    let images = images.with_gradient().with_samples(0)?;
    let weight = values(3, 4 * 2 * 3 * 3);
    let weight = Tensor::from_slice(device, &weight, &[4, 2, 3, 3])?.with_gradient();
    let options = ConvOptions {
        padding: [1, 1],
        ..ConvOptions::default()
    };
    let y = images.conv2d(&weight, None, &options)?;
    let upstream = Tensor::from_slice(device, &dy[..y.n_elements()], y.shape())?;
    let plan = BackwardPlan {
        shards,
        ..BackwardPlan::default()
    };
    y.mul(&upstream)?.sum()?.backward_with(&plan)?;
    let gradient = |x: &Tensor| x.grad().expect("a gradient").to_vec();
    Ok([y.to_vec::<f32>()?, gradient(&images)?, gradient(&weight)?])
}

/// In the integer arithmetic a sample's results are its own, a shard's gradient too, and samples without a gradient count nowhere.
#[test]
fn quantised_batches_shards_and_empty_samples_change_nothing() -> Result<()> {
    let (x, dy) = (values(1, 4 * 2 * 5 * 6), values(2, 4 * 4 * 5 * 6));
    let mut of_devices = Vec::new();
    for device in in_integer() {
        let whole = of_samples(&device, [&x, &dy], 4, 4)?;
        let [y, dx, _] = of_samples(&device, [&x, &dy], 2, 2)?;
        assert_eq!(y, whole[0][..y.len()]);
        assert_eq!(dx, whole[1][..dx.len()]);
        // The halves of the tree of four shards.
        let halves = [0, 1].map(|half| {
            let (x, dy) = (&x[half * x.len() / 2..], &dy[half * dy.len() / 2..]);
            of_samples(&device, [x, dy], 2, 2).map(|[_, _, dw]| dw)
        });
        let [one, other] = halves;
        let sum: Vec<f32> = one?.iter().zip(other?).map(|(a, b)| a + b).collect();
        assert_eq!(sum, whole[2], "{}", device.info());
        let [_, _, of_one] = of_samples(&device, [&x, &dy], 1, 1)?;
        let (mut with_empty, mut huge) = (dy.clone(), x.clone());
        with_empty[4 * 5 * 6..].fill(0.0);
        huge[2 * 5 * 6..].fill(1e30);
        let [_, _, dw] = of_samples(&device, [&huge, &with_empty], 3, 1)?;
        assert_eq!(dw, of_one, "{}", device.info());
        of_devices.push(whole);
    }
    assert!(of_devices.iter().all(|device| device == &of_devices[0]));
    Ok(())
}

/// In the integer arithmetic all three maps and their derivatives, first and second, are near those in f32.
#[test]
fn quantised_derivatives_are_near_those_of_chains() -> Result<()> {
    let mut found: Vec<Vec<Vec<f32>>> = Vec::new();
    let portable = hlx_core::testing::devices()[0].clone();
    for device in in_integer().into_iter().chain([portable]) {
        let x = |seed, shape: &[usize]| -> Result<Tensor> {
            let n = shape.iter().product();
            Ok(Tensor::from_slice(&device, &values(seed, n), shape)?.with_gradient())
        };
        let options = options();
        let mut of_device = Vec::new();
        for transposed in [false, true] {
            let (images, weight, bias) = (x(1, &[2, 4, 6, 7])?, x(2, &[4, 2, 3, 2])?, x(3, &[4])?);
            let y = match transposed {
                false => images.conv2d(&weight, Some(&bias), &options)?,
                true => images.conv_transpose2d(&weight, Some(&bias), &options, [1, 0])?,
            };
            let by = [&images, &weight, &bias];
            let slopes = y.mul(&y)?.sum()?.gradients(&by, true)?;
            let slopes: Vec<Tensor> = slopes.into_iter().flatten().collect();
            let second = slopes[0]
                .mul(&slopes[0])?
                .sum()?
                .gradients(&by[..2], false)?;
            let all = [y]
                .into_iter()
                .chain(slopes)
                .chain(second.into_iter().flatten());
            for tensor in all {
                of_device.push(tensor.to_vec::<f32>()?);
            }
        }
        found.push(of_device);
    }
    let portable = found.pop().expect("the portable one");
    assert!(found.iter().all(|device| device == &found[0]));
    assert_ne!(found[0], portable);
    for (integer, portable) in found[0].iter().zip(&portable) {
        let size = portable.iter().fold(0.0_f32, |size, x| size.max(x.abs()));
        for (integer, portable) in integer.iter().zip(portable) {
            let error = (integer - portable).abs() / size;
            assert!(error < 0.03, "{integer} {portable} of {size}");
        }
    }
    Ok(())
}
