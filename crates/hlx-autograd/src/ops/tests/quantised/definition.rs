//! Products of quantised operands number by number, in 64-bit integers and f64: what the operations' tests compare with.

/// Terms of a piece of a row, and of a sum that is one piece.
pub const PIECE: usize = 4096;
pub const WHOLE: usize = 1 << 17;
/// The largest integers of operands with two digits and with one.
const TWO_DIGITS: f64 = 32_639.0;
const ONE_DIGIT: f64 = 127.0;

/// A piece as integers and their exponent; none where a number is not finite.
type Piece = (Vec<i64>, Option<i32>);

fn piece(x: &[f32], largest: f64) -> Piece {
    if x.iter().any(|x| !x.is_finite()) {
        return (vec![0; x.len()], None);
    }
    let top = x.iter().fold(0.0_f32, |top, x| top.max(x.abs()));
    if top < f32::MIN_POSITIVE {
        return (vec![0; x.len()], Some(254));
    }
    let scaled = |x: f32, e: i32| (f64::from(x) * 2.0_f64.powi(e)).round_ties_even();
    // The largest e with which the largest number still has the digits.
    let e = (-130..=254).rev().find(|&e| scaled(top, e) <= largest);
    let e = e.expect("an exponent");
    (x.iter().map(|&x| scaled(x, e) as i64).collect(), Some(e))
}

/// The nearest float, which is no subnormal and no -0.
fn flushed(value: f64) -> f32 {
    match value.abs() < f64::from(f32::MIN_POSITIVE) {
        true => 0.0,
        false => value as f32 + 0.0,
    }
}

fn of_piece(a: &Piece, b: &Piece) -> f32 {
    let (Some(e_a), Some(e_b)) = (a.1, b.1) else {
        return f32::NAN;
    };
    let sum: i64 = a.0.iter().zip(&b.0).map(|(a, b)| a * b).sum();
    flushed(f64::from(sum as f32) * 2.0_f64.powi(-(e_a + e_b)))
}

/// The products of rows `a` with two digits and rows `b` with one, \[a, b\]: pieces of `terms` terms are added in order.
pub fn product(a: &[Vec<f32>], b: &[Vec<f32>], terms: usize) -> Vec<f32> {
    let pieces = |rows: &[Vec<f32>], largest: f64| -> Vec<Vec<Piece>> {
        let of_row = |row: &Vec<f32>| row.chunks(terms).map(|x| piece(x, largest)).collect();
        rows.iter().map(of_row).collect()
    };
    let (a, b) = (pieces(a, TWO_DIGITS), pieces(b, ONE_DIGIT));
    let element = |a: &Vec<Piece>, b: &Vec<Piece>| {
        let results = a.iter().zip(b).map(|(a, b)| of_piece(a, b));
        let sum = results.reduce(|sum, r| flushed(f64::from(sum) + f64::from(r)));
        sum.unwrap_or(0.0)
    };
    let results = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    results.map(|(a, b)| element(a, b)).collect()
}

/// The rows of a matrix of a given number of columns.
pub fn rows(x: &[f32], columns: usize) -> Vec<Vec<f32>> {
    x.chunks(columns.max(1)).map(<[f32]>::to_vec).collect()
}

/// The columns of a matrix that has `columns` of them.
pub fn columns(x: &[f32], columns: usize) -> Vec<Vec<f32>> {
    let column = |at: usize| x.iter().skip(at).step_by(columns).copied().collect();
    (0..columns).map(column).collect()
}

/// The transpose of a matrix of a given number of columns.
pub fn transposed(x: &[f32], n: usize) -> Vec<f32> {
    columns(x, n).concat()
}

/// The bits, every NaN one.
pub fn bits(x: &[f32]) -> Vec<u32> {
    let canonical = |x: &f32| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() };
    x.iter().map(canonical).collect()
}
