//! Functions of two and three arguments, over structured and random triples.

use hlx_core::{Binding, Buffer, Device, Launch, arith, groups_1d, push_bytes};
use rayon::prelude::*;

use super::{Comparison, Progress, compare_chunk, overlapped};
use hlx_core::multiversion;
use hlx_kernels::{KernelError, check_that, shader};

shader!(sweep, arith::sweep);

/// The operations; a place in the list is the number in the shader, and those of one argument
/// lie between.
pub const OPERATIONS: [&str; 30] = [
    "fma", "mul", "add", "sub", "div", "sqrt", "rsqrt", "exp", "log", "sigmoid", "tanh", "erf",
    "sin", "cos", "max", "pos0", "soft_fma", "exp2", "expm1", "log2", "log10", "log1p", "pow",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "atan2",
];

/// Those of [`OPERATIONS`] that take more than one argument.
const MANY: [usize; 9] = [0, 1, 2, 3, 4, 14, 16, 22, 29];

/// Elements of a task of the CPU.
const TASK: usize = 1 << 14;

/// Computes `out[i] = op(a[i], b[i], c[i])`; `op` is a place in [`OPERATIONS`].
pub(crate) fn launch_operation(
    device: &Device,
    op: usize,
    inputs: [&Buffer; 3],
    out: &Buffer,
) -> Result<(), KernelError> {
    let push = sweep::Push {
        count: out.len() as u32,
        op: op as u32,
    };
    let [a, b, c] = inputs;
    let launch = Launch {
        name: "arith_sweep",
        shader: &sweep::SHADER,
        specialization: &[],
        bindings: &[
            Binding::Read(a),
            Binding::Read(b),
            Binding::Read(c),
            Binding::Write(out),
        ],
        push: push_bytes(&push),
        groups: groups_1d(out.len().div_ceil(64)),
    };
    device.launch(launch, move |bindings| {
        let ([a, b, c], [out]) = bindings.split::<3, 1>();
        let inputs = a
            .par_chunks(TASK)
            .zip(b.par_chunks(TASK))
            .zip(c.par_chunks(TASK));
        inputs
            .zip(out.par_chunks_mut(TASK))
            .for_each(|(((a, b), c), out)| operation_chunk(op, a, b, c, out));
    })?;
    Ok(())
}

/// `out[i] = value of triple i`. A macro, since a closure that is not inlined would be compiled for
/// the baseline.
macro_rules! each {
    ($inputs:ident, $out:ident, |$x:pat_param, $y:pat_param, $z:pat_param| $value:expr) => {{
        let [a, b, c] = $inputs;
        for (((out, $x), $y), $z) in $out
            .iter_mut()
            .zip(a.iter().copied())
            .zip(b.iter().copied())
            .zip(c.iter().copied())
        {
            *out = $value;
        }
    }};
}

multiversion! {
    fn operation_chunk<A>(op: usize, a: &[f32], b: &[f32], c: &[f32], out: &mut [f32]) {
        let inputs = [a, b, c];
        match op {
            0 => each!(inputs, out, |x, y, z| A::fma(x, y, z)),
            1 => each!(inputs, out, |x, y, _| A::mul(x, y)),
            2 => each!(inputs, out, |x, y, _| arith::add(x, y)),
            3 => each!(inputs, out, |x, y, _| arith::sub(x, y)),
            4 => each!(inputs, out, |x, y, _| arith::div(x, y)),
            5 => each!(inputs, out, |x, _, _| arith::sqrt(x)),
            6 => each!(inputs, out, |x, _, _| A::rsqrt(x)),
            7 => each!(inputs, out, |x, _, _| A::exp(x)),
            8 => each!(inputs, out, |x, _, _| A::log(x)),
            9 => each!(inputs, out, |x, _, _| A::sigmoid(x)),
            10 => each!(inputs, out, |x, _, _| A::tanh(x)),
            11 => each!(inputs, out, |x, _, _| A::erf(x)),
            12 => each!(inputs, out, |x, _, _| A::sin(x)),
            13 => each!(inputs, out, |x, _, _| A::cos(x)),
            14 => each!(inputs, out, |x, y, _| arith::max(arith::flush(x), arith::flush(y))),
            15 => each!(inputs, out, |x, _, _| arith::pos0(arith::flush(x))),
            // The hardware's fma: what the emulation must equal.
            16 => each!(inputs, out, |x, y, z| A::fma(x, y, z)),
            17 => each!(inputs, out, |x, _, _| A::exp2(x)),
            18 => each!(inputs, out, |x, _, _| A::expm1(x)),
            19 => each!(inputs, out, |x, _, _| A::log2(x)),
            20 => each!(inputs, out, |x, _, _| A::log10(x)),
            21 => each!(inputs, out, |x, _, _| A::log1p(x)),
            22 => each!(inputs, out, |x, y, _| A::pow(x, y)),
            23 => each!(inputs, out, |x, _, _| A::tan(x)),
            24 => each!(inputs, out, |x, _, _| A::asin(x)),
            25 => each!(inputs, out, |x, _, _| A::acos(x)),
            26 => each!(inputs, out, |x, _, _| A::atan(x)),
            27 => each!(inputs, out, |x, _, _| A::sinh(x)),
            28 => each!(inputs, out, |x, _, _| A::cosh(x)),
            29 => each!(inputs, out, |x, y, _| A::atan2(x, y)),
            _ => out.fill(f32::NAN),
        }
    }
}

/// Zeros, subnormals, the ends of the range, ones, powers whose products are tiny, infinity, NaN.
const EDGES: [u32; 18] = [
    0x0000_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x0080_0001,
    0x00ff_ffff,
    0x1f80_0000,
    0x1fff_ffff,
    0x2000_0001,
    0x3f00_0000,
    0x3f7f_ffff,
    0x3f80_0000,
    0x3f80_0001,
    0x4b40_0001,
    0x7f00_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7fc0_0000,
];

/// Triples of edges under every sign: the first of all triples.
pub(crate) const EDGE_TRIPLES: u64 = 8 * (EDGES.len() * EDGES.len() * EDGES.len()) as u64;

/// Triple number `index`: every triple of edges under every sign, then five kinds one after another.
pub(crate) fn triple(index: u64) -> [u32; 3] {
    let Some(index) = index.checked_sub(EDGE_TRIPLES) else {
        let n = EDGES.len() as u64;
        let (signs, at) = (index as u32, index / 8);
        let edge = |at: u64| EDGES[(at % n) as usize];
        return [
            edge(at / n / n) | signs << 31,
            edge(at / n) | (signs >> 1) << 31,
            edge(at) | (signs >> 2) << 31,
        ];
    };
    // A significand and sign at random with the given exponent.
    let scaled = |word: u32, exponent: u32| word & 0x807f_ffff | exponent << 23;
    let counter = [index as u32, (index >> 32) as u32, 0, 0];
    let [x, y, z, w] = arith::philox4x32(counter, [0x0061_7269, 0]);
    match index % 5 {
        0 => [x, y, z],
        // Near one, where the functions are used; the third up to 2^28 smaller.
        1 => [
            scaled(x, 120 + w % 16),
            scaled(y, 120 + (w >> 4) % 16),
            scaled(z, 98 + (w >> 8) % 40),
        ],
        // Products and quotients about 2^-126.
        2 => {
            let exponent = 1 + w % 126;
            [
                scaled(x, exponent),
                scaled(y, 128 - exponent + (w >> 8) % 3 - 1),
                scaled(z, (w >> 16) % 4),
            ]
        }
        // Sums that cancel.
        3 => {
            let (a, b) = (scaled(x, 120 + w % 16), scaled(y, 120 + (w >> 4) % 16));
            let product = f32::from_bits(a) * f32::from_bits(b);
            let third = (-product).to_bits().wrapping_add(z % 5).wrapping_sub(2);
            [a, b, third]
        }
        // Short significands: exact ties.
        _ => [
            scaled(x, 125 + w % 4) & 0xffff_c000,
            scaled(y, 125 + (w >> 4) % 4) & 0xffff_c000,
            scaled(z, 124 + (w >> 8) % 28),
        ],
    }
}

/// A run over triples, for all operations of two and three arguments.
#[derive(Clone, Copy, Debug)]
pub struct PairRun {
    /// Triples in all: those of edges first, then random ones.
    pub triples: u64,
    /// Triples of a launch.
    pub chunk: usize,
}

impl PairRun {
    /// Compares `device` with the CPU device `cpu`; returns a name and a comparison per operation.
    ///
    /// # Errors
    /// [`KernelError::Argument`] for a chunk of zero; what the launches answer.
    pub fn check(
        &self,
        device: &Device,
        cpu: &Device,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<(&'static str, Comparison)>, KernelError> {
        check_that("exhaustive", self.chunk > 0, || {
            "a chunk of 0, expected some".to_owned()
        })?;
        let mut all = MANY.map(|op| (OPERATIONS[op], Comparison::default()));
        overlapped(
            self.triples,
            self.chunk,
            &|begin| {
                let columns = self.columns(begin);
                let results = run_operations(device, &columns)?;
                Ok((columns, results))
            },
            &mut |_, (columns, found)| {
                let own = run_operations(cpu, &columns)?;
                for ((_, total), (found, own)) in all.iter_mut().zip(found.iter().zip(&own)) {
                    *total = total.join(compare(&columns, found, own));
                }
                Ok(())
            },
            progress,
        )?;
        Ok(all.to_vec())
    }

    /// The three columns of a chunk of triples.
    fn columns(&self, begin: u64) -> [Vec<u32>; 3] {
        let end = self.triples.min(begin + self.chunk as u64);
        let rows: Vec<[u32; 3]> = (begin..end).into_par_iter().map(triple).collect();
        [0, 1, 2].map(|column| rows.iter().map(|row| row[column]).collect())
    }
}

/// The results of every operation of more than one argument.
fn run_operations(device: &Device, columns: &[Vec<u32>; 3]) -> Result<Vec<Vec<u32>>, KernelError> {
    let [a, b, c] = columns;
    let (a, b, c) = (
        device.buffer_of::<u32>(a)?,
        device.buffer_of::<u32>(b)?,
        device.buffer_of::<u32>(c)?,
    );
    let out = device.alloc(a.len())?;
    MANY.iter()
        .map(|&op| {
            launch_operation(device, op, [&a, &b, &c], &out)?;
            Ok(device.download_words(&out)?)
        })
        .collect()
}

fn compare(columns: &[Vec<u32>; 3], found: &[u32], expected: &[u32]) -> Comparison {
    let inputs = |at: usize| [columns[0][at], columns[1][at], columns[2][at]];
    compare_chunk(found, expected, None, &inputs)
}
