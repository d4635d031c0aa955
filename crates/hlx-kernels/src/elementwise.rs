//! Arithmetic element by element: sum, difference, product, scaling of contiguous f32 tensors, and
//! the families over typed, strided and broadcast operands.
//!
//! Each element is one operation of HLX arithmetic on its own, so there is no order of summation. A sum of zeros
//! of either sign follows IEEE 754 (`+0 + -0 = +0`).

mod binary;
mod copy;
mod family;
mod fill;
mod frame;
mod moves;
mod random;
mod rounding;
mod select;
mod strided;
mod unary;

pub use binary::{Binary, binary};
pub(crate) use copy::permuted;
pub use copy::{assign_strided, copy_strided};
pub use fill::{Band, arange, band, fill, linspace};
pub use random::{Distribution, Draw, fill_random};
pub use select::{masked_fill, select};
pub use unary::{Parameters, Unary, unary};

use hlx_core::{Binding, Buffer, Device};

use crate::error::Result;
use crate::map::{Arg, CHUNK, Map, chunks1, each1, each2};
use crate::parallel::{self, write};

shader!(elementwise::{binary as binary_shader, scale, scale_assign, scale_by, add_assign});

/// Computes `out = a + b`.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error; so for all functions here.
pub fn add(device: &Device, a: &Buffer, b: &Buffer, out: &Buffer) -> Result<()> {
    dense(device, "add", 0, [a, b], out, add_chunk)
}

/// Computes `out = a - b`.
pub fn sub(device: &Device, a: &Buffer, b: &Buffer, out: &Buffer) -> Result<()> {
    dense(device, "sub", 1, [a, b], out, sub_chunk)
}

/// Computes `out = a * b`, element by element.
pub fn mul(device: &Device, a: &Buffer, b: &Buffer, out: &Buffer) -> Result<()> {
    dense(device, "mul", 2, [a, b], out, mul_chunk)
}

fn dense(
    device: &Device,
    name: &'static str,
    operation: u32,
    [a, b]: [&Buffer; 2],
    out: &Buffer,
    chunk: fn(&[f32], &[f32], &mut [f32]),
) -> Result<()> {
    let map = Map {
        specialization: &[(0, operation)],
        ..Map::new(name, &binary_shader::SHADER)
    };
    map.each(
        device,
        [("a", a), ("b", b)],
        ("out", out),
        move |[a, b], out| chunk(a, b, out),
    )
}

/// Computes `out = a * factor` with a factor known on the host.
pub fn scale(device: &Device, a: &Buffer, factor: f32, out: &Buffer) -> Result<()> {
    let map = Map {
        parameters: &[factor.to_bits()],
        ..Map::new("scale", &scale::SHADER)
    };
    map.each(device, [("a", a)], ("out", out), move |[a], out| {
        scale_chunk(factor, a, out);
    })
}

/// Computes `out = a * factor[0]` with a factor that lies on the device.
pub fn scale_by(device: &Device, a: &Buffer, factor: &Buffer, out: &Buffer) -> Result<()> {
    let map = Map::new("scale_by", &scale_by::SHADER);
    let args = [
        Arg::Each("a", Binding::Read(a)),
        Arg::Each("out", Binding::Write(out)),
        Arg::Whole("factor", factor, 1),
    ];
    map.launch(device, &args, |bindings| {
        let ([a, factor], [out]) = bindings.split::<2, 1>();
        chunks1(a, out, |a, out| scale_chunk(factor[0], a, out));
    })
}

/// Computes `a *= factor[0]` in place.
pub fn scale_assign(device: &Device, a: &Buffer, factor: &Buffer) -> Result<()> {
    let map = Map::new("scale_assign", &scale_assign::SHADER);
    let args = [
        Arg::Each("a", Binding::ReadWrite(a)),
        Arg::Whole("factor", factor, 1),
    ];
    map.launch(device, &args, |bindings| {
        let ([factor], [a]) = bindings.split::<1, 1>();
        parallel::for_each(write(a, CHUNK), |_, a| scale_assign_chunk(factor[0], a));
    })
}

/// Computes `a += b` in place.
pub fn add_assign(device: &Device, a: &Buffer, b: &Buffer) -> Result<()> {
    let map = Map::new("add_assign", &add_assign::SHADER);
    let args = [
        Arg::Each("b", Binding::Read(b)),
        Arg::Each("a", Binding::ReadWrite(a)),
    ];
    map.launch(device, &args, |bindings| {
        let ([b], [a]) = bindings.split::<1, 1>();
        chunks1(b, a, add_assign_chunk);
    })
}

multiversion! {
    fn add_chunk(a: &[f32], b: &[f32], out: &mut [f32]) {
        each2(a, b, out, |a, b| a + b);
    }

    fn sub_chunk(a: &[f32], b: &[f32], out: &mut [f32]) {
        each2(a, b, out, |a, b| a - b);
    }

    fn mul_chunk<A>(a: &[f32], b: &[f32], out: &mut [f32]) {
        each2(a, b, out, |a, b| A::mul(a, b));
    }

    pub(crate) fn scale_chunk<A>(factor: f32, a: &[f32], out: &mut [f32]) {
        each1(a, out, |a| A::mul(a, factor));
    }

    fn scale_assign_chunk<A>(factor: f32, a: &mut [f32]) {
        for a in a {
            *a = A::mul(*a, factor);
        }
    }

    pub(crate) fn add_assign_chunk(b: &[f32], a: &mut [f32]) {
        for (a, b) in a.iter_mut().zip(b) {
            *a += *b;
        }
    }
}

#[cfg(test)]
mod tests;
