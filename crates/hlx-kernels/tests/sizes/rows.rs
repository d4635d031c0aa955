//! A row for each launcher that takes sizes: it is called with sizes whose product wraps to the length of the buffer that
//! all its arguments are.

use hlx_core::{Arithmetic, Buffer, DType, Device};
use hlx_kernels::attention::append::{AppendInputs, HeadRows, append_heads};
use hlx_kernels::attention::*;
use hlx_kernels::batch_norm::*;
use hlx_kernels::conv2d::*;
use hlx_kernels::cross_entropy::{cross_entropy_backward, cross_entropy_forward};
use hlx_kernels::dropout::{Dropout, dropout};
use hlx_kernels::embedding::*;
use hlx_kernels::experts::*;
use hlx_kernels::interpolate::*;
use hlx_kernels::norm::*;
use hlx_kernels::optimizer::adafactor::{Adafactor, Squares, adafactor_step};
use hlx_kernels::optimizer::muon::muon_step;
use hlx_kernels::optimizer::{Update, Watched, guarded_factor};
use hlx_kernels::pool::*;
use hlx_kernels::product::quantised::*;
use hlx_kernels::product::{
    self, End, Epilogue, ExpertsGradient, ExpertsProduct, FloatProduct, MatMul, Matrices, Role,
    experts_product, matmul, matmul_integers, multiply, step_product,
};
use hlx_kernels::recurrent::*;
use hlx_kernels::reduce::{column_sum, row_sum, shard_sum};
use hlx_kernels::rope::{Rope, rope};
use hlx_kernels::softmax::{softmax_backward, softmax_forward};
use hlx_kernels::transpose::transpose;
use hlx_kernels::{KernelError, Layout, Operand, Windows};

use super::Launch;

/// The rows, by the launcher's name.
pub const ROWS: &[(&str, Launch)] = &[
    ("row_sum", |c, x, [a, b]| row_sum(c, x, x, a, b)),
    ("column_sum", |c, x, [a, b]| {
        column_sum(c, x, x, a, b, 1, false)
    }),
    ("column_sum", |c, x, [a, b]| {
        column_sum(c, x, x, 1, a, b, true)
    }),
    ("shard_sum", |c, x, [a, b]| shard_sum(c, x, x, a, b, false)),
    ("softmax_forward", |c, x, [a, b]| {
        softmax_forward(c, x, x, a, b)
    }),
    ("softmax_backward", |c, x, [a, b]| {
        softmax_backward(c, x, x, x, a, b)
    }),
    ("transpose", |c, x, [a, b]| transpose(c, x, a, b, x)),
    ("norm_forward", |c, x, [a, b]| {
        norm_forward(c, &Norm::layer(a, b, 1e-5), &forward_of(x, Some(x)))
    }),
    ("norm_backward_input", |c, x, [a, b]| {
        norm_backward_input(c, &Norm::layer(a, b, 1e-5), &input_of(x, Some(x)))
    }),
    ("norm_backward_params", |c, x, [a, b]| {
        norm_backward_params(c, &Norm::layer(a, b, 1e-5), &params_of(x, Some(x), 1))
    }),
    ("norm_backward_params", |c, x, [a, b]| {
        norm_backward_params(c, &Norm::layer(0, b, 1e-5), &params_of(x, Some(x), a))
    }),
    ("norm_forward", |c, x, [a, b]| {
        norm_forward(c, &Norm::rms(a, b, 1e-5), &forward_of(x, None))
    }),
    ("norm_backward_input", |c, x, [a, b]| {
        norm_backward_input(c, &Norm::rms(a, b, 1e-5), &input_of(x, None))
    }),
    ("norm_backward_params", |c, x, [a, b]| {
        norm_backward_params(c, &Norm::rms(a, b, 1e-5), &params_of(x, None, 1))
    }),
    ("norm_backward_params", |c, x, [a, b]| {
        norm_backward_params(c, &Norm::rms(0, b, 1e-5), &params_of(x, None, a))
    }),
    ("cross_entropy_forward", |c, x, [a, b]| {
        cross_entropy_forward(c, x, x, x, x, a, b, 0.0)
    }),
    ("cross_entropy_backward", |c, x, [a, b]| {
        cross_entropy_backward(c, x, x, x, x, x, a, b, 0.0)
    }),
    ("batch_norm_statistics", |c, x, f| {
        batch_norm_statistics(c, x, None, None, None, x, &norm(f), 1e-5)
    }),
    ("batch_norm_statistics", |c, x, f| {
        batch_norm_statistics(c, x, None, None, Some(x), x, &norm(f), 1e-5)
    }),
    ("batch_norm_follow", |c, x, f| {
        batch_norm_follow(c, x, x, &running(x), &norm(f))
    }),
    ("batch_norm_apply", |c, x, f| {
        batch_norm_apply(c, x, x, x, x, None, None, x, &norm(f))
    }),
    ("batch_norm_backward", |c, x, f| {
        batch_norm_backward(c, x, x, x, x, None, x, [x, x], false, &norm(f))
    }),
    ("embedding_forward", |c, x, [a, b]| {
        embedding_forward(c, x, x, x, 0, a, b)
    }),
    ("embedding_forward", |c, x, [a, b]| {
        embedding_forward(c, x, x, x, a, b, b)
    }),
    ("embedding_backward", |c, x, [a, b]| {
        embedding_backward(c, x, x, x, embedding([a, b, a, b]), false)
    }),
    ("embedding_backward", |c, x, [a, b]| {
        embedding_backward(c, x, x, x, embedding([1, 0, a, b]), false)
    }),
    ("embedding_backward_sum", |c, x, [a, b]| {
        embedding_backward_sum(c, x, x, x, embedding([2, 0, a, b]))
    }),
    ("dropout", |c, x, [a, b]| {
        let counter = &c.alloc_typed(DType::U32, 2)?;
        let (p, seed, purpose) = (0.5, 1, 2);
        let shape = Dropout {
            p,
            seed,
            purpose,
            batch: 1,
            time: a,
            width: b,
        };
        dropout(c, x, x, counter, &shape)
    }),
    ("rope", |c, x, [a, b]| {
        let (scale, inverse) = (1.0, false);
        rope(
            c,
            x,
            x,
            x,
            x,
            &Rope {
                rows: x.len(),
                heads: a,
                width: b,
                scale,
                inverse,
            },
        )
    }),
    ("conv2d_forward", |c, x, f| {
        conv2d_forward(c, x, x, None, x, &conv(f))
    }),
    ("conv2d_backward_input", |c, x, f| {
        conv2d_backward_input(c, x, x, x, &conv(f))
    }),
    ("conv2d_backward_weight", |c, x, f| {
        conv2d_backward_weight(c, x, x, x, 1, false, &conv(f))
    }),
    ("conv2d_backward_bias", |c, x, f| {
        conv2d_backward_bias(c, x, x, 1, false, &conv(f))
    }),
    ("conv_transpose2d_forward", |c, x, f| {
        conv_transpose2d_forward(c, x, x, None, x, &conv(f))
    }),
    ("conv_transpose2d_backward_weight", |c, x, f| {
        conv_transpose2d_backward_weight(c, x, x, x, 1, false, &conv(f))
    }),
    ("max_pool2d_forward", |c, x, f| {
        max_pool2d_forward(c, x, x, x, &pool(f))
    }),
    ("max_pool2d_backward", |c, x, f| {
        max_pool2d_backward(c, x, x, x, &pool(f))
    }),
    ("avg_pool2d_forward", |c, x, f| {
        avg_pool2d_forward(c, x, x, &AvgPool2d::Windows(pool(f), AvgDivisor::Padded))
    }),
    ("avg_pool2d_backward", |c, x, f| {
        avg_pool2d_backward(c, x, x, &AvgPool2d::Windows(pool(f), AvgDivisor::Padded))
    }),
    ("avg_pool2d_forward", |c, x, [a, b]| {
        avg_pool2d_forward(c, x, x, &adaptive(1, [a, b]))
    }),
    ("avg_pool2d_backward", |c, x, [a, b]| {
        avg_pool2d_backward(c, x, x, &adaptive(a, [b, 1]))
    }),
    ("interpolate2d_forward", |c, x, f| {
        interpolate2d_forward(c, x, x, &resize(f))
    }),
    ("interpolate2d_backward", |c, x, f| {
        interpolate2d_backward(c, x, x, &resize(f))
    }),
    ("matmul", |c, x, [a, b]| {
        matmul(c, x, x, None, x, &MatMul::new(a, b, a))
    }),
    ("matmul", |c, x, [a, b]| {
        matmul(c, x, x, None, x, &apart(a, b))
    }),
    ("FloatProduct::run", |c, x, [a, b]| {
        let product = FloatProduct {
            epilogue: Epilogue::Add(x),
            ..FloatProduct::new([x, x], x, MatMul::new(a, b, b))
        };
        product.run(c)
    }),
    ("multiply", |c, x, [a, b]| {
        multiply_of(c, x, [Matrices::rows(1, a, b), Matrices::columns(1, b, a)])
    }),
    ("multiply", |c, x, [a, b]| {
        multiply_of(
            c,
            x,
            [Matrices::shards([a, b], a), Matrices::shards([a, b], b)],
        )
    }),
    ("matmul_integers", |c, x, [a, b]| {
        matmul_integers(c, x, x, x, &MatMul::new(a, b, a))
    }),
    ("step_product", |c, x, [a, b]| {
        step_product(c, [x, x], None, x, [a, b, a], false)
    }),
    ("integer_product", integer_product_of),
    ("prepare_norm", |c, x, f| {
        prepare_norm(c, &Norm::layer(f[0], f[1], 1e-5), x, x, Some(x), x).map(drop)
    }),
    ("prepare_norm", |c, x, f| {
        prepare_norm(c, &Norm::rms(f[0], f[1], 1e-5), x, x, None, x).map(drop)
    }),
    ("Prepared::new", |c, x, [a, b]| {
        Prepared::new(c, x, Preparation::of_rows(a, b, Digits::Two)).map(drop)
    }),
    ("Prepared::new", |c, x, [a, b]| {
        Prepared::new(c, x, Preparation::of_columns(a, 1, b, Digits::One)).map(drop)
    }),
    ("muon_step", |c, x, f| {
        muon_step(
            c,
            &Update::new(x, x, x, x),
            x,
            f,
            false,
            &Default::default(),
        )
    }),
    ("adafactor_step", |c, x, [a, b]| {
        let numbers = Adafactor {
            epsilon: 1e-7,
            least_scale: 1e-3,
            threshold: 1.0,
        };
        let squares = Squares::Factored {
            shape: [a, b, 2],
            row: x,
            col: x,
        };
        adafactor_step(c, &Update::new(x, x, x, x), squares, &numbers)
    }),
    ("guarded_factor", |c, x, [a, b]| {
        let one = &c.alloc(1)?;
        let watched = Watched {
            words: x.clone(),
            runs: a,
            run: 2,
            stride: b,
        };
        guarded_factor(c, one, &watched, one, 1.0)
    }),
    ("cell_forward", |c, x, f| {
        let step = step(Cell::Lstm, f);
        let cells = (step.cell == Cell::Lstm).then_some(x);
        let [from_hidden, hidden, gates, out] = [x; 4];
        cell_forward(
            c,
            step,
            &CellForward {
                x,
                from_hidden,
                cells,
                hidden,
                gates,
                out,
            },
        )
    }),
    ("cell_backward", |c, x, f| {
        let [gates, out, first, dout, dhidden, dstep, dx] = [x; 7];
        let step = step(Cell::Lstm, f);
        let is_lstm = step.cell == Cell::Lstm;
        let (dcells, dfrom_hidden) = (is_lstm.then_some(x), (!is_lstm).then_some(x));
        let buffers = CellBackward {
            gates,
            out,
            first,
            dout,
            dhidden,
            dcells,
            dstep,
            dx,
            dfrom_hidden,
        };
        cell_backward(c, step, &buffers)
    }),
    ("cell_forward", |c, x, f| {
        let step = step(Cell::Gru, f);
        let cells = (step.cell == Cell::Lstm).then_some(x);
        let [from_hidden, hidden, gates, out] = [x; 4];
        cell_forward(
            c,
            step,
            &CellForward {
                x,
                from_hidden,
                cells,
                hidden,
                gates,
                out,
            },
        )
    }),
    ("cell_backward", |c, x, f| {
        let [gates, out, first, dout, dhidden, dstep, dx] = [x; 7];
        let step = step(Cell::Gru, f);
        let is_lstm = step.cell == Cell::Lstm;
        let (dcells, dfrom_hidden) = (is_lstm.then_some(x), (!is_lstm).then_some(x));
        let buffers = CellBackward {
            gates,
            out,
            first,
            dout,
            dhidden,
            dcells,
            dstep,
            dx,
            dfrom_hidden,
        };
        cell_backward(c, step, &buffers)
    }),
    ("experts_table", |c, x, f| {
        experts_table(c, x, &choices(f)).map(drop)
    }),
    ("experts_bounds", |c, x, [a, b]| {
        let [experts, order, rows, slots] = [0; 4].map(|_| x.clone());
        let table = ExpertsTable {
            experts,
            order,
            rows,
            slots,
        };
        let choices = Choices {
            tokens: 0,
            per_token: 1,
            experts: a,
        };
        experts_bounds(c, &table, x, b, &choices)
    }),
    ("experts_sum", |c, x, [a, b]| {
        let choices = Choices {
            tokens: a,
            per_token: 1,
            experts: 1,
        };
        experts_sum(c, x, None, x, x, &choices, b)
    }),
    ("experts_product", |c, x, [a, b]| {
        let product = ExpertsProduct {
            rows: a,
            n: b,
            k: b,
            trans_b: false,
        };
        let of_x = product::Operand::Floats(x.clone(), Matrices::rows(1, a, b));
        experts_product(c, &of_x, std::slice::from_ref(x), x, x, &product)
    }),
    ("ExpertsGradient::of_weight", |c, x, of| {
        ExpertsGradient::new(c, [x, x], None, [1, 1], x, 1)?.of_weight(c, of, x, false)
    }),
    ("PreparedAttention::by, packed", |c, x, [a, b]| {
        attend(
            c,
            x,
            Schedule::Packed,
            &Attention::causal([a, b], 1, 64),
            false,
        )
    }),
    ("PreparedAttention::by, packed, backward", |c, x, [a, b]| {
        attend(
            c,
            x,
            Schedule::Packed,
            &Attention::causal([a, 1], b, 64),
            true,
        )
    }),
    ("append_heads", |c, x, [a, b]| {
        let shape = Attention {
            keys: 1,
            key_heads: 1,
            ..Attention::causal([0, a], b, 1)
        };
        append_heads(c, &append_inputs(x, 0, 1), x, [x, x], &shape)
    }),
    ("append_heads", |c, x, [a, b]| {
        // Two rows, whose last one begins where no buffer ends.
        let one = &c.alloc(2)?;
        let shape = Attention {
            key_heads: 1,
            ..Attention::causal([1, 2], 0, 1)
        };
        append_heads(
            c,
            &append_inputs(one, a.wrapping_neg(), a.max(b)),
            x,
            [one, one],
            &shape,
        )
    }),
    ("QuantisedHeads::of_keys", |c, _, f| {
        QuantisedHeads::of_keys(c, f, [1, 1]).map(drop)
    }),
    ("QuantisedHeads::of_queries", |c, _, [a, b]| {
        QuantisedHeads::of_queries(c, [1, a], [b, 4]).map(drop)
    }),
    ("QuantisedHeads::with_words", |c, x, [a, b]| {
        let heads = QuantisedHeads::of_keys(c, [1, 2], [1, 4])?;
        let words = x.view_as(DType::U32, x.len())?;
        heads.with_words(a.max(b), words).map(drop)
    }),
    ("CachedHeads::new", |c, _, [a, b]| {
        CachedHeads::new(c, a, [b, 1]).map(drop)
    }),
    ("CachedHeads::attend", |c, x, [a, b]| {
        let cache = CachedHeads::new(c, 1, [1, 4])?;
        let new = AppendInputs {
            pages: Some(Pages {
                table: x,
                n: 1,
                in_order: false,
            }),
            ..append_inputs(x, 0, 1)
        };
        let of = Attention {
            queries: a,
            heads: b,
            keys: PAGE,
            ..ranged([1, 1])
        };
        cache.attend(c, &new, x, None, &of).map(drop)
    }),
    ("PreparedAttention::new", |c, x, f| {
        with_operands(x, |operands| {
            let prepared = PreparedAttention::new(c, operands, &ranged(f), false)?;
            prepared.forward(c, operands).map(drop)
        })
    }),
    ("layouts_of_packed", |_, _, f| {
        layouts_of_packed(&ranged(f)).map(drop)
    }),
    ("query_ranges", |c, x, f| {
        query_ranges(c, &Limits::default(), x, &ranged(f))
    }),
    ("key_ranges", |c, x, f| {
        key_ranges(c, &Limits::default(), x, &ranged(f))
    }),
    ("PreparedAttention::by, rows", |c, x, f| {
        attend(c, x, Schedule::Rows, &ranged(f), false)
    }),
    ("PreparedAttention::by, few", |c, x, f| {
        attend(c, x, Schedule::Few, &ranged(f), false)
    }),
    ("PreparedAttention::by, quantised", |c, x, f| {
        attend(c, x, Schedule::Quantised, &ranged(f), false)
    }),
    ("PreparedAttention::by, rows, backward", |c, x, f| {
        attend(c, x, Schedule::Rows, &ranged(f), true)
    }),
    ("PreparedAttention::by, quantised, backward", |c, x, f| {
        attend(c, x, Schedule::Quantised, &ranged(f), true)
    }),
    ("integer_attention_of_cache", |c, x, f| {
        let heads = QuantisedHeads::of_keys(c, [1, 2], [1, 4])?;
        integer_attention_of_cache(c, [&heads, &heads, &heads], None, x, x, &ranged(f))
    }),
];

fn norm([a, b]: [usize; 2]) -> BatchNorm {
    BatchNorm {
        shards: 1,
        samples: a,
        channels: b,
        length: 2,
    }
}

fn embedding([shards, rows_per_shard, vocabulary, width]: [usize; 4]) -> EmbeddingSizes {
    EmbeddingSizes {
        shards,
        rows_per_shard,
        vocabulary,
        width,
    }
}

fn running(x: &Buffer) -> Running<'_> {
    Running {
        mean: x,
        variance: x,
        tracked: x,
        momentum: None,
    }
}

fn conv([a, b]: [usize; 2]) -> Conv2d {
    Conv2d {
        batch: a,
        in_channels: b,
        out_channels: b,
        groups: 1,
        input: [1, 1],
        kernel: [1, 1],
        stride: [1, 1],
        padding: [0, 0],
        dilation: [1, 1],
    }
}

fn pool([a, b]: [usize; 2]) -> Pool2d {
    Pool2d {
        planes: a,
        windows: Windows {
            input: [b.min(1 << 28), 2],
            kernel: [1, 1],
            stride: [1, 1],
            padding: [0, 0],
            dilation: [b, 1],
        },
        ceil_mode: false,
    }
}

fn resize([a, b]: [usize; 2]) -> Interpolate2d {
    Interpolate2d {
        planes: a,
        input: [b, 1],
        output: [b, 1],
        mode: Interpolation::Nearest,
        scale_factor: None,
    }
}

/// Products so far apart that the place of the last one wraps.
fn apart(batch: usize, stride: usize) -> MatMul {
    MatMul {
        batch: batch.wrapping_add(1),
        stride_a: stride,
        stride_b: stride,
        stride_c: stride,
        ..MatMul::new(1, 1, 1)
    }
}

fn integer_product_of(c: &Device, x: &Buffer, [a, b]: [usize; 2]) -> Result<(), KernelError> {
    let values = c.alloc(4)?;
    let operand = Prepared::new(c, &values, Preparation::of_rows(1, 4, Digits::Two))?;
    let shape = IntegerProduct {
        batch: 1,
        within: Some([a, b]),
        ..IntegerProduct::new(a, b, 4)
    };
    integer_product(c, [&operand, &operand], None, x, &shape, Epilogue::None)
}

/// In both arithmetics.
fn multiply_of(c: &Device, x: &Buffer, of: [Matrices; 2]) -> Result<(), KernelError> {
    let run = |arithmetic| {
        let c = &c.with_arithmetic(arithmetic);
        let a = product::Operand::new(c, Role::Signal, x, of[0])?;
        let b = product::Operand::new(c, Role::Weight, x, of[1])?;
        multiply(c, [&a, &b], End::NONE, x)
    };
    run(Arithmetic::Portable).or_else(|error| run(Arithmetic::Integer).map_err(|_| error))
}

fn step(cell: Cell, [a, b]: [usize; 2]) -> TimeStep {
    TimeStep {
        cell,
        batch: a,
        time: 1,
        width: b,
        position: 0,
        previous: None,
    }
}

fn choices([a, b]: [usize; 2]) -> Choices {
    Choices {
        tokens: a,
        per_token: b,
        experts: b,
    }
}

fn append_inputs(x: &Buffer, first: usize, stride: usize) -> AppendInputs<'_> {
    let rows = HeadRows {
        buffer: x,
        first,
        stride,
    };
    let (norms, rotation) = (None, None);
    AppendInputs {
        q: rows,
        k: rows,
        v: rows,
        norms,
        rotation,
        first_positions: x,
        lengths: x,
        pages: None,
    }
}

fn ranged([a, b]: [usize; 2]) -> Attention {
    Attention {
        batch: a,
        queries: 1,
        keys: 1,
        heads: b,
        key_heads: b,
        head_width: 4,
        scale: 1.0,
        soft_cap: None,
        dropout: None,
        causal: true,
        window: Some(usize::MAX),
    }
}

fn with_operands(
    x: &Buffer,
    run: impl FnOnce(&AttentionOperands<'_>) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let layout = Layout::contiguous(&[x.len(), 1, 1, 4])?;
    let operand = Operand {
        buffer: x,
        layout: &layout,
    };
    run(&AttentionOperands {
        heads: [operand; 3],
        packed: Some(x),
        limits: Limits::default(),
        counter: None,
    })
}

fn attend(
    device: &Device,
    x: &Buffer,
    schedule: Schedule,
    of: &Attention,
    backward: bool,
) -> Result<(), KernelError> {
    with_operands(x, |operands| {
        let prepared = PreparedAttention::by(schedule, device, operands, Some(x), of, backward)?;
        if !backward {
            return prepared.forward_to(device, operands, [x, x]);
        }
        let output = AttentionOutput {
            o: x,
            stats: x,
            d_o: x,
        };
        let gradients = AttentionGradients {
            delta: x,
            heads: operands.heads,
        };
        prepared.backward_to(device, operands, &output, &gradients)
    })
}

fn forward_of<'a>(x: &'a Buffer, bias: Option<&'a Buffer>) -> NormForward<'a> {
    NormForward {
        x,
        weight: x,
        bias,
        y: x,
        stats: x,
    }
}

fn input_of<'a>(x: &'a Buffer, residual: Option<&'a Buffer>) -> NormBackwardInput<'a> {
    NormBackwardInput {
        x,
        weight: x,
        stats: x,
        dy: x,
        residual,
        dx: x,
    }
}

fn params_of<'a>(
    x: &'a Buffer,
    dbias: Option<&'a Buffer>,
    shards: usize,
) -> NormBackwardParams<'a> {
    NormBackwardParams {
        x,
        stats: x,
        dy: x,
        dweight: x,
        dbias,
        shards,
        accumulate: false,
    }
}

fn adaptive(planes: usize, extents: [usize; 2]) -> AvgPool2d {
    AvgPool2d::Adaptive {
        planes,
        input: extents,
        output: extents,
    }
}
