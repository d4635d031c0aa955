//! Empty batches; shapes and operands that are refused.

use super::*;

#[test]
fn an_empty_batch_has_no_results_and_gradients_of_zero() {
    let spec = Conv2d {
        batch: 0,
        ..shapes()[0]
    };
    for device in devices() {
        let none = device.alloc(0).expect("an empty buffer");
        let weight = device
            .buffer_of(&normal(1, spec.weight_len()))
            .expect("memory");
        conv2d_forward(device, &none, &weight, None, &none, &spec).expect("nothing to do");
        conv2d_backward_input(device, &none, &weight, &none, &spec).expect("nothing to do");
        for (accumulate, expected) in [(true, 7.0), (false, 0.0)] {
            let dweight = device
                .buffer_of(&vec![7.0; 2 * spec.weight_len()])
                .expect("memory");
            let dbias = device
                .buffer_of(&vec![7.0; 2 * spec.out_channels])
                .expect("memory");
            conv2d_backward_weight(device, &none, &none, &dweight, 2, accumulate, &spec)
                .expect("sums of nothing");
            conv2d_backward_bias(device, &none, &dbias, 2, accumulate, &spec)
                .expect("sums of nothing");
            for sums in [dweight, dbias] {
                let sums = device.download::<f32>(&sums).expect("download");
                assert!(sums.iter().all(|&sum| sum == expected), "{sums:?}");
            }
        }
    }
}

#[test]
fn shapes_that_cannot_be_are_refused_in_one_line() {
    let good = shapes()[0];
    let message = |spec: Conv2d| {
        spec.output()
            .expect_err("a shape that cannot be")
            .to_string()
    };
    for (spec, expected) in [
        (
            Conv2d {
                stride: [0, 1],
                ..good
            },
            "conv2d: stride is [0, 1], expected at least 1",
        ),
        (
            Conv2d { groups: 0, ..good },
            "conv2d: groups is 0, expected at least 1",
        ),
        (
            Conv2d { groups: 2, ..good },
            "conv2d: in_channels is 3, expected a multiple of the 2 groups",
        ),
        (
            Conv2d {
                dilation: [1, 5],
                ..good
            },
            "conv2d: kernel has a width of 11, expected at most 9, the padded input's",
        ),
        (
            Conv2d {
                batch: 1 << 26,
                ..good
            },
            "conv2d: input has more than 2147483647 elements",
        ),
        (
            Conv2d {
                padding: [usize::MAX / 2, 0],
                ..good
            },
            "conv2d: padded input, kernel or stride is beyond 268435456 along axis 0",
        ),
    ] {
        assert_eq!(message(spec), expected);
    }
    assert_eq!(good.output().expect("a shape"), [5, 7]);
}

#[test]
fn wrong_operands_are_named() {
    let spec = shapes()[0];
    let device = &hlx_core::testing::cpu().expect("the CPU device");
    let buffer = |len: usize| device.alloc(len).expect("memory");
    let [x, weight, y] = [spec.input_len(), spec.weight_len(), spec.output_len([5, 7])].map(buffer);
    let error = conv2d_forward(device, &x, &y, None, &y, &spec).expect_err("a wrong weight");
    assert_eq!(
        error.to_string(),
        "conv2d_forward: weight has 280 elements, expected 108"
    );
    let error = conv2d_backward_weight(device, &x, &y, &weight, 3, false, &spec)
        .expect_err("shards that do not divide the batch");
    assert_eq!(
        error.to_string(),
        "conv2d_backward_weight: 3 shards, expected a divisor of the batch of 2"
    );
}
