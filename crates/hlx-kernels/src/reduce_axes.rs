//! Reductions over any axes of a tensor of any layout: sum, prod, max, min, any, all, argmax, argmin.
//!
//! `out[k] = x[k, r0] join x[k, r1] join ...` over the reduced axes `r` in row-major order, for each
//! index `k` of the remaining axes; out is contiguous, with the remaining axes in their order.
//!
//! **Order.** The terms of a result are cut into pieces of 4,096. In a piece, lane `l` of 128 joins
//! the terms `l, l + 128, ...` in that order, and a tree by halves joins the lanes ([`crate::lanes`]);
//! the pieces' values are joined by the same rule again, until one is left. So the order depends on
//! the number of terms alone, never on strides, and `Sum` over all axes has the bits of
//! [`crate::reduce::sum`].
//!
//! | reduction | start | rule |
//! |---|---|---|
//! | `Sum` | +0 | every piece that sums to a zero gives +0; integers wrap |
//! | `SumOfSquares` | +0 | squares are rounded, then as `Sum` |
//! | `Prod` | 1 | a zero retains its sign; integers wrap |
//! | `Max`, `Min` | | NaN if a term is NaN, +0 for a zero of either sign |
//! | `Any`, `All` | false, true | a term counts as true unless it is zero; NaN is true |
//! | `ArgMax`, `ArgMin` | | the lowest number (row-major in the reduced axes) of an extreme term; the first NaN, if there is one; zeros are equal |
//!
//! f16 and bf16 are widened to f32, and 8-bit types to 32 bits, as they are loaded. Results are
//! f32, i32 or u32 ([`Reduction::output_dtype`]), bool for `Any` and `All`, and u32 for places.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Buffer, DType, Device};

use crate::element::compute_type;
use crate::error::{KernelError, Result, check_that, check_typed};
use crate::join::Join;
use crate::kernel::Kernel;
use crate::layout::Operand;
use crate::map::{GROUP_THREADS, windows};
use crate::terms::{PIECE, Terms, check_axis, check_fits, check_operand, part};

mod cpu;
mod sweep;
#[cfg(test)]
mod tests;

use sweep::{Fold, Outcome, Term};

shader!(reduce_axes::{words, places, pack_bool});

/// What becomes of the terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Their sum. PyTorch: `torch.sum`.
    Sum,
    /// Their product. PyTorch: `torch.prod`.
    Prod,
    /// The largest. PyTorch: `torch.amax`.
    Max,
    /// The smallest. PyTorch: `torch.amin`.
    Min,
    /// Whether one is not zero. PyTorch: `torch.any`.
    Any,
    /// Whether none is zero. PyTorch: `torch.all`.
    All,
    /// The sum of their squares.
    SumOfSquares,
    /// The place of the largest. PyTorch: `torch.argmax`, with the lowest of equal places.
    ArgMax,
    /// The place of the smallest. PyTorch: `torch.argmin`, with the lowest of equal places.
    ArgMin,
}

impl Reduction {
    /// The type of the results for terms of type `x`: u32 for places, bool for `Any` and `All`,
    /// otherwise the 32-bit type of the terms' kind (f32, i32, or u32, also for bool).
    pub fn output_dtype(self, x: DType) -> DType {
        match (self, x) {
            (Self::ArgMax | Self::ArgMin, _) => DType::U32,
            (Self::Any | Self::All, _) => DType::Bool,
            _ => compute_type(x),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::Any => "any",
            Self::All => "all",
            Self::SumOfSquares => "sum_of_squares",
            Self::ArgMax => "argmax",
            Self::ArgMin => "argmin",
        }
    }

    /// The word that results of no terms are filled with; `None` where there is no such result.
    fn of_nothing(self, x: DType) -> Option<u32> {
        match self {
            Self::Sum | Self::SumOfSquares | Self::Any => Some(0),
            Self::Prod if x.is_float() => Some(1.0_f32.to_bits()),
            Self::Prod | Self::All => Some(1),
            Self::Max | Self::Min | Self::ArgMax | Self::ArgMin => None,
        }
    }

    /// The first sweep over the terms; places have a kernel of their own.
    fn fold(self, dtype: DType) -> Fold {
        let (join, term) = match self {
            Self::Sum => (Join::sum(dtype), Term::Word),
            Self::SumOfSquares => (Join::sum(dtype), Term::Square),
            Self::Prod => (Join::product(dtype), Term::Word),
            Self::Any => (Join::Max, Term::NotZero),
            Self::All => (Join::Max, Term::Zero),
            Self::Max | Self::Min | Self::ArgMax | Self::ArgMin => (Join::Max, Term::Key),
        };
        let smallest = matches!(self, Self::Min | Self::ArgMin);
        Fold {
            join,
            term,
            dtype,
            flip: if smallest { u32::MAX } else { 0 },
            outcome: match self {
                Self::Max | Self::Min => Outcome::OfKey,
                Self::All => Outcome::Not,
                _ => Outcome::Value,
            },
            done: false,
        }
    }
}

/// Reduces `x` over `axes` into `out`, which it overwrites: contiguous, with the remaining axes in their
/// order and of [`Reduction::output_dtype`]. No axes at all leave every element a result of its own.
///
/// # Errors
/// [`KernelError::Argument`] for an axis that does not exist or occurs twice, a wrong type of `out`,
/// a maximum, minimum or place of no elements, or a tensor beyond 32-bit places on a GPU;
/// [`KernelError::Length`] for an `out` of another length; or the device's error.
pub fn reduce(
    device: &Device,
    reduction: Reduction,
    x: Operand<'_>,
    axes: &[usize],
    out: &Buffer,
) -> Result<()> {
    let name = reduction.name();
    let dtype = x.buffer.dtype();
    let n_results = check(reduction, x, axes, out)?;
    if n_results == 0 {
        return Ok(());
    }
    // Words of bool results, before they are packed; one result fills its word as it is.
    let packs = out.dtype() == DType::Bool && n_results > 1;
    let words = match packs {
        true => device.alloc_typed(DType::U32, n_results)?,
        false => out.clone(),
    };
    if x.layout.n_elements() == 0 {
        match reduction.of_nothing(dtype) {
            Some(word) => device.fill(&words, word)?,
            None => {
                let reason = format!("no elements to reduce in shape {:?}", x.layout.shape());
                return check_that(name, false, || reason);
            }
        }
    } else {
        let terms = Terms::of(x.layout, axes).map_err(KernelError::argument(name))?;
        let (buffer, terms) = within_binding(device, name, x, terms)?;
        let finds = matches!(reduction, Reduction::ArgMax | Reduction::ArgMin);
        check_that!(name, !finds || u32::try_from(terms.n).is_ok() =>
            "{} places are more than 2^32 - 1", terms.n)?;
        let fold = reduction.fold(dtype);
        sweeps(device, name, fold, buffer, terms, &words, finds)?;
    }
    if packs {
        pack_bool(device, name, &words, out)?;
    }
    Ok(())
}

/// Checks the arguments and returns the number of results.
fn check(reduction: Reduction, x: Operand<'_>, axes: &[usize], out: &Buffer) -> Result<usize> {
    let name = reduction.name();
    let shape = x.layout.shape();
    for (place, &axis) in axes.iter().enumerate() {
        check_axis(name, axis, shape)?;
        check_that!(name, !axes[..place].contains(&axis) =>
            "axis {axis} occurs twice in {axes:?}")?;
    }
    check_operand(name, "x", x)?;
    let expected = reduction.output_dtype(x.buffer.dtype());
    let remaining = (0..shape.len()).filter(|axis| !axes.contains(axis));
    let n_results = remaining.map(|axis| shape[axis]).product();
    check_typed(name, "out", out, expected, n_results)?;
    Ok(n_results)
}

/// The part of a buffer that the terms lie in. One run of terms may be longer than a binding, as it
/// is cut into windows; then the part begins at its first term.
fn within_binding(
    device: &Device,
    name: &'static str,
    x: Operand<'_>,
    mut terms: Terms,
) -> Result<(Buffer, Terms)> {
    let (part, start) = part(x)?;
    terms.first -= start;
    let cut = terms.is_one_run() && terms.first == 0;
    if !cut {
        check_fits(name, "x", device, &part)?;
    }
    // The CPU device counts in 64 bits, and a run's windows are short.
    let counted = terms.items().max(if cut { 0 } else { terms.n });
    let is_counted = device.is_cpu() || u32::try_from(counted).is_ok();
    check_that!(name, is_counted => "{counted} terms or pieces are more than 2^32 - 1")?;
    Ok((part, terms))
}

/// The windows of terms that are bound one by one, with their part of the buffer, and which part of
/// the sweep's results each makes.
fn bound_parts(device: &Device, x: &Buffer, terms: &Terms) -> Result<Vec<(Buffer, Terms, usize)>> {
    if x.words() <= device.max_binding_words() || !terms.is_one_run() {
        return Ok(vec![(x.clone(), terms.clone(), 0)]);
    }
    // Windows of whole pieces, whose values start where a binding may start.
    let unit = PIECE * hlx_core::ALIGNMENT_WORDS;
    let limit = device.max_binding_words() * x.dtype().per_word();
    windows(terms.n, unit, limit)
        .map(|(start, count)| {
            let part = x.slice(start, count)?;
            Ok((part, terms.window(start, count), start / PIECE))
        })
        .collect()
}

/// Sweeps until every result has one piece: of words, or with `finds` of keys and their places.
fn sweeps(
    device: &Device,
    name: &'static str,
    mut fold: Fold,
    mut x: Buffer,
    mut terms: Terms,
    out: &Buffer,
    finds: bool,
) -> Result<()> {
    // From the second sweep on, the places of the keys in `x`.
    let mut places = None;
    loop {
        fold.done = terms.pieces() == 1;
        let items = terms.items();
        let target = match fold.done {
            true => out.clone(),
            false => device.alloc_typed(DType::U32, items)?,
        };
        // The results' places need no keys.
        let n_keys = if fold.done { 1 } else { items };
        let keys = finds.then(|| device.alloc_typed(DType::U32, n_keys));
        let keys = keys.transpose()?;
        for (part, terms, first_item) in bound_parts(device, &x, &terms)? {
            let target = target.slice(first_item, terms.items())?;
            let of_part = |keys: &Buffer| match fold.done {
                true => Ok(keys.clone()),
                false => keys.slice(first_item, terms.items()),
            };
            let keys = keys.as_ref().map(of_part).transpose()?;
            sweep(
                device,
                name,
                fold,
                &part,
                places.as_ref(),
                terms,
                keys.as_ref(),
                &target,
            )?;
        }
        if fold.done {
            return Ok(());
        }
        terms = terms.of_totals();
        match keys {
            None => (x, fold) = (target, fold.of_totals()),
            Some(keys) => (x, places) = (keys, Some(target)),
        }
    }
}

/// One sweep: of words to `target`, or of words or keys with their places to keys and to places in `target`.
fn sweep(
    device: &Device,
    name: &'static str,
    fold: Fold,
    x: &Buffer,
    places: Option<&Buffer>,
    terms: Terms,
    keys: Option<&Buffer>,
    target: &Buffer,
) -> Result<()> {
    let cut = terms.cut(device);
    let mut specialization = cut.specialization(&terms, fold.dtype.id()).to_vec();
    // The block is that of both shaders: it is of pieces.glsl.
    let (push, groups) = (terms.push(), cut.groups(terms.items()));
    let Some(keys) = keys else {
        specialization.extend(fold.specialization());
        let kernel = Kernel::new(name, &words::SHADER)
            .constants(&specialization)
            .reads([x])
            .writes([target]);
        return kernel.launch(device, push, groups, move |[x], [out]| {
            cpu::words(&terms, fold, cast_slice(x), cast_slice_mut(out));
        });
    };
    let (pairs, last) = (places.is_some(), fold.done);
    specialization.extend(constants!(8: fold.flip, pairs, last));
    let kernel = Kernel::new(name, &places::SHADER)
        .constants(&specialization)
        .reads([x])
        .read_if("places", places, x.len())?
        .writes([keys, target]);
    kernel.launch(device, push, groups, move |inputs, outputs| {
        let [x, places] = inputs.map(cast_slice);
        let [keys, result_places] = outputs.map(cast_slice_mut);
        let (places, keys) = (pairs.then_some(places), (!last).then_some(keys));
        cpu::places(&terms, fold, x, places, keys, result_places);
    })
}

/// Packs words of 0 and 1 into a bool tensor.
fn pack_bool(device: &Device, name: &'static str, words: &Buffer, out: &Buffer) -> Result<()> {
    let count = words.len();
    let kernel = Kernel::new(name, &pack_bool::SHADER)
        .reads([words])
        .writes([out]);
    let groups = out.words().div_ceil(GROUP_THREADS);
    let push = push!(pack_bool => count);
    kernel.launch(device, push, groups, move |[words], [out]| {
        let words: &[u32] = cast_slice(words);
        let out: &mut [u8] = cast_slice_mut(out);
        out[count..].fill(0);
        for (byte, word) in out.iter_mut().zip(words) {
            *byte = *word as u8;
        }
    })
}
