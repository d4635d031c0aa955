//! Elements that are functions of their index: one value, evenly spaced values, bands of matrices.

use bytemuck::cast_slice_mut;
use hlx_core::{ALIGNMENT_WORDS, Buffer, DType, Device, Element, Shader};

use crate::convert::{Form, bits_of, encode, pack};
use crate::element::compute_type;
use crate::error::{Result, check_indexable};
use crate::kernel::Kernel;
use crate::map::{GROUP_THREADS, windows};
use crate::parallel::{self, write};

shader!(fill::{ramp, linspace, band});

/// Elements of a task of the CPU device; a multiple of what a random lane draws.
const PIECE: usize = 1 << 12;

/// A kernel whose elements are functions of their index, over `indices.glsl`.
pub(super) struct Indices {
    pub name: &'static str,
    pub shader: &'static Shader,
    /// The shader's constant 0, if it has one.
    pub variant: Option<u32>,
    pub compute: DType,
    pub form: Form,
    pub parameters: [u32; 6],
}

impl Indices {
    /// A kernel of values of a type, which are stored in a form; parameters that lack are 0.
    pub fn new(
        name: &'static str,
        shader: &'static Shader,
        compute: DType,
        form: Form,
        parameters: &[u32],
    ) -> Self {
        let mut all = [0; 6];
        all[..parameters.len()].copy_from_slice(parameters);
        Self {
            name,
            shader,
            variant: None,
            compute,
            form,
            parameters: all,
        }
    }

    /// Launches the kernel; `chunk` computes the elements from an index on, a multiple of
    /// 64, as words of the compute type.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for more elements than 32 bits count; the
    /// device's error.
    pub fn launch(
        self,
        device: &Device,
        out: &Buffer,
        chunk: impl Fn(u32, &mut [u32]) + Copy + Send + Sync + 'static,
    ) -> Result<()> {
        check_indexable(self.name, "out", out.len())?;
        let (form, compute) = (self.form, self.compute);
        let limit = device.max_binding_words().saturating_mul(form.per_word());
        for (first, count) in windows(out.len(), 4 * ALIGNMENT_WORDS, limit) {
            let window = out.slice(first, count)?;
            let mut push = vec![count as u32, first as u32];
            push.extend(self.parameters);
            let mut specialization = vec![(992, compute.id()), (980, form.id())];
            specialization.extend(self.variant.map(|variant| (0, variant)));
            let kernel = Kernel::new(self.name, self.shader)
                .constants(&specialization)
                .writes([&window]);
            let groups = count.div_ceil(4 * GROUP_THREADS);
            kernel.launch(device, push, groups, move |[], [out]| {
                run(cast_slice_mut(out), first, count, form, compute, chunk);
            })?;
        }
        Ok(())
    }
}

/// The CPU twin of one launch.
fn run(
    out: &mut [u32],
    first: usize,
    count: usize,
    form: Form,
    compute: DType,
    chunk: impl Fn(u32, &mut [u32]) + Sync,
) {
    let pieces = write(out, PIECE / form.per_word());
    parallel::for_each(pieces, |index, out| {
        let start = index * PIECE;
        parallel::scratch(PIECE.min(count - start), |values| {
            chunk((first + start) as u32, values);
            encode(form, compute, values);
            pack(form, values, out);
        });
    });
}

/// Writes one value to every element. PyTorch: `out.fill_(value)`. The value becomes an element as
/// in [`masked_fill`](super::masked_fill).
///
/// # Errors
/// [`KernelError::Argument`](crate::KernelError::Argument) for more elements than 32 bits count; the device's
/// error; so for all functions here.
pub fn fill(device: &Device, value: f64, out: &Buffer) -> Result<()> {
    let bits = bits_of(out.dtype(), value);
    let form = Form::raw(out.dtype());
    let kernel = Indices::new("fill", &ramp::SHADER, DType::U32, form, &[bits]);
    kernel.launch(device, out, move |_, out| out.fill(bits))
}

/// Writes `start + i step`, one multiply-add of f32 an element, or an integer that wraps. PyTorch:
/// `torch.arange`, whose length is the output's.
///
/// # Errors
/// As [`fill`].
pub fn arange(device: &Device, start: f64, step: f64, out: &Buffer) -> Result<()> {
    let compute = compute_type(out.dtype());
    let word = |value: f64| match compute {
        DType::F32 => (value as f32).stored().to_bits(),
        _ => value as i64 as u32,
    };
    let (start, step) = (word(start), word(step));
    let form = Form::Of(out.dtype());
    let kernel = Indices::new("arange", &ramp::SHADER, compute, form, &[start, step]);
    kernel.launch(device, out, move |first, out| match compute {
        DType::F32 => ramp(f32::from_bits(start), f32::from_bits(step), first, out),
        _ => {
            for (i, out) in (first..).zip(out) {
                *out = start.wrapping_add(i.wrapping_mul(step));
            }
        }
    })
}

multiversion! {
    fn ramp<A>(start: f32, step: f32, first: u32, out: &mut [u32]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = A::fma((first + i as u32) as f32, step, start).to_bits();
        }
    }
}

/// Writes evenly spaced values from `start` to `end`, both included, to a buffer of floats. PyTorch:
/// `torch.linspace`. With `step = (end - start) / (n - 1)`, the first half is `start + i step` and the
/// second `end - (n - 1 - i) step`, one multiply-add an element; a single element is `start`.
///
/// # Errors
/// As [`fill`], and [`KernelError::Argument`](crate::KernelError::Argument) for an output that holds no floats.
pub fn linspace(device: &Device, start: f32, end: f32, out: &Buffer) -> Result<()> {
    const NAME: &str = "linspace";
    let (dtype, [start, end]) = (out.dtype(), [start, end].map(Element::stored));
    check_that!(NAME, dtype.is_float() => "out is {dtype}, expected a float type")?;
    let last = out.len().saturating_sub(1) as u32;
    let step = hlx_core::cpu::with_flush(|| {
        let between = hlx_core::arith::sub(end, start);
        match last {
            0 => 0.0,
            _ => hlx_core::arith::div(between, last as f32),
        }
    });
    // The only element is counted from the end.
    let end = if last == 0 { start } else { end };
    let parameters = [start.to_bits(), end.to_bits(), step.to_bits(), last];
    let form = Form::Of(dtype);
    let kernel = Indices::new(NAME, &linspace::SHADER, DType::F32, form, &parameters);
    kernel.launch(device, out, move |first, out| {
        spaced([start, end, step], last, first, out)
    })
}

multiversion! {
    fn spaced<A>(range: [f32; 3], last: u32, first: u32, out: &mut [u32]) {
        let [start, end, step] = range;
        for (i, out) in out.iter_mut().enumerate() {
            let index = first + i as u32;
            let value = if index < last.wrapping_add(1) / 2 {
                A::fma(index as f32, step, start)
            } else {
                A::fma((last - index) as f32, -step, end)
            };
            *out = value.to_bits();
        }
    }
}

/// The diagonals of matrices `[.., rows, columns]` from `low` to `high`, by column minus row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Rows of a matrix.
    pub rows: usize,
    /// Columns of a matrix.
    pub columns: usize,
    /// The first diagonal; none for all below.
    pub low: Option<i64>,
    /// The last diagonal; none for all above.
    pub high: Option<i64>,
}

/// Writes 1 on the band's diagonals and 0 elsewhere. PyTorch: `torch.eye(rows, columns)` for the
/// diagonal 0, and the masks of `torch.tril` (no `low`) and `torch.triu` (no `high`).
///
/// # Errors
/// As [`fill`], and [`KernelError::Argument`](crate::KernelError::Argument) for an output that is no whole
/// number of matrices.
pub fn band(device: &Device, band: Band, out: &Buffer) -> Result<()> {
    const NAME: &str = "band";
    let Band { rows, columns, .. } = band;
    let fits = out.is_empty() || out.len().is_multiple_of((rows * columns).max(1));
    let counted = rows.max(columns) <= i32::MAX as usize;
    check_that!(NAME, fits && counted =>
        "out has {len} elements, expected matrices of {rows} x {columns}", len = out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let diagonal = |end: i64| end.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    let low = band.low.map_or(i32::MIN, diagonal);
    let high = band.high.map_or(i32::MAX, diagonal);
    let (rows, columns) = (rows as u32, columns as u32);
    let [one, zero] = [1.0, 0.0].map(|value| bits_of(out.dtype(), value));
    let parameters = [rows, columns, low as u32, high as u32, one, zero];
    let form = Form::raw(out.dtype());
    let kernel = Indices::new(NAME, &band::SHADER, DType::U32, form, &parameters);
    kernel.launch(device, out, move |first, out| {
        let (mut row, mut column) = (first / columns % rows, first % columns);
        for out in out {
            let distance = column as i32 - row as i32;
            let within = (low..=high).contains(&distance);
            *out = if within { one } else { zero };
            column += 1;
            if column == columns {
                (row, column) = ((row + 1) % rows, 0);
            }
        }
    })
}

#[cfg(test)]
mod tests;
