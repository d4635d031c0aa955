//! Products whose results lie elsewhere than row by row, or that share an operand: the bits of plain products.

use super::*;

/// Sizes of a product, and how its results are stored.
struct Case {
    sizes: [usize; 4],
    groups: Option<usize>,
    transposed: bool,
    /// Elements before C, and more than a row needs from row to row.
    margins: Option<[usize; 2]>,
}

impl Case {
    fn shape(&self) -> IntegerProduct {
        let [batch, m, n, k] = self.sizes;
        let row = if self.transposed { m } else { n };
        IntegerProduct {
            batch,
            groups: self.groups,
            transposed: self.transposed,
            within: self.margins.map(|[first, more]| [first, row + more]),
            ..IntegerProduct::new(m, n, k)
        }
    }

    /// Each product alone, row by row, with the bias of its group.
    fn alone(&self, a: &[f32], b: &[f32], bias: &[f32]) -> Vec<f32> {
        let [batch, m, n, k] = self.sizes;
        let products = (0..batch).flat_map(|i| {
            let group = i % self.shape().n_groups();
            let bias = Some(&bias[group * n..][..n]);
            let (a, b) = (&a[i * m * k..][..m * k], &b[group * n * k..][..n * k]);
            product_everywhere(a, b, bias, [m, n, k])
        });
        products.collect()
    }

    /// Where element (m, n) of product i lies.
    fn place(&self, i: usize, m: usize, n: usize) -> usize {
        let ([_, rows, columns, _], [first, row]) = (self.sizes, self.shape().place());
        first
            + match self.transposed {
                true => (i * columns + n) * row + m,
                false => (i * rows + m) * row + n,
            }
    }

    fn check(&self) {
        let [batch, m, n, k] = self.sizes;
        let shape = self.shape();
        let groups = shape.n_groups();
        let (a, b) = (awkward(1, batch * m, k), awkward(2, groups * n, k));
        let (bias, stored) = (normal(3, groups * n), normal(4, shape.reach()));
        let got = run_everywhere(&format!("{shape:?}"), |device, mem| {
            let [_, layout] = layouts(device);
            let of_a = Preparation::of_rows(batch * m, k, Digits::Two);
            let of_b = Preparation::of_rows(groups * n, k, Digits::One);
            let a = prepared(device, mem, &a, Preparation { layout, ..of_a })?;
            let b = prepared(device, mem, &b, Preparation { layout, ..of_b })?;
            let bias = mem.input(device, &bias)?;
            let mut outputs = Vec::new();
            for device in &every_way(device) {
                for accumulate in [false, true] {
                    let c = mem.input(device, &stored)?;
                    let shape = IntegerProduct {
                        accumulate,
                        ..shape
                    };
                    integer_product(device, [&a, &b], Some(&bias), &c, &shape, Epilogue::None)?;
                    outputs.push(c);
                }
            }
            Ok(outputs)
        });
        let alone = self.alone(&a, &b, &bias);
        for (way, found) in got.iter().enumerate() {
            let mut expected = stored.clone();
            for (at, value) in alone.iter().enumerate() {
                let place = self.place(at / n / m, at / n % m, at % n);
                expected[place] = match way % 2 {
                    0 => *value,
                    _ => value + stored[place],
                };
            }
            assert_eq!(bits(found), bits(&expected), "{way}: {shape:?}");
        }
    }
}

#[test]
fn results_transposed_apart_and_of_shared_operands_are_those_of_products_alone() {
    for (sizes, groups, transposed, margins) in [
        ([1, 3, 5, 31], None, true, None),
        ([2, 33, 17, 70], None, true, None),
        ([4, 64, 128, 65], Some(2), true, None),
        ([4, 20, 9, 40], Some(2), false, None),
        ([6, 67, 36, 33], Some(3), true, Some([12, 8])),
        ([2, 130, 132, 64], Some(1), true, Some([8, 4])),
        ([2, 65, 4, 64], None, false, Some([4, 12])),
        ([1, 31, 7, 2 * PIECE + 3], None, true, Some([3, 1])),
        ([2, 5, 3, PIECE + 1], Some(1), false, Some([1, 2])),
    ] {
        Case {
            sizes,
            groups,
            transposed,
            margins,
        }
        .check();
    }
}

#[test]
fn an_epilogue_of_results_that_lie_elsewhere_is_refused() {
    let device = &hlx_core::testing::cpu().expect("the CPU device");
    let x = device.alloc(8).expect("memory");
    let of = |n_digits| {
        Prepared::new(device, &x, Preparation::of_rows(1, 8, n_digits)).expect("prepared")
    };
    let shape = IntegerProduct {
        transposed: true,
        ..IntegerProduct::new(1, 1, 8)
    };
    let (a, b) = (of(Digits::Two), of(Digits::One));
    let c = device.alloc(1).expect("memory");
    let error = integer_product(device, [&a, &b], None, &c, &shape, Epilogue::Scale(2.0));
    assert_eq!(
        error.expect_err("refused").to_string(),
        "integer_product: an epilogue is for a C that is its whole buffer"
    );
}
