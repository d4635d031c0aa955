//! Elements of every type as words of the type that a kernel computes in, and back.
//!
//! A kernel computes in f32, i32 or u32, the compute type. f16 and bf16 become f32 exactly, i8 is
//! sign-extended, u8 and bool are zero-extended, and i32 and u32 are each other's bits. Otherwise:
//!
//! | from | to | rule |
//! |---|---|---|
//! | integer, bool | float | nearest, ties to even |
//! | float | integer | truncated toward zero, saturated at the type's ends; NaN is 0 |
//! | integer | smaller integer | the low bits |
//! | any | bool | `!= 0`; NaN is true |
//! | f32 | f16, bf16 | nearest, ties to even; NaN is the canonical one, f16 keeps its subnormals |
//!
//! The same is written in `shaders/include/element.glsl` and `convert.glsl`.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::DType;

use crate::element::{compute_type, from_bf16, from_f16};
use crate::layout::runs;

// Copies with any conversion; joined launches take its functions.
shader!(convert_shader, copy::convert);

/// How a buffer's elements are loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// As values of a type.
    Of(DType),
    /// Two bytes as they are.
    Raw16,
}

impl Form {
    /// The form in which elements are copied whatever their values.
    pub fn raw(dtype: DType) -> Self {
        match dtype.size() {
            4 => Self::Of(DType::U32),
            2 => Self::Raw16,
            _ => Self::Of(DType::U8),
        }
    }

    /// The id in shaders.
    pub fn id(self) -> u32 {
        match self {
            Self::Of(dtype) => dtype.id(),
            Self::Raw16 => 8,
        }
    }

    /// Elements a word.
    pub fn per_word(self) -> usize {
        match self {
            Self::Of(dtype) => dtype.per_word(),
            Self::Raw16 => 2,
        }
    }

    /// Whether an element's word is the value of the compute type.
    pub fn is_word_of(self, compute: DType) -> bool {
        let integer = |dtype| matches!(dtype, DType::I32 | DType::U32);
        match self {
            Self::Of(dtype) => dtype == compute || integer(dtype) && integer(compute),
            Self::Raw16 => false,
        }
    }
}
#[inline(always)]
fn each(words: &mut [u32], f: impl Fn(u32) -> u32) {
    words.iter_mut().for_each(|word| *word = f(*word));
}

#[inline(always)]
fn float(f: impl Fn(u32) -> f32) -> impl Fn(u32) -> u32 {
    move |word| f(word).to_bits()
}

multiversion! {
    /// Makes values of the compute type of elements' bits, in place.
    pub(crate) fn decode(form: Form, compute: DType, words: &mut [u32]) {
        let to_float = compute == DType::F32;
        match form {
            Form::Of(DType::F16) => each(words, from_f16),
            Form::Of(DType::BF16) => each(words, from_bf16),
            Form::Of(DType::I8) if to_float => each(words, float(|word| f32::from(word as i8))),
            Form::Of(DType::I8) => each(words, |word| word as i8 as u32),
            Form::Of(DType::I32) if to_float => each(words, float(|word| word as i32 as f32)),
            Form::Of(DType::U32 | DType::U8 | DType::Bool) if to_float => {
                each(words, float(|word| word as f32));
            }
            _ => {}
        }
    }

    /// Makes elements' bits of values of the compute type, in place.
    pub(crate) fn encode(form: Form, compute: DType, words: &mut [u32]) {
        let from_float = compute == DType::F32;
        match form {
            Form::Of(DType::F16) => each(words, to_f16),
            Form::Of(DType::BF16) => each(words, to_bf16),
            Form::Of(DType::Bool) if from_float => {
                each(words, |word| u32::from(word & 0x7fff_ffff != 0));
            }
            Form::Of(DType::Bool) => each(words, |word| u32::from(word != 0)),
            Form::Of(DType::I32) if from_float => {
                each(words, |word| f32::from_bits(word) as i32 as u32);
            }
            Form::Of(DType::U32) if from_float => each(words, |word| f32::from_bits(word) as u32),
            Form::Of(DType::I8) if from_float => {
                each(words, |word| u32::from(f32::from_bits(word) as i8 as u8));
            }
            Form::Of(DType::U8) if from_float => {
                each(words, |word| u32::from(f32::from_bits(word) as u8));
            }
            _ => {}
        }
    }
}

/// The bits of the f16 nearest to an f32. Below 2^-14 an f16 counts steps of 2^-24, the distance of
/// floats from 0.5 on: adding it rounds.
#[inline(always)]
fn to_f16(bits: u32) -> u32 {
    let magnitude = bits & 0x7fff_ffff;
    let shifted = f32::from_bits(magnitude.min(0x3880_0000)) + 0.5;
    let tiny = shifted.to_bits().wrapping_sub(0x3f00_0000);
    let odd = (magnitude >> 13) & 1;
    let rebased = magnitude.wrapping_sub(0x3800_0000);
    let normal = rebased.wrapping_add(0xfff + odd) >> 13;
    let value = choose(magnitude < 0x3880_0000, tiny, normal);
    let value = choose(magnitude >= 0x4780_0000, 0x7c00, value);
    let signed = value | ((bits >> 16) & 0x8000);
    choose(magnitude > 0x7f80_0000, 0x7e00, signed)
}

/// The bits of the bf16 nearest to an f32.
#[inline(always)]
fn to_bf16(bits: u32) -> u32 {
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    choose(bits & 0x7fff_ffff > 0x7f80_0000, 0x7fc0, rounded)
}

#[inline(always)]
fn choose(condition: bool, a: u32, b: u32) -> u32 {
    if condition { a } else { b }
}

/// The bits that an element of a type has for a number: as it converts to f32 or saturates to an
/// integer, and from there by the rules above.
pub(crate) fn bits_of(dtype: DType, value: f64) -> u32 {
    let mut word = [match compute_type(dtype) {
        DType::I32 => value as i32 as u32,
        DType::U32 if dtype == DType::Bool => u32::from(value != 0.0),
        DType::U32 => value as u32,
        _ => hlx_core::Element::stored(value as f32).to_bits(),
    }];
    match dtype {
        DType::I8 => word = [u32::from(value as i8 as u8)],
        DType::U8 => word = [u32::from(value as u8)],
        _ => encode(Form::Of(dtype), compute_type(dtype), &mut word),
    }
    word[0]
}

/// Writes the low bits of words as elements of 4, 2 or 1 bytes; spare bytes of the last word are
/// zero.
pub(crate) fn pack(form: Form, values: &[u32], out: &mut [u32]) {
    match form.per_word() {
        1 => out.copy_from_slice(values),
        2 => low_bits(values, cast_slice_mut::<u32, u16>(out), |word| word as u16),
        _ => low_bits(values, cast_slice_mut::<u32, u8>(out), |word| word as u8),
    }
}

/// Stores values of the compute type as elements, and changes them on the way; spare bytes of the last
/// word are zero.
pub(crate) fn store(form: Form, compute: DType, values: &mut [u32], out: &mut [u32]) {
    match form {
        Form::Of(DType::F16 | DType::BF16) => {
            let (halves, spare) = cast_slice_mut::<u32, u16>(out).split_at_mut(values.len());
            store_halves(form == Form::Of(DType::F16), values, halves);
            spare.fill(0);
        }
        _ => {
            encode(form, compute, values);
            pack(form, values, out);
        }
    }
}

multiversion! {
    // Rounded and cut in one pass.
    fn store_halves(f16: bool, values: &[u32], out: &mut [u16]) {
        if f16 {
            for (half, value) in out.iter_mut().zip(values) {
                *half = to_f16(*value) as u16;
            }
        } else {
            for (half, value) in out.iter_mut().zip(values) {
                *half = to_bf16(*value) as u16;
            }
        }
    }
}

fn low_bits<T: Copy + Default>(values: &[u32], out: &mut [T], cut: impl Fn(u32) -> T) {
    let (elements, spare) = out.split_at_mut(values.len());
    for (element, value) in elements.iter_mut().zip(values) {
        *element = cut(*value);
    }
    spare.fill(T::default());
}

/// Where a stretch of an operand's elements lies: dimensions outermost first.
pub(crate) struct Places<'a> {
    /// The extents.
    pub shape: &'a [usize],
    /// The strides.
    pub strides: &'a [isize],
    /// The place of the first element of all.
    pub offset: usize,
    /// The first element of the stretch, in row-major order.
    pub start: usize,
}

impl Places<'_> {
    /// Reads the stretch as values of the compute type.
    pub fn load(&self, form: Form, compute: DType, words: &[u32], out: &mut [u32]) {
        match form.per_word() {
            1 => self.read(words, out),
            2 => self.read(cast_slice::<u32, u16>(words), out),
            _ => self.read(cast_slice::<u32, u8>(words), out),
        }
        decode(form, compute, out);
    }

    /// Reads the stretch, run by run of the innermost dimension.
    fn read<T: Copy, U: From<T> + Copy>(&self, source: &[T], out: &mut [U]) {
        let stride = self.strides.last().copied().unwrap_or(0);
        let (strides, offsets) = ([self.strides], [self.offset]);
        let stretch = (self.start, out.len());
        runs(self.shape, strides, offsets, stretch, |done, [first], n| {
            read_run(source, first, stride, &mut out[done..done + n]);
        });
    }
}

/// Reads evenly spaced elements.
#[inline(always)]
pub(crate) fn read_run<T: Copy, U: From<T> + Copy>(
    source: &[T],
    first: usize,
    stride: isize,
    run: &mut [U],
) {
    match stride {
        1 => {
            let source = &source[first..first + run.len()];
            for (slot, value) in run.iter_mut().zip(source) {
                *slot = U::from(*value);
            }
        }
        0 => run.fill(U::from(source[first])),
        2.. => {
            let source = source[first..].iter().step_by(stride as usize);
            for (slot, value) in run.iter_mut().zip(source) {
                *slot = U::from(*value);
            }
        }
        _ => {
            for (i, slot) in run.iter_mut().enumerate() {
                *slot = U::from(source[first.wrapping_add_signed(i as isize * stride)]);
            }
        }
    }
}
