//! Reductions of rows, columns, shards and whole buffers, against f64 and in their written order.

use super::*;
use crate::testing::{assert_close, normal, run_everywhere, values};

const COLS: [usize; 9] = [1, 31, 32, 33, 127, 128, 129, 1009, 2048];

#[test]
fn rows_match_the_reference() {
    for (cols, rows) in COLS.into_iter().zip([1, 7, 8, 9, 3, 64, 2, 5, 11]) {
        let x = normal(1, rows * cols);
        let got = run_everywhere("row_sum", |device, mem| {
            let input = mem.input(device, &x)?;
            let sums = mem.output(device, rows)?;
            row_sum(device, &input, &sums, rows, cols)?;
            Ok(vec![sums])
        });
        let rows = x.chunks(cols).map(|row| row.iter().map(|x| f64::from(*x)));
        let sums: Vec<f64> = rows.map(Iterator::sum).collect();
        assert_close("row_sum", &got[0], &sums, 1e-6, 1e-4);
    }
}

#[test]
fn whole_buffers_match_the_reference() {
    for n in [1, 33, 4095, 4096, 4097, 300_007] {
        let x = normal(2, n);
        let got = run_everywhere("sum", |device, mem| {
            let input = mem.input(device, &x)?;
            let (total, norm) = (mem.output(device, 1)?, mem.output(device, 1)?);
            sum(device, &input, &total)?;
            global_norm(device, &input, &norm)?;
            Ok(vec![total, norm])
        });
        let x = x.iter().map(|x| f64::from(*x));
        assert_close("sum", &got[0], &[x.clone().sum()], 1e-6, 1e-3);
        let squares: f64 = x.map(|x| x * x).sum();
        assert_close("global_norm", &got[1], &[squares.sqrt()], 1e-6, 0.0);
    }
}

/// The rows of parts are those of the whole, and their norm has its bits.
#[test]
fn a_norm_of_parts_has_the_bits_of_the_whole() {
    for n in [1, 4096, 4097, 300_007] {
        let x = values(7, n);
        let got = run_everywhere("norm_rows", |device, mem| {
            let input = mem.input(device, &x)?;
            let (norm, of_parts) = (mem.output(device, 1)?, mem.output(device, 1)?);
            global_norm(device, &input, &norm)?;
            let cut = n.div_ceil(FLAT_ROW) / 3;
            let mut rows = Vec::new();
            for (begin, end) in [(0, cut * FLAT_ROW), (cut * FLAT_ROW, n)] {
                let part = device.alloc((end - begin).div_ceil(FLAT_ROW))?;
                norm_rows(device, &input.slice(begin, end - begin)?, &part)?;
                rows.extend(device.download_words(&part)?);
            }
            norm_of_rows(
                device,
                &device
                    .buffer_of::<u32>(&rows)?
                    .view_as(hlx_core::DType::F32, rows.len())?,
                &of_parts,
            )?;
            Ok(vec![norm, of_parts])
        });
        assert_eq!(got[0][0].to_bits(), got[1][0].to_bits(), "{n}");
    }
}

#[test]
fn columns_match_the_reference_and_accumulation_continues_the_chain() {
    for (shards, rows_per_shard, cols) in [
        (1, 1, 1),
        (2, 64, 33),
        (3, 65, 31),
        (1, 300, 129),
        (4, 7, 257),
    ] {
        let x = normal(3, shards * rows_per_shard * cols);
        let got = run_everywhere("column_sum", |device, mem| {
            let input = mem.input(device, &x)?;
            let out = mem.output(device, shards * cols)?;
            column_sum(device, &input, &out, shards, rows_per_shard, cols, false)?;
            Ok(vec![out])
        });
        let mut want = vec![0.0; shards * cols];
        for (row_idx, row) in x.chunks(cols).enumerate() {
            for (col, x) in row.iter().enumerate() {
                want[row_idx / rows_per_shard * cols + col] += f64::from(*x);
            }
        }
        assert_close("column_sum", &got[0], &want, 1e-6, 1e-4);
    }
    let (rows, cols) = (150, 40);
    let x = values(4, rows * cols);
    let got = run_everywhere("column_sum", |device, mem| {
        let whole = mem.input(device, &x)?;
        let first = mem.input(device, &x[..67 * cols])?;
        let rest = mem.input(device, &x[67 * cols..])?;
        let (at_once, in_two) = (mem.output(device, cols)?, mem.output(device, cols)?);
        column_sum(device, &whole, &at_once, 1, rows, cols, false)?;
        column_sum(device, &first, &in_two, 1, 67, cols, false)?;
        column_sum(device, &rest, &in_two, 1, rows - 67, cols, true)?;
        Ok(vec![at_once, in_two])
    });
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&got[0]), bits(&got[1]));
}

#[test]
fn shards_are_summed_pairwise() {
    for shards in [1, 2, 3, 4, 5, 6, 7, 8, 16, 21] {
        for n in [1, 31, 32, 1009, 5004] {
            let x = normal(5, shards * n);
            let stored = normal(6, n);
            let got = run_everywhere("shard_sum", |device, mem| {
                let partials = mem.input(device, &x)?;
                let out = mem.output(device, n)?;
                let total = mem.input(device, &stored)?;
                shard_sum(device, &partials, &out, shards, n, false)?;
                shard_sum(device, &partials, &total, shards, n, true)?;
                Ok(vec![out, total])
            });
            for i in 0..n {
                let mut level: Vec<f32> = (0..shards).map(|s| x[s * n + i]).collect();
                while level.len() > 1 {
                    level = level.chunks(2).map(|pair| pair.iter().sum()).collect();
                }
                assert_eq!(got[0][i], level[0], "{shards} shards");
                assert_eq!(got[1][i], stored[i] + level[0], "{shards} shards");
            }
        }
    }
}
