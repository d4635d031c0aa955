//! Scopes of mixed precision: products within one have the bits of a device that computes in `fast`, and so has their backward pass.

use hlx_autograd::{Autocast, ConvOptions, Half, Result, Tensor};
use hlx_core::{Arithmetic, Device, testing};

/// Leaves on a device: x, a weight, images, a kernel.
fn leaves(device: &Device) -> Result<Vec<Tensor>> {
    let shapes: [&[usize]; 4] = [&[4, 24], &[7, 24], &[4, 3, 6, 5], &[2, 3, 3, 3]];
    let of =
        |(seed, shape): (u64, &&[usize])| Ok(Tensor::randn(device, shape, seed)?.with_gradient());
    (1..).zip(&shapes).map(of).collect()
}

/// Sums of products of each kind, with a norm and a softmax among them.
fn losses(x: &[Tensor]) -> Result<Tensor> {
    let linear = x[0].linear(&x[1], None)?.softmax()?;
    let product = x[0].matmul(&x[1].transpose(0, 1)?)?.mul(&linear)?;
    let images = x[2].conv2d(&x[3], None, &ConvOptions::default())?;
    product.square()?.sum()?.add(images.square()?.sum()?)
}

fn words(tensors: &[Tensor]) -> Result<Vec<Vec<u32>>> {
    let bits = |x: &Tensor| -> Result<Vec<u32>> {
        Ok(x.to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect())
    };
    tensors.iter().map(bits).collect()
}

/// The loss and the gradients: forward within one scope, backward within another.
fn pass(device: &Device, forward: Autocast, backward: Autocast) -> Result<Vec<Vec<u32>>> {
    let leaves = leaves(device)?;
    let loss = {
        let _scope = forward.enter();
        losses(&leaves)?
    };
    {
        let _scope = backward.enter();
        loss.backward()?;
    }
    let mut found = vec![loss.detach()];
    found.extend(leaves.iter().filter_map(Tensor::grad));
    assert_eq!(found.len(), 5);
    words(&found)
}

#[test]
fn products_of_a_scope_have_the_bits_of_fast() -> Result<()> {
    for device in testing::devices() {
        let portable = pass(device, Autocast::OFF, Autocast::OFF)?;
        for half in Half::ALL {
            let scope = Autocast::to(half);
            let Ok(fast) = device.in_arithmetic(Arithmetic::Fast(half)) else {
                let error = pass(device, scope, Autocast::OFF).expect_err("no such matrices");
                let expected = Arithmetic::Fast(half).name();
                assert!(error.to_string().contains(expected), "{error}");
                continue;
            };
            let expected = pass(&fast, Autocast::OFF, Autocast::OFF)?;
            assert_ne!(expected, portable);
            let info = device.info();
            // The forward pass decides, wherever the backward pass runs.
            for backward in [Autocast::OFF, scope] {
                assert_eq!(pass(device, scope, backward)?, expected, "{half:?} {info}");
                assert_eq!(
                    pass(device, Autocast::OFF, backward)?,
                    portable,
                    "{half:?} {info}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_scope_is_for_its_kind_of_device_and_for_derivatives_of_derivatives() -> Result<()> {
    let device = testing::cpu()?;
    let second = |device: &Device, scope: Autocast| -> Result<Vec<Vec<u32>>> {
        let x = leaves(device)?;
        let y = {
            let _scope = scope.enter();
            x[0].linear(&x[1], None)?.square()?.sum()?
        };
        let slopes = y.gradients(&[&x[0]], true)?.remove(0).expect("x is used");
        let of = slopes
            .square()?
            .sum()?
            .gradients(&[&x[1]], false)?
            .remove(0);
        words(&[slopes.detach(), of.expect("the weight is used")])
    };
    let fast = device.in_arithmetic(Arithmetic::Fast(Half::Bf16))?;
    let (within, off) = (Autocast::to(Half::Bf16), Autocast::OFF);
    assert_eq!(second(&device, within)?, second(&fast, off)?);
    let of_others = Autocast {
        cpu: None,
        ..within
    };
    assert_eq!(second(&device, of_others)?, second(&device, off)?);
    assert_ne!(second(&device, within)?, second(&device, off)?);
    Ok(())
}
