//! Faults that were found, each under its name.

use hlx_core::Buffer;
use hlx_kernels::attention::{
    Attention, AttentionOperands, AttentionOutput, Limits, PreparedAttention, WeightDropout,
    layouts_of_packed,
};
use hlx_kernels::testing::{TestMemory, devices, normal, run_on};
use hlx_kernels::{KernelError, Operand};

use crate::attention::{Case, Kernels, backward_of_some_queries, forward_of_some_queries};
use crate::run::{Filler, Given, Run};

/// 34 positions of one head of 80 columns: the last two keys are in a block of 32 by themselves.
const TIME: usize = 34;
const WIDTH: usize = 80;

/// Queries, keys and values, `[34, 3, 80]`, with this number in column 7 of the last value.
fn packed(number: f32) -> Vec<f32> {
    let mut qkv = normal(1, TIME * 3 * WIDTH);
    qkv[33 * 240 + 160 + 7] = number;
    qkv
}

/// The words of o and of dq by position, on every device.
fn passes(number: f32) -> Vec<[Vec<Vec<u32>>; 2]> {
    let wide = Attention::causal([1, TIME], 1, WIDTH);
    let run = |device| {
        run_on("attention", device, |device, memory: &mut TestMemory| {
            let qkv = memory.input(device, &packed(number))?;
            let layouts = layouts_of_packed(&wide)?;
            let heads = layouts.each_ref().map(|layout| Operand {
                buffer: &qkv,
                layout,
            });
            let operands = AttentionOperands {
                heads,
                packed: Some(&qkv),
                limits: Limits::default(),
                counter: None,
            };
            let prepared = PreparedAttention::new(device, &operands, &wide, true)?;
            let [o, stats] = prepared.forward(device, &operands)?;
            let output = AttentionOutput {
                o: &o,
                stats: &stats,
                d_o: &memory.input(device, &normal(2, TIME * WIDTH))?,
            };
            let mut gradients = prepared.backward(device, &operands, &output)?;
            Ok::<Vec<Buffer>, KernelError>(vec![o, gradients.remove(0)])
        })
    };
    let rows = |values: &[f32]| -> Vec<Vec<u32>> {
        let rows = values.chunks(WIDTH);
        rows.map(|row| row.iter().map(|x| x.to_bits()).collect())
            .collect()
    };
    let words = |outputs: Vec<Vec<f32>>| {
        let dq = rows(&outputs[1]).into_iter().step_by(3).collect();
        [rows(&outputs[0]), dq]
    };
    devices().iter().map(run).map(words).collect()
}

#[test]
fn an_infinite_hidden_value_changes_no_query_of_wide_heads() {
    let finite = passes(1.0);
    for number in [f32::INFINITY, f32::NAN, f32::MAX] {
        for (device, [o, _]) in passes(number).iter().enumerate() {
            assert_eq!(o[..33], finite[0][0][..33], "{number} on device {device}");
            let last = f32::from_bits(o[33][7]);
            assert!(
                last != f32::from_bits(finite[0][0][33][7]),
                "{number} is read"
            );
        }
    }
}

#[test]
fn an_infinite_hidden_value_changes_no_gradient_of_queries_of_wide_heads() {
    let finite = passes(1.0);
    for number in [f32::INFINITY, f32::NAN] {
        for (device, [_, dq]) in passes(number).iter().enumerate() {
            assert_eq!(dq[..33], finite[0][1][..33], "{number} on device {device}");
        }
    }
}

#[test]
fn an_infinite_hidden_value_changes_no_query_where_weights_are_dropped() {
    let dropout = Some(WeightDropout {
        p: 0.3,
        seed: 5,
        purpose: 9,
    });
    for head_width in [16, 80] {
        let attention = Attention {
            dropout,
            ..Attention::causal([1, 34], 1, head_width)
        };
        let outputs = |device, filler| {
            let case = Case::new(Kernels::Packed, attention, 33);
            let given = Given {
                filler,
                specials: None,
            };
            let both = move |run: &mut Run<'_>| {
                forward_of_some_queries(run, &case)?;
                backward_of_some_queries(run, &case)
            };
            Run::outputs(device, given, &both).expect("outputs")
        };
        let finite = outputs(&devices()[0], Filler::Ordinary);
        for device in devices() {
            for filler in [Filler::Infinity, Filler::Nan] {
                assert_eq!(
                    outputs(device, filler),
                    finite,
                    "{filler:?} on {}",
                    device.info()
                );
            }
        }
    }
}
