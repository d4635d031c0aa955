//! Tuning changes no bit: kernels under tunings that only other devices take, on every device.
//!
//! What a GPU takes by itself (rows held in registers, two vectors per thread, chains with a thread of
//! their own, B transposed first, fused epilogues) is compared here with the CPU device under its
//! own tuning. Software drivers compile unrolled kernels slowly, so rows and loads ahead are few.

use hlx_core::DType::{F16, F32};
use hlx_core::{Buffer, CoreError, Device, Tuning};
use hlx_kernels::activation::Activation;
use hlx_kernels::attention::{
    Attention, AttentionOperands, AttentionOutput, Limits, PreparedAttention, layouts_of_packed,
};
use hlx_kernels::conv2d::{Conv2d, conv2d_backward_input, conv2d_backward_weight, conv2d_forward};
use hlx_kernels::cross_entropy::{cross_entropy_backward, cross_entropy_forward};
use hlx_kernels::elementwise::{Binary, add, binary, scale};
use hlx_kernels::embedding::sums_shards;
use hlx_kernels::norm::{
    Norm, NormBackwardInput, NormBackwardParams, NormForward, norm_backward_input,
    norm_backward_params, norm_forward,
};
use hlx_kernels::product::{Epilogue, FloatProduct, MatMul, matmul};
use hlx_kernels::reduce::{column_sum, row_sum, sum};
use hlx_kernels::reduce_axes::{Reduction, reduce};
use hlx_kernels::softmax::{softmax_backward, softmax_forward};
use hlx_kernels::testing::{TestMemory, devices, ids, normal, run_on_each, values};
use hlx_kernels::{ColumnCut, KernelError, KernelTuning, Layout, Operand, ProductTile, RowCut};

type Outputs = Result<Vec<Buffer>, KernelError>;
type Change = fn(&mut Tuning, &mut KernelTuning);

/// Runs `body` on the CPU under its own tuning, then on every device under each of `changes`, and
/// compares the words.
fn same_bits(
    name: &str,
    changes: &[(&str, Change)],
    body: impl Fn(&Device, &mut TestMemory) -> Outputs,
) {
    let cpu = &devices()[0];
    for (change, apply) in changes {
        let mut tuned = vec![cpu.clone()];
        for device in devices() {
            let mut tuning = device.tuning().clone();
            let mut kernels = KernelTuning::of(device).clone();
            apply(&mut tuning, &mut kernels);
            assert_ne!(
                (&tuning, &kernels),
                (device.tuning(), KernelTuning::of(device)),
                "{change} changes nothing on {device:?}"
            );
            let device = device.with_tuning(tuning).expect("a valid tuning");
            tuned.push(kernels.on(&device).expect("a valid tuning"));
        }
        run_on_each(&format!("{name}, {change}"), &tuned, &body);
    }
}

const HELD_NARROW: Change = |_, tuning| tuning.held_rows = vec![held(1024, 32, 1)];
const HELD_PAIRS: Change = |_, tuning| tuning.held_rows = vec![held(1023, 32, 2)];
const HELD_WIDE: Change = |_, tuning| tuning.held_rows = vec![held(1025, 128, 1)];

fn held(up_to: usize, threads: usize, rows: usize) -> RowCut {
    RowCut {
        up_to,
        threads,
        rows,
        blocks_ahead: 1,
    }
}

#[test]
fn held_rows_have_the_bits_of_streamed_ones() {
    let wide: (&str, Change) = ("a row by 128 threads", HELD_WIDE);
    let narrow: (&str, Change) = ("a row by 32 threads", HELD_NARROW);
    let pairs: (&str, Change) = ("two rows of 32 threads", HELD_PAIRS);
    for (cols, change) in [(33, pairs), (129, wide), (40, narrow)] {
        let rows = 5;
        let [x, dy] = [1, 2].map(|seed| values(seed, rows * cols));
        same_bits("rows", &[change], |device, mem| {
            let x = mem.input(device, &x)?;
            let sums = mem.output(device, rows)?;
            row_sum(device, &x, &sums, rows, cols)?;
            Ok(vec![sums])
        });
        same_bits("softmax", &[change], |device, mem| {
            let (x, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
            let (y, dx) = (
                mem.output(device, rows * cols)?,
                mem.output(device, rows * cols)?,
            );
            softmax_forward(device, &x, &y, rows, cols)?;
            softmax_backward(device, &y, &dy, &dx, rows, cols)?;
            Ok(vec![y, dx])
        });
        same_bits("layer_norm", &[change], |device, mem| {
            let (x, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
            let weight = mem.input(device, &normal(3, cols))?;
            let bias = mem.input(device, &normal(4, cols))?;
            let (y, dx) = (
                mem.output(device, rows * cols)?,
                mem.output(device, rows * cols)?,
            );
            let stats = mem.output(device, 2 * rows)?;
            norm_forward(
                device,
                &Norm::layer(rows, cols, 1e-5),
                &NormForward {
                    x: &x,
                    weight: &weight,
                    bias: Some(&bias),
                    y: &y,
                    stats: &stats,
                },
            )?;
            norm_backward_input(
                device,
                &Norm::layer(rows, cols, 1e-5),
                &NormBackwardInput {
                    x: &x,
                    weight: &weight,
                    stats: &stats,
                    dy: &dy,
                    residual: None,
                    dx: &dx,
                },
            )?;
            Ok(vec![y, stats, dx])
        });
        let [x, dy] = [5, 6].map(|seed| normal(seed, rows * cols));
        let outputs = |device: &Device, mem: &mut TestMemory| -> Outputs {
            let (x, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
            let weight = &mem.input(device, &normal(3, cols))?;
            let around = &mem.input(device, &normal(4, rows * cols))?;
            let outs: Result<Vec<Buffer>, CoreError> =
                (0..4).map(|_| mem.output(device, rows * cols)).collect();
            let (outs, stats) = (outs?, mem.output(device, rows)?);
            let [y, dx, sum, apart] = &outs[..] else {
                return Ok(outs);
            };
            norm_forward(
                device,
                &Norm::rms(rows, cols, 1e-5),
                &NormForward {
                    x: &x,
                    weight,
                    bias: None,
                    y,
                    stats: &stats,
                },
            )?;
            norm_backward_input(
                device,
                &Norm::rms(rows, cols, 1e-5),
                &NormBackwardInput {
                    x: &x,
                    weight,
                    stats: &stats,
                    dy: &dy,
                    residual: None,
                    dx,
                },
            )?;
            norm_backward_input(
                device,
                &Norm::rms(rows, cols, 1e-5),
                &NormBackwardInput {
                    x: &x,
                    weight,
                    stats: &stats,
                    dy: &dy,
                    residual: Some(around),
                    dx: sum,
                },
            )?;
            add(device, around, dx, apart)?;
            let words = |buffer: &Buffer| device.download::<f32>(buffer);
            assert_eq!(words(sum)?, words(apart)?, "{}", device.info());
            Ok([outs, vec![stats]].concat())
        };
        same_bits("rms_norm", &[change], outputs);
    }
}

#[test]
fn rows_read_in_blocks_have_equal_bits() {
    let changes: [(&str, Change); 2] = [
        ("one row by 128 threads, two blocks ahead", |_, tuning| {
            tuning.streamed_rows = vec![streamed(128, 1, 2)];
        }),
        ("three rows by 32 threads", |_, tuning| {
            tuning.streamed_rows = vec![streamed(32, 3, 1)];
        }),
    ];
    let (rows, vocabulary) = (4, 523);
    let logits = normal(1, rows * vocabulary);
    let targets = ids(2, rows, vocabulary as u32);
    same_bits("cross_entropy", &changes, |device, mem| {
        let (logits, targets) = (
            mem.input(device, &logits)?,
            mem.input_u32(device, &targets)?,
        );
        let (loss, stats) = (mem.output(device, rows)?, mem.output(device, 2 * rows)?);
        cross_entropy_forward(
            device, &logits, &targets, &loss, &stats, rows, vocabulary, 0.1,
        )?;
        Ok(vec![loss, stats])
    });
}

fn streamed(threads: usize, rows: usize, blocks_ahead: usize) -> RowCut {
    RowCut {
        up_to: usize::MAX,
        threads,
        rows,
        blocks_ahead,
    }
}

#[test]
fn column_cuts_have_equal_bits() {
    const CUTS: [(&str, Change); 4] = [
        ("a thread for each chain", |_, tuning| {
            columns(tuning, 32, 2)
        }),
        ("a thread for each of 8 chains", |_, tuning| {
            columns(tuning, 8, 1)
        }),
        ("tiles of 128 columns", |_, tuning| columns(tuning, 128, 0)),
        ("tiles of 2 columns", |_, tuning| columns(tuning, 2, 0)),
    ];
    let (shards, rows_per_shard, cols) = (2, 67, 129);
    let rows = shards * rows_per_shard;
    let [x, dy] = [1, 2].map(|seed| values(seed, rows * cols));
    same_bits("columns", &CUTS, |device, mem| {
        let (x, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
        let stats = mem.input(device, &normal(3, 2 * rows))?;
        let outs: Result<Vec<Buffer>, CoreError> =
            (0..3).map(|_| mem.output(device, shards * cols)).collect();
        let outs = outs?;
        let (s, r, c) = (shards, rows_per_shard, cols);
        column_sum(device, &x, &outs[0], s, r, c, false)?;
        norm_backward_params(
            device,
            &Norm::layer(s * r, c, 1e-5),
            &NormBackwardParams {
                x: &x,
                stats: &stats,
                dy: &dy,
                dweight: &outs[1],
                dbias: Some(&outs[2]),
                shards: s,
                accumulate: false,
            },
        )?;
        // Once more, on from the stored values.
        column_sum(device, &dy, &outs[0], s, r, c, true)?;
        norm_backward_params(
            device,
            &Norm::layer(s * r, c, 1e-5),
            &NormBackwardParams {
                x: &dy,
                stats: &stats,
                dy: &x,
                dweight: &outs[1],
                dbias: Some(&outs[2]),
                shards: s,
                accumulate: true,
            },
        )?;
        Ok(outs)
    });
}

fn columns(tuning: &mut KernelTuning, width: usize, rows_ahead: usize) {
    let cut = ColumnCut {
        up_to: usize::MAX,
        width,
        rows_ahead,
    };
    tuning.columns = vec![cut];
    tuning.column_pairs = vec![cut];
}

#[test]
fn two_vectors_a_thread_have_the_bits_of_one() {
    let changes: [(&str, Change); 2] = [
        ("two vectors a thread", |_, tuning| {
            tuning.maps.two_vectors_from = 1
        }),
        ("whole vectors apart", |_, tuning| {
            tuning.maps.two_vectors_from = 1;
            tuning.maps.whole_vectors = !tuning.maps.whole_vectors;
        }),
    ];
    // Ragged ends, whole vectors, and one past a workgroup of two vectors.
    for len in [1, 31, 1024, 2048, 2052, 4099] {
        let [x, b] = [1, 2].map(|seed| values(seed, len));
        same_bits("maps", &changes, |device, mem| {
            let (x, b) = (mem.input(device, &x)?, mem.input(device, &b)?);
            let (sum, scaled) = (mem.output(device, len)?, mem.output(device, len)?);
            add(device, &x, &b, &sum)?;
            scale(device, &x, 0.7, &scaled)?;
            let (product, halves) = (mem.output(device, len)?, mem.output_of(device, F16, len)?);
            let whole = Layout::contiguous(&[len])?;
            let [x, b] = [&x, &b].map(|buffer| Operand {
                buffer,
                layout: &whole,
            });
            binary(device, Binary::Mul, F32, x, b, &product)?;
            binary(device, Binary::Mul, F32, x, b, &halves)?;
            Ok(vec![sum, scaled, product, halves])
        });
    }
    let (rows, vocabulary) = (3, 700);
    same_bits("cross_entropy_backward", &changes, |device, mem| {
        let logits = mem.input(device, &normal(3, rows * vocabulary))?;
        let targets = mem.input_u32(device, &ids(4, rows, vocabulary as u32))?;
        let stats = mem.input(device, &[3.0, 1.0, 2.5, 0.5, 2.0, 1.5])?;
        let scale = mem.input(device, &[0.25])?;
        let dlogits = mem.output(device, rows * vocabulary)?;
        let (r, v) = (rows, vocabulary);
        cross_entropy_backward(
            device, &logits, &targets, &stats, &scale, &dlogits, r, v, 0.1,
        )?;
        Ok(vec![dlogits])
    });
}

const TILES: [(usize, usize); 4] = [(128, 128), (64, 128), (64, 64), (32, 64)];

fn only_tile(tuning: &mut KernelTuning, idx: usize) {
    let (rows, columns) = TILES[idx];
    tuning.products.tiles = vec![ProductTile {
        rows,
        columns,
        short_steps: false,
        gflops: vec![1.0, 2.0],
    }];
}

#[test]
fn products_have_equal_bits_with_every_tile_and_b_transposed_first() {
    let changes: [(&str, Change); 5] = [
        ("128 x 128 tiles", |_, tuning| only_tile(tuning, 0)),
        ("64 x 128 tiles", |_, tuning| only_tile(tuning, 1)),
        ("64 x 64 tiles", |_, tuning| only_tile(tuning, 2)),
        ("32 x 64 tiles of a tile table", |_, tuning| {
            only_tile(tuning, 3)
        }),
        ("B transposed first", |_, tuning| {
            tuning.products.transpose_b_from_rows = 1;
            tuning.products.transpose_b_from_terms = 1;
        }),
    ];
    let shape = MatMul {
        trans_b: true,
        ..MatMul::new(70, 36, 24)
    };
    let [a, b] = [values(1, 70 * 24), values(2, 36 * 24)];
    same_bits("matmul", &changes, |device, mem| {
        let (a, b) = (mem.input(device, &a)?, mem.input(device, &b)?);
        let c = mem.output(device, 70 * 36)?;
        matmul(device, &a, &b, None, &c, &shape)?;
        Ok(vec![c])
    });
}

#[test]
fn convolutions_have_equal_bits_with_every_tile() {
    let changes: [(&str, Change); 4] = [
        ("128 x 128 tiles", |_, tuning| only_tile(tuning, 0)),
        ("64 x 128 tiles", |_, tuning| only_tile(tuning, 1)),
        ("64 x 64 tiles", |_, tuning| only_tile(tuning, 2)),
        ("32 x 64 tiles of a tile table", |_, tuning| {
            only_tile(tuning, 3)
        }),
    ];
    let spec = Conv2d {
        batch: 2,
        in_channels: 8,
        out_channels: 40,
        groups: 1,
        input: [6, 12],
        kernel: [3, 3],
        stride: [1, 1],
        padding: [1, 1],
        dilation: [1, 1],
    };
    let [x_len, weight_len, y_len] = [2 * 8 * 72, 40 * 8 * 9, 2 * 40 * 72];
    let [x, weight, dy] = [values(1, x_len), values(2, weight_len), values(3, y_len)];
    same_bits("conv2d", &changes, |device, mem| {
        let (x, weight, dy) = (
            mem.input(device, &x)?,
            mem.input(device, &weight)?,
            mem.input(device, &dy)?,
        );
        let (y, dx) = (mem.output(device, y_len)?, mem.output(device, x_len)?);
        let dweight = mem.output(device, 2 * weight_len)?;
        conv2d_forward(device, &x, &weight, None, &y, &spec)?;
        conv2d_backward_input(device, &dy, &weight, &dx, &spec)?;
        conv2d_backward_weight(device, &x, &dy, &dweight, 2, false, &spec)?;
        Ok(vec![y, dx, dweight])
    });
}

#[test]
fn a_fused_epilogue_has_the_bits_of_a_launch_of_its_own() {
    let changes: [(&str, Change); 1] = [("the other way for epilogues", |_, tuning| {
        tuning.products.fused_epilogues = !tuning.products.fused_epilogues;
    })];
    let shape = MatMul::new(33, 20, 32);
    let [a, b] = [normal(1, 33 * 32), normal(2, 32 * 20)];
    same_bits("matmul and gelu", &changes, |device, mem| {
        let (a, b) = (mem.input(device, &a)?, mem.input(device, &b)?);
        let bias = mem.input(device, &normal(3, 20))?;
        let (c, out) = (mem.output(device, 33 * 20)?, mem.output(device, 33 * 20)?);
        let epilogue = Epilogue::Activation {
            kind: Activation::GELU,
            out: &out,
        };
        FloatProduct {
            bias: Some(&bias),
            epilogue,
            ..FloatProduct::new([&a, &b], &c, shape)
        }
        .run(device)?;
        Ok(vec![c, out])
    });
}

#[test]
fn attention_has_equal_bits_with_every_variant() {
    let changes: [(&str, Change); 3] = [
        ("few workgroups fill the device", |_, tuning| {
            tuning.attention.full_groups = 1;
        }),
        ("none do, and scores are computed again", |_, tuning| {
            tuning.attention.full_groups = usize::MAX;
            tuning.attention.stored_bytes = 0;
        }),
        (
            "the scores of one head at a time are stored",
            |_, tuning| {
                tuning.attention.stored_bytes = 4 * 6 * 1024;
            },
        ),
    ];
    let of = Attention::causal([1, 70], 2, 8);
    let elements = 70 * 2 * 8;
    same_bits("attention", &changes, |device, mem| {
        let qkv = mem.input(device, &normal(1, 3 * elements))?;
        let d_o = mem.input(device, &normal(2, elements))?;
        let layouts = layouts_of_packed(&of)?;
        let operands = AttentionOperands {
            heads: layouts.each_ref().map(|layout| Operand {
                buffer: &qkv,
                layout,
            }),
            packed: Some(&qkv),
            limits: Limits::default(),
            counter: None,
        };
        let prepared = PreparedAttention::new(device, &operands, &of, true)?;
        let [o, stats] = prepared.forward(device, &operands)?;
        let output = AttentionOutput {
            o: &o,
            stats: &stats,
            d_o: &d_o,
        };
        let mut outputs = prepared.backward(device, &operands, &output)?;
        outputs.extend([o, stats]);
        Ok(outputs)
    });
}

#[test]
fn two_handles_of_one_device_keep_their_tunings_and_share_its_memory() {
    for device in devices() {
        let mut tuning = KernelTuning::of(device).clone();
        // The other way from the device's own.
        let sums = sums_shards(device, 2, 7);
        tuning.embedding_sum_from = if sums { 8 } else { 7 };
        let tuned = tuning.on(device).expect("a valid tuning");
        assert_eq!(
            (sums_shards(&tuned, 2, 7), sums_shards(device, 2, 7)),
            (!sums, sums)
        );
        assert_eq!(sums_shards(&tuned.clone(), 2, 7), !sums, "clones have it");
        let x = device.buffer_of(&[1.0, 2.0, 3.0]).expect("buffer");
        let total = tuned.alloc(1).expect("buffer");
        sum(&tuned, &x, &total).expect("a buffer of the other handle");
        assert_eq!(device.download::<f32>(&total).expect("download"), [6.0]);
    }
}

#[test]
fn an_invalid_tuning_is_refused() {
    let device = &devices()[0];
    let mut tuning = KernelTuning::of(device).clone();
    tuning.held_rows = vec![held(16_385, 128, 1)];
    let error = tuning.on(device).expect_err("refused").to_string();
    let want = "tuning: held_rows reaches past 16,384 elements, 128 registers a thread";
    assert_eq!(error, want);
}

#[test]
fn launches_cut_by_workgroups_have_the_bits_of_whole_ones() {
    let changes: [(&str, Change); 1] = [("a device that takes seconds", |tuning, _| {
        tuning.flops_per_second = 1e4;
        tuning.bytes_per_second = 1e4;
        tuning.submission_ms = 200.0;
    })];
    let batches = MatMul {
        batch: 3,
        stride_a: 70 * 9,
        stride_b: 9 * 130,
        stride_c: 70 * 130,
        ..MatMul::new(70, 130, 9)
    };
    let [a, b] = [values(1, 3 * 70 * 9), values(2, 3 * 9 * 130)];
    same_bits("matmul", &changes, |device, mem| {
        let (a, b) = (mem.input(device, &a)?, mem.input(device, &b)?);
        let c = mem.output(device, 3 * 70 * 130)?;
        let before = device.submissions();
        matmul(device, &a, &b, None, &c, &batches)?;
        device.sync()?;
        let submissions = device.submissions() - before;
        let cut = device.tuning().flops_per_second == 1e4 && !device.is_cpu();
        assert!(!cut || submissions > 3, "{submissions} submissions");
        Ok(vec![c])
    });
    let [x, y] = [values(3, 37 * 129), values(4, 37 * 129)];
    same_bits("rows and columns", &changes, |device, mem| {
        let (x, y) = (mem.input(device, &x)?, mem.input(device, &y)?);
        let outs = [37 * 129, 37 * 129, 129].map(|len| mem.output(device, len));
        let [added, normalised, columns] = outs;
        let (added, normalised, columns) = (added?, normalised?, columns?);
        add(device, &x, &y, &added)?;
        softmax_forward(device, &x, &normalised, 37, 129)?;
        column_sum(device, &x, &columns, 1, 37, 129, false)?;
        Ok(vec![added, normalised, columns])
    });
}

#[test]
fn reductions_have_the_same_bits_with_any_number_of_loads() {
    let changes: [(&str, Change); 2] = [
        ("8 loads", |_, tuning| tuning.reduction_loads = 8),
        ("32 loads", |_, tuning| tuning.reduction_loads = 32),
    ];
    let (rows, columns) = (4500, 40);
    let data = normal(31, rows * columns);
    same_bits("reduce", &changes, |device, memory| {
        let x = memory.input(device, &data)?;
        let layout = Layout::contiguous(&[rows, columns])?;
        let operand = Operand {
            buffer: &x,
            layout: &layout,
        };
        let (outer, inner) = (
            memory.output(device, columns)?,
            memory.output(device, rows)?,
        );
        reduce(device, Reduction::Sum, operand, &[0], &outer)?;
        reduce(device, Reduction::Sum, operand, &[1], &inner)?;
        Ok(vec![outer, inner])
    });
}
