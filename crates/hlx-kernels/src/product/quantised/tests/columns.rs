//! Columns of matrices as operands, alone, by shards and with the rows, wherever their digits lie.

use super::*;

/// dyᵀ x of each of `shards` matrices with one exponent per column, on every device and by both paths.
fn weight_gradient(dy: &[f32], x: &[f32], [shards, k, m, n]: [usize; 4]) -> Vec<f32> {
    let got = run_everywhere(&format!("dyᵀ x {k} {m} {n}"), |device, mem| {
        let (dy, x) = (mem.input(device, dy)?, mem.input(device, x)?);
        let [in_rows, in_pieces] = layouts(device);
        let of_dy = Preparation {
            layout: in_pieces,
            ..Preparation::of_columns(shards, k, m, Digits::Two).whole()
        };
        let of_x = Preparation {
            layout: in_rows,
            ..Preparation::of_columns(shards, k, n, Digits::One).whole()
        };
        let a = Prepared::new(device, &dy, of_dy)?;
        let rows = Preparation {
            layout: in_pieces,
            ..Preparation::of_rows(shards * k, m, Digits::Two)
        };
        let rows = Prepared::new(device, &dy, rows)?;
        let b = Prepared::columns_beside(device, (&x).into(), of_x, Beside::Values(&dy, m))?;
        let beside_rows =
            Prepared::columns_beside(device, (&x).into(), of_x, Beside::Prepared(&rows))?;
        let shape = IntegerProduct {
            batch: shards,
            ..IntegerProduct::new(m, n, k)
        };
        let mut outputs = Vec::new();
        let [fastest, plain, dots] = every_way(device);
        for (device, b) in [
            (&fastest, &b),
            (&plain, &b),
            (&dots, &b),
            (&fastest, &beside_rows),
        ] {
            let c = mem.output(device, shards * m * n)?;
            integer_product(device, [&a, b], None, &c, &shape, Epilogue::None)?;
            outputs.push(c);
        }
        Ok(outputs)
    });
    let reasons = [
        "plainly",
        "by dot products",
        "the rows that count, by their integers",
    ];
    for (other, reason) in got[1..].iter().zip(reasons) {
        assert_eq!(bits(&got[0]), bits(other), "{k} {m} {n}: {reason}");
    }
    got[0].clone()
}

/// However many positions without a gradient lie between those with one, and whatever their inputs hold.
#[test]
fn positions_without_a_gradient_count_in_no_column() {
    for [k, m, n] in [[201, 3, 5], [4_500, 36, 8]] {
        let shards = 2;
        let (dy, x) = (awkward(7, shards * k, m), normal(8, shards * k * n));
        let plain = weight_gradient(&dy, &x, [shards, k, m, n]);
        let every = 3;
        let (mut padded_dy, mut padded_x) = (Vec::new(), Vec::new());
        for (at, (dy, x)) in dy.chunks(m).zip(x.chunks(n)).enumerate() {
            padded_dy.extend_from_slice(dy);
            padded_x.extend_from_slice(x);
            if at % every == 0 {
                padded_dy.extend((0..m).map(|i| if i == 0 { -0.0 } else { 0.0 }));
                let padding = [1e30, f32::NAN, f32::NEG_INFINITY, -3.0];
                padded_x.extend((0..n).map(|i| padding[i % padding.len()]));
            }
        }
        // Both shards have as many positions.
        let of_shard = padded_dy.len() / m / shards;
        let padded = weight_gradient(&padded_dy, &padded_x, [shards, of_shard, m, n]);
        assert_eq!(bits(&padded), bits(&plain), "{k} {m} {n}");
    }
}

#[test]
fn the_largest_digits_of_the_longest_column_fit() {
    // 127 127 2^17 and 128 127 2^17 are just below 2^31.
    for (value, k) in [
        (32_639.0, LONGEST),
        (-32_639.0, LONGEST),
        (32_384.0, LONGEST),
    ] {
        let mut dy = vec![value; k];
        dy[0] = 32_639.0;
        let got = weight_gradient(&dy, &vec![127.0; k], [1, k, 1, 1]);
        let sum = (value as i64 * (k as i64 - 1) + 32_639) * 127;
        assert_eq!(got[0].to_bits(), (sum as f32).to_bits());
    }
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let k = LONGEST + 1;
    let of = Preparation::of_columns(1, k, 1, Digits::Two).whole();
    let x = device.alloc(k).expect("memory");
    let error = Prepared::new(&device, &x, of).expect_err("too long");
    assert_eq!(
        error.to_string(),
        "prepare_integers: a sum of 131073 terms with one exponent, expected at most 131072; more shards have fewer"
    );
}

#[test]
fn columns_are_prepared_as_the_rows_of_the_transpose() {
    let [outer, columns, k] = [3, 37, 161];
    let x = awkward(5, outer * columns, k);
    let transposed: Vec<f32> = (0..x.len())
        .map(|at| {
            let (matrix, i, column) = (at / (k * columns), at / columns % k, at % columns);
            x[(matrix * columns + column) * k + i]
        })
        .collect();
    for n_digits in [Digits::Two, Digits::One] {
        let of = |x: &[f32], of: Preparation| {
            run_everywhere(&format!("prepare {of:?}"), |device, mem| {
                let prepared = prepared(device, mem, x, of)?;
                Ok(vec![prepared.digits, prepared.exponents])
            })
        };
        let words = |outputs: Vec<Vec<f32>>| -> Vec<Vec<u32>> {
            outputs.iter().map(|words| bits(words)).collect()
        };
        let of_rows = words(of(&x, Preparation::of_rows(outer * columns, k, n_digits)));
        let of_columns = words(of(
            &transposed,
            Preparation::of_columns(outer, k, columns, n_digits),
        ));
        assert_eq!(of_rows, of_columns);
    }
}

#[test]
fn rows_and_columns_together_are_those_of_each() {
    for ([outer, k, columns], n_digits) in [
        ([1, 5, 3], [Digits::Two, Digits::One]),
        ([3, 161, 37], [Digits::Two; 2]),
        ([2, 64, 128], [Digits::Two; 2]),
        ([1, 130, 4_100], [Digits::One, Digits::Two]),
        ([1, 4_100, 36], [Digits::Two, Digits::One]),
    ] {
        let x = awkward(6, outer * k, columns);
        let of_rows = Preparation::of_rows(outer * k, columns, n_digits[0]);
        let of_columns = Preparation::of_columns(outer, k, columns, n_digits[1]);
        let each = run_everywhere("prepare", |device, mem| {
            let rows = prepared(device, mem, &x, of_rows)?;
            let columns = prepared(device, mem, &x, of_columns)?;
            let one = [
                rows.digits,
                rows.exponents,
                columns.digits,
                columns.exponents,
            ];
            Ok([one.clone(), one].concat())
        });
        let both = run_everywhere("prepare_rows_and_columns", |device, mem| {
            let x = mem.input(device, &x)?;
            let mut outputs = Vec::new();
            for layout in layouts(device) {
                let mut empty = |of: Preparation| -> Result<Prepared> {
                    let of = Preparation { layout, ..of };
                    Ok(Prepared {
                        digits: mem.output_of(device, DType::I8, of.digits_len())?,
                        exponents: mem.output_of(device, DType::I32, of.exponents_len())?,
                        of,
                    })
                };
                let [rows, columns] = [empty(of_rows)?, empty(of_columns)?];
                prepare_rows_and_columns(device, &x, [&rows, &columns])?;
                for prepared in [rows, columns] {
                    outputs.extend([digits_in_rows(device, &prepared)?, prepared.exponents]);
                }
            }
            Ok(outputs)
        });
        for (each, both) in each.iter().zip(&both) {
            assert_eq!(bits(each), bits(both), "{of_rows:?} {of_columns:?}");
        }
    }
}
