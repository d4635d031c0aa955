//! Tables and what indexes them: rows that no index names, unused experts, absent tokens; optimizers' states; digests.

use hlx_core::{Arithmetic, Buffer, DType};
use hlx_kernels::KernelError;
use hlx_kernels::activation::Activation;
use hlx_kernels::embedding::{
    EmbeddingSizes, embedding_backward, embedding_backward_sum, embedding_forward,
};
use hlx_kernels::experts::{Choices, experts_bounds, experts_sum, experts_table};
use hlx_kernels::indexing::{gather, index_add, index_select, scatter, scatter_add};
use hlx_kernels::norm::Norm;
use hlx_kernels::optimizer::adafactor::{Adafactor, Squares, adafactor_step};
use hlx_kernels::optimizer::eight_bit::{self, BlockedParameter, Blocks, adamw_8bit_step};
use hlx_kernels::optimizer::muon::{NewtonSchulz, muon_step};
use hlx_kernels::optimizer::{
    Groups, Hyper, Update, Watched, adagrad_step, adam_step, average_step, clip_factor,
    guarded_factor, lion_step, rmsprop_step, sgd_momentum_step, sgd_step,
};
use hlx_kernels::product::quantised::{
    Beside, Digits, IntegerProduct, Preparation, Prepared, Source, integer_product, prepare_norm,
};
use hlx_kernels::product::{
    Epilogue, ExpertsGradient, ExpertsProduct, Matrices, Operand, Role, experts_product,
};
use hlx_kernels::testing::{ids, normal, values};
use hlx_kernels::tree_digest::{DigestKind, tree_digest};

use crate::Entry;
use crate::run::{Run, Tensor};
use crate::ways::{DIGESTS, INTEGERS, PROCESSORS, ROWS};

/// Rows of the table that no token names, and the gradient of a token that is outside of it.
fn embeddings(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (n, vocabulary) = (24, 50);
    let mut tokens: Vec<u32> = ids(1, n, 20);
    let outside = 5;
    tokens[outside] = vocabulary as u32;
    let of_tokens = run.ids(&tokens)?;
    for width in [7, 12] {
        let weight = run.input_hiding(&normal(2, vocabulary * width), |at| {
            !tokens.contains(&((at / width) as u32))
        })?;
        let y = run.output(n * width)?;
        embedding_forward(run.device, &of_tokens, &weight, &y, n, vocabulary, width)?;
        let dy = run.input_hiding(&normal(3, n * width), |at| at / width == outside)?;
        let dweight = run.output(2 * vocabulary * width)?;
        let sizes = EmbeddingSizes {
            shards: 2,
            rows_per_shard: n / 2,
            vocabulary,
            width,
        };
        embedding_backward(run.device, &of_tokens, &dy, &dweight, sizes, false)?;
        let total = run.output(vocabulary * width)?;
        embedding_backward_sum(run.device, &of_tokens, &dy, &total, sizes)?;
        run.collect_all([&y, &dweight, &total])?;
    }
    Ok(())
}

/// Elements that no index names.
fn indices(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (rows, columns, picked) = (40, 12, 30);
    let index: Vec<u32> = ids(1, picked * columns, 20);
    let of_index = Tensor::new(&run.typed(&index)?, &[picked, columns])?;
    let x = run.input_hiding(&values(2, rows * columns), |at| {
        let (row, column) = (at / columns, at % columns);
        !(0..picked).any(|p| index[p * columns + column] as usize == row)
    })?;
    let x = Tensor::new(&x, &[rows, columns])?;
    let out = run.output(picked * columns)?;
    gather(run.device, x.operand(), 0, of_index.operand(), &out, None)?;
    run.collect(&out)?;
    let line: Vec<u32> = index[..picked].to_vec();
    let named = |row: usize| line.contains(&(row as u32));
    let x = run.input_hiding(&values(3, rows * columns), |at| !named(at / columns))?;
    let x = Tensor::new(&x, &[rows, columns])?;
    let of_line = Tensor::new(&run.typed(&line)?, &[picked])?;
    let out = run.output(picked * columns)?;
    index_select(run.device, x.operand(), 0, of_line.operand(), &out, None)?;
    run.collect(&out)?;
    let source = run.input(&values(4, picked * columns))?;
    let source = Tensor::new(&source, &[picked, columns])?;
    let shape = [rows, columns];
    for add in [scatter, scatter_add] {
        for axis in [0, 1] {
            let small: Vec<u32> = index.iter().map(|at| at % columns as u32).collect();
            let small = Tensor::new(&run.typed(&small)?, &[picked, columns])?;
            let target = run.input(&values(5, rows * columns))?;
            let at = small.operand();
            add(
                run.device,
                &target,
                &shape,
                axis,
                at,
                source.operand(),
                None,
            )?;
            run.collect(&target)?;
        }
    }
    let target = run.input(&values(6, rows * columns))?;
    index_add(
        run.device,
        &target,
        &shape,
        0,
        of_line.operand(),
        source.operand(),
        None,
    )?;
    run.collect(&target)?;
    lines(run)?;
    long_additions(run)
}

/// Long lines of few targets, a workgroup for each.
fn lines(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (lines, positions, targets) = (4, 300, 9);
    let index = run.typed(&ids(1, lines * positions, targets))?;
    let index = Tensor::new(&index, &[lines, positions])?;
    let source = run.input(&normal(2, lines * positions))?;
    let source = Tensor::new(&source, &[lines, positions])?;
    let shape = [lines, targets as usize];
    let target = run.input(&normal(3, lines * targets as usize))?;
    let at = index.operand();
    scatter_add(run.device, &target, &shape, 1, at, source.operand(), None)?;
    run.collect(&target)
}

/// Additions of more than one piece, which are sorted first.
fn long_additions(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (positions, rows) = (4200, 9);
    for columns in [3, 4] {
        let line = Tensor::new(&run.typed(&ids(1, positions, rows))?, &[positions])?;
        let source = run.input(&normal(2, positions * columns))?;
        let source = Tensor::new(&source, &[positions, columns])?;
        let shape = [rows as usize, columns];
        let target = run.input(&normal(3, rows as usize * columns))?;
        index_add(
            run.device,
            &target,
            &shape,
            0,
            line.operand(),
            source.operand(),
            None,
        )?;
        run.collect(&target)?;
    }
    Ok(())
}

/// Choices of tokens among experts, of which expert 1 has none.
fn chosen(tokens: usize, per_token: usize, experts: u32) -> Vec<u32> {
    let others: Vec<u32> = (0..experts).filter(|&e| e != 1).collect();
    (0..tokens * per_token)
        .map(|at| {
            let first = at / per_token % (others.len() - per_token + 1);
            others[first + at % per_token]
        })
        .collect()
}

/// An expert that no token chose: its weight, in a window with the others and apart.
fn experts(run: &mut Run<'_>) -> Result<(), KernelError> {
    for (tokens, n, k) in [(10, 33, 20), (100, 64, 16)] {
        let choices = Choices {
            tokens,
            per_token: 2,
            experts: 4,
        };
        let rows = choices.rows();
        let picks = run.typed(&chosen(tokens, 2, 4))?;
        let table = experts_table(run.device, &picks, &choices)?;
        let bounds = run.device.alloc_typed(DType::U32, 5)?;
        experts_bounds(run.device, &table, &bounds, 1, &choices)?;
        let by_shards = run.device.alloc_typed(DType::U32, 9)?;
        experts_bounds(run.device, &table, &by_shards, 2, &choices)?;
        run.collect_all([&bounds, &by_shards, &table.slots])?;
        let stride = usize::next_multiple_of(n * k, 64);
        let unused = |at: usize| at / stride == 1 || at % stride >= n * k;
        let window = run.input_hiding(&normal(1, 4 * stride), unused)?;
        let weights: Result<Vec<_>, _> = (0..4).map(|e| window.slice(e * stride, n * k)).collect();
        let weights = weights?;
        let x = run.input(&normal(2, rows * k))?;
        for trans_b in [false, true] {
            let product = ExpertsProduct {
                rows,
                n,
                k,
                trans_b,
            };
            for arithmetic in [Arithmetic::Portable, Arithmetic::Integer] {
                let device = &run.device.with_arithmetic(arithmetic);
                let x = Operand::new(device, Role::Signal, &x, Matrices::rows(1, rows, k))?;
                let y = run.output(rows * n)?;
                experts_product(device, &x, &weights, &bounds, &y, &product)?;
                run.collect(&y)?;
            }
        }
        let (dy, sums) = (run.input(&normal(3, rows * n))?, run.output(tokens * n)?);
        experts_sum(run.device, &dy, None, &table.slots, &sums, &choices, n)?;
        run.collect(&sums)?;
        for expert in [0, 1, 3] {
            // Rows of other experts are not read.
            let words = run.device.download_words(&bounds)?;
            let own = words[expert] as usize..words[expert + 1] as usize;
            let dy = run.input_hiding(&normal(3, rows * n), |at| !own.contains(&(at / n)))?;
            let x = run.input_hiding(&normal(2, rows * k), |at| !own.contains(&(at / k)))?;
            let dweight = run.output(2 * n * k)?;
            let of = ExpertsGradient::new(run.device, [&dy, &x], None, [n, k], &by_shards, 0)?;
            of.of_weight(run.device, [expert, 2], &dweight, false)?;
            run.collect(&dweight)?;
        }
        expert_gradients_of_quantised(run, [tokens, rows, n, k], &by_shards)?;
    }
    Ok(())
}

/// Rows without a gradient enter no maximum, whatever their inputs are.
fn expert_gradients_of_quantised(
    run: &mut Run<'_>,
    [tokens, rows, n, k]: [usize; 4],
    bounds: &hlx_core::Buffer,
) -> Result<(), KernelError> {
    let mut gradient = normal(3, rows * n);
    gradient
        .chunks_mut(n)
        .step_by(3)
        .for_each(|row| row.fill(0.0));
    let no_gradient = |row: usize| row.is_multiple_of(3);
    // A special in a row without a gradient would give it one.
    let dy = run.memory.input(run.device, &gradient)?;
    let x = run.input_hiding(&normal(4, rows * k), |at| no_gradient(at / k))?;
    let device = &run.device.with_arithmetic(Arithmetic::Integer);
    let dy_rows = Operand::new(device, Role::Gradient, &dy, Matrices::rows(1, rows, n))?;
    for beside in [None, Some(&dy_rows)] {
        let gradient = ExpertsGradient::new(device, [&dy, &x], beside, [n, k], bounds, tokens / 2)?;
        for expert in [0, 1, 3] {
            let dweight = run.output(2 * n * k)?;
            gradient.of_weight(device, [expert, 2], &dweight, false)?;
            run.collect(&dweight)?;
        }
    }
    Ok(())
}

/// Products of quantised operands: ends of rows, and rows whose partner is zeros.
fn quantised_products(run: &mut Run<'_>) -> Result<(), KernelError> {
    for [m, n, k] in [[5, 33, 37], [70, 66, 68]] {
        let (a, b) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
        let of_a = Prepared::new(run.device, &a, Preparation::of_rows(m, k, Digits::Two))?;
        let of_b = Prepared::new(run.device, &b, Preparation::of_rows(n, k, Digits::One))?;
        let (bias, c) = (run.input(&normal(3, n))?, run.output(m * n)?);
        let shape = IntegerProduct::new(m, n, k);
        let pair = [&of_a, &of_b];
        integer_product(run.device, pair, Some(&bias), &c, &shape, Epilogue::None)?;
        run.collect(&c)?;
        sources(run, [m, k], &of_b, n)?;
    }
    gradients_of_weights(run)
}

/// Rows that are computed where they are prepared.
fn sources(
    run: &mut Run<'_>,
    [m, k]: [usize; 2],
    b: &Prepared,
    n: usize,
) -> Result<(), KernelError> {
    let (x, up) = (run.input(&normal(4, m * k))?, run.input(&normal(5, m * k))?);
    let kind = Activation::ReLU;
    let of = Preparation::of_rows(m, k, Digits::Two);
    let gated = Source::Gated {
        kind,
        x: &x,
        up: &up,
    };
    for source in [Source::Activation { kind, x: &x }, gated] {
        let (a, c) = (Prepared::new(run.device, source, of)?, run.output(m * n)?);
        let shape = IntegerProduct::new(m, n, k);
        integer_product(run.device, [&a, b], None, &c, &shape, Epilogue::None)?;
        run.collect(&c)?;
    }
    Ok(())
}

/// Norms whose results are quantised at once.
fn quantised_norms(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (m, n, k) = (3, 5, 133);
    let (x, b) = (run.input(&normal(4, m * k))?, run.input(&normal(2, n * k))?);
    let (weight, bias) = (run.input(&normal(6, k))?, run.input(&normal(7, k))?);
    let b = Prepared::new(run.device, &b, Preparation::of_rows(n, k, Digits::One))?;
    let (stats, rms) = (run.output(2 * m)?, run.output(m)?);
    for a in [
        prepare_norm(
            run.device,
            &Norm::layer(m, k, 1e-5),
            &x,
            &weight,
            Some(&bias),
            &stats,
        )?,
        prepare_norm(run.device, &Norm::rms(m, k, 1e-5), &x, &weight, None, &rms)?,
    ] {
        let c = run.output(m * n)?;
        let shape = IntegerProduct::new(m, n, k);
        integer_product(run.device, [&a, &b], None, &c, &shape, Epilogue::None)?;
        run.collect(&c)?;
    }
    run.collect_all([&stats, &rms])
}

/// Columns of positions, of which those whose gradient is zeros enter no maximum: padding.
fn gradients_of_weights(run: &mut Run<'_>) -> Result<(), KernelError> {
    for positions in [40, 300] {
        let (m, n) = (12, 20);
        let padding = |position: usize| position.is_multiple_of(5);
        let mut gradient = normal(1, positions * m);
        for (position, row) in gradient.chunks_mut(m).enumerate() {
            if padding(position) {
                row.fill(0.0);
            }
        }
        let dy = run.memory.input(run.device, &gradient)?;
        let x = run.input_hiding(&normal(2, positions * n), |at| padding(at / n))?;
        let up = run.input_hiding(&normal(3, positions * n), |at| padding(at / n))?;
        let (weight, bias) = (run.input(&normal(4, n))?, run.input(&normal(5, n))?);
        let stats = run.input_hiding(&normal(6, 2 * positions), |at| padding(at / 2))?;
        let rms = run.input_hiding(&normal(7, positions), padding)?;
        let of_dy = Preparation::of_columns(1, positions, m, Digits::Two).whole();
        let of_x = Preparation::of_columns(1, positions, n, Digits::One).whole();
        let of_rows = Preparation::of_rows(positions, m, Digits::Two);
        let [rows, columns] = Prepared::rows_and_columns(run.device, &dy, of_rows, of_dy)?;
        let kind = Activation::ReLU;
        let sources = [
            Source::Stored(&x),
            Source::Activation { kind, x: &x },
            Source::Gated {
                kind,
                x: &x,
                up: &up,
            },
            Source::Norm {
                x: &x,
                stats: &stats,
                weight: &weight,
                bias: Some(&bias),
            },
            Source::Norm {
                x: &x,
                stats: &rms,
                weight: &weight,
                bias: None,
            },
        ];
        // Short columns find their largest magnitudes by themselves, from every source alike.
        let sources = if positions == 40 {
            &sources[..1]
        } else {
            &sources
        };
        for &source in sources {
            for beside in [Beside::Prepared(&rows), Beside::Values(&dy, m)] {
                let x = Prepared::columns_beside(run.device, source, of_x, beside)?;
                let dweight = run.output(m * n)?;
                let shape = IntegerProduct::new(m, n, positions);
                let pair = [&columns, &x];
                integer_product(run.device, pair, None, &dweight, &shape, Epilogue::None)?;
                run.collect(&dweight)?;
            }
        }
    }
    Ok(())
}

/// Every optimizer over a window of parameters, and a step that is skipped.
fn optimizers(run: &mut Run<'_>) -> Result<(), KernelError> {
    let n = 133;
    let hyper = Hyper {
        step: 2,
        learning_rate: 0.01,
        momentum: 0.9,
        weight_decay: 0.1,
        ..Hyper::default()
    };
    let hyper = run.ids(&[hyper.to_words(), hyper.to_words()].concat())?;
    let grads = run.input(&normal(1, n))?;
    for clip in [0.5_f32.to_bits(), hlx_kernels::optimizer::SKIPPED] {
        let clip = run.memory.input_u32(run.device, &[clip])?;
        let state = |run: &mut Run<'_>| -> Result<Vec<_>, KernelError> {
            let squares: Vec<f32> = normal(2, n).iter().map(|x| x * x).collect();
            (0..4).map(|_| run.input(&squares)).collect()
        };
        for kind in 0..11 {
            let state = state(run)?;
            let [params, a, b, c] = [&state[0], &state[1], &state[2], &state[3]];
            let update = Update {
                groups: Groups::One(1),
                ..Update::new(params, &grads, &hyper, &clip)
            };
            let device = run.device;
            match kind {
                0 => sgd_step(device, &update)?,
                1 => sgd_momentum_step(device, &update, a, true)?,
                2 => adam_step(device, &update, a, b)?,
                3 => adagrad_step(device, &update, a)?,
                4 => rmsprop_step(device, &update, a, None, None)?,
                5 => rmsprop_step(device, &update, a, Some(b), None)?,
                6 => rmsprop_step(device, &update, a, None, Some(c))?,
                7 => rmsprop_step(device, &update, a, Some(b), Some(c))?,
                8 => lion_step(device, &update, a)?,
                9 => average_step(device, &update)?,
                _ => muon_step(device, &update, a, [7, 19], true, &NewtonSchulz::default())?,
            }
            run.collect_all(&state)?;
        }
        eight_bit(run, &hyper, &clip)?;
        adafactor(run, &hyper, &clip)?;
    }
    factors(run)
}

/// Matrices with factors, and a vector.
fn adafactor(run: &mut Run<'_>, hyper: &Buffer, clip: &Buffer) -> Result<(), KernelError> {
    let numbers = Adafactor {
        epsilon: 1e-7,
        least_scale: 1e-3,
        threshold: 1.0,
    };
    let shape = [3, 7, 19];
    let n = shape.iter().product();
    for is_factored in [true, false] {
        let lens = if is_factored { [21, 57] } else { [n, 1] };
        let [grads, params] = [run.input(&normal(1, n))?, run.input(&normal(2, n))?];
        let [row, col] = [
            run.input(&vec![0.0; lens[0]])?,
            run.input(&vec![0.0; lens[1]])?,
        ];
        let squares = match is_factored {
            true => Squares::Factored {
                shape,
                row: &row,
                col: &col,
            },
            false => Squares::Whole(&row),
        };
        let update = Update::new(&params, &grads, hyper, clip);
        adafactor_step(run.device, &update, squares, &numbers)?;
        run.collect_all(&[params, row, col])?;
    }
    Ok(())
}

/// Moments in bytes and in f32, with a last block that is not full.
fn eight_bit(run: &mut Run<'_>, hyper: &Buffer, clip: &Buffer) -> Result<(), KernelError> {
    let n = 4_096 + 70;
    let state_at = eight_bit::state_words(n, true).next_multiple_of(64);
    let parameters = [(0, 0, n, true), (4_224, state_at, 33, false)];
    let parameters = parameters.map(|(params_at, state_at, len, is_packed)| BlockedParameter {
        params_at,
        state_at,
        len,
        is_packed,
        row: 1,
    });
    let blocks = Blocks::new(run.device, &parameters)?;
    let (grads, params) = (run.input(&normal(1, 4_257))?, run.input(&normal(2, 4_257))?);
    let zeros = vec![0.0; blocks.state_len()];
    let (mean, square) = (run.input(&zeros)?, run.input(&zeros)?);
    let update = Update::new(&params, &grads, hyper, clip);
    adamw_8bit_step(run.device, &update, &blocks, &mean, &square)?;
    run.collect_all(&[params, mean, square])
}

/// The factors that gradients are clipped by; between the watched runs lies anything.
fn factors(run: &mut Run<'_>) -> Result<(), KernelError> {
    let norm = run.input(&[3.0])?;
    let (clip, guarded) = (run.output(1)?, run.output(1)?);
    clip_factor(run.device, &norm, &clip, 1.0)?;
    let words = run.ids_hiding(&[7; 21], |at| at % 9 >= 3)?;
    let watched = Watched {
        words,
        runs: 3,
        run: 3,
        stride: 9,
    };
    guarded_factor(run.device, &norm, &watched, &guarded, 1.0)?;
    run.collect_all([&clip, &guarded])
}

/// The bytes behind a tensor's end enter no digest.
fn digests(run: &mut Run<'_>) -> Result<(), KernelError> {
    for n in [1, 37, 16_390] {
        let x = run.input(&normal(1, n))?;
        for kind in [DigestKind::F32, DigestKind::U32] {
            if kind == DigestKind::U32 && run.given.specials.is_some() {
                // A NaN's payload is not HLX's.
                continue;
            }
            let digest = tree_digest(run.device, &x, kind)?;
            let words = digest.as_bytes().chunks(4);
            let words: Vec<u32> = words
                .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                .collect();
            let typed = run.typed(&words)?;
            run.collect(&typed)?;
        }
    }
    Ok(())
}

/// The bodies.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::new("embeddings", PROCESSORS, embeddings),
        Entry::new("indices", PROCESSORS, indices),
        Entry::new("experts", INTEGERS, experts),
        Entry::new("experts, tiles", &crate::ways::PRODUCTS[2..4], experts),
        Entry::new(
            "products of quantised operands",
            INTEGERS,
            quantised_products,
        ),
        Entry::new("norms with quantised results", ROWS, quantised_norms),
        Entry::new("optimizers", &[], optimizers),
        Entry::new("digests", DIGESTS, digests),
    ]
}
