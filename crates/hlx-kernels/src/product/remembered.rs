//! Operands that are remembered with the values that they were made of, and weights that are prepared once for many passes.

use hlx_core::{Buffer, DType, Device, Half};

use super::formats::Format;
use super::halves::Halves;
use super::operand::{Matrices, Operand};
use super::quantised::{Prepared, prepare_rows_and_columns};
use super::role::Role;
use crate::layout::{Layout, Operand as View};
use crate::{KernelError, Result, check_len};

/// What a buffer's memory remembers: the digits of its values, or of a strided view of them.
type Remembered = (Option<Layout>, Prepared);

/// The buffer that remembers what is made of a tensor's values, and their layout in it unless they are all of it in order.
fn place_of(values: View<'_>) -> Result<(Buffer, Option<Layout>)> {
    let View { buffer, layout } = values;
    let (first, len) = (layout.offset(), layout.n_elements());
    // A window begins at a word.
    let is_window = layout.is_contiguous() && first.is_multiple_of(buffer.dtype().per_word());
    match is_window && len > 0 {
        true => Ok((buffer.slice(first, len)?, None)),
        false => Ok((buffer.clone(), Some(layout.clone()))),
    }
}

impl Operand {
    /// Returns the operand that is remembered of a tensor's values, or makes one. It is remembered until a value changes: of
    /// weights of 16 bits, which are not trained; and while a graph is recorded of what is no leaf's (`of_leaf`), whose memory
    /// outlives the graph.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn remembered<E: From<KernelError>>(
        device: &Device,
        values: View<'_>,
        of_leaf: bool,
        role: Role,
        of: Matrices,
        make: impl FnOnce() -> Result<Self, E>,
    ) -> Result<Self, E> {
        if let Some(half) = role.half(device) {
            return Self::remembered_halves(device, values, of_leaf, (half, of), make);
        }
        let Some(format) = role.format(device) else {
            return make();
        };
        let (buffer, view) = place_of(values)?;
        let preparation = of.preparation(device, format, role);
        let fits = |one: &Remembered| one.0 == view && one.1.of.is_like(&preparation);
        if let Some((_, prepared)) = buffer.recall(fits) {
            return Ok(Self::Quantised(prepared, of));
        }
        let made = make()?;
        let is_half = matches!(buffer.dtype(), DType::F16 | DType::BF16);
        let remembers = match device.is_recording() {
            true => !of_leaf && !is_half,
            false => is_half,
        };
        if let (true, Self::Quantised(prepared, _)) = (remembers, &made) {
            remember(device, &buffer, view, prepared.clone());
        }
        Ok(made)
    }

    /// The same of numbers in 16 bits, which rows and columns are read from: several maps of one input round it once.
    fn remembered_halves<E: From<KernelError>>(
        device: &Device,
        values: View<'_>,
        of_leaf: bool,
        (half, of): (Half, Matrices),
        make: impl FnOnce() -> Result<Self, E>,
    ) -> Result<Self, E> {
        let (buffer, view) = place_of(values)?;
        let columns = of.lines()[1];
        let fits = |one: &Halves| one.is_of(half, columns);
        if let Some(halves) = buffer.recall(fits).filter(|_| view.is_none()) {
            return Ok(Self::Halves(halves, of));
        }
        let made = make()?;
        if let (Self::Halves(halves, _), true, None) =
            (&made, device.is_recording() && !of_leaf, view)
        {
            device.remember(&buffer, halves.clone(), fits);
        }
        Ok(made)
    }
}

fn remember(device: &Device, buffer: &Buffer, view: Option<Layout>, prepared: Prepared) {
    let (like, of) = (view.clone(), prepared.of);
    let is_like = |old: &Remembered| old.0 == like && old.1.of.is_like(&of);
    device.remember(buffer, (view, prepared), is_like);
}

/// Remembers with `values`, which a norm has just computed, the digits that it has made of them.
pub fn remember_norm(device: &Device, values: &Buffer, prepared: Prepared) {
    remember(device, values, None, prepared);
}

/// A weight \[N, K\] made ready for many passes: its rows for the forward pass, its columns for the gradient of the input. They
/// lie in memory of their own, so that graphs may read what another one has prepared, such as the micro-batches of a step.
#[derive(Debug)]
pub struct PreparedWeight {
    device: Device,
    values: Buffer,
    rows: Prepared,
    columns: Prepared,
}

impl PreparedWeight {
    /// Allocates what products read of a weight and computes it; none where they read the weight as it lies.
    ///
    /// # Errors
    /// [`KernelError::Argument`] unless the weight is f32 and has two dimensions, [`KernelError::Length`] for another number of
    /// elements, and what the device reports.
    pub fn new(device: &Device, values: &Buffer, shape: &[usize]) -> Result<Option<Self>> {
        const NAME: &str = "prepared_weight";
        let Some(format) = Format::of(device) else {
            return Ok(None);
        };
        let &[n, k] = shape else {
            let reason = format!("the weight has shape {shape:?}, expected [N, K]");
            return Err(KernelError::argument(NAME)(reason));
        };
        let dtype = values.dtype();
        check_that!(NAME, dtype == DType::F32 =>
            "the weight has elements of {dtype}, expected f32")?;
        check_len(NAME, "the weight", values, [n, k])?;
        let of = [Matrices::rows(1, n, k), Matrices::columns(1, n, k)];
        let [rows, columns] = of.map(|of| of.preparation(device, format, Role::Weight));
        let rows = rows.laid_for(device);
        let [rows, columns] = Prepared::rows_and_columns(device, values, rows, columns)?;
        Ok(Some(Self {
            device: device.clone(),
            values: values.clone(),
            rows,
            columns,
        }))
    }

    /// Computes it again from the weight's values.
    ///
    /// # Errors
    /// What the device reports.
    pub fn update(&self) -> Result<()> {
        prepare_rows_and_columns(&self.device, &self.values, [&self.rows, &self.columns])
    }

    /// Has the graph that is being recorded read it wherever it multiplies by the weight, from here on until it changes the
    /// weight. Whoever replays the graph calls [`PreparedWeight::update`] before if the values have changed. Nothing happens
    /// where no graph is recorded.
    pub fn use_in_recording(&self) {
        if self.device.is_recording() {
            for prepared in [&self.rows, &self.columns] {
                remember(&self.device, &self.values, None, prepared.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use hlx_core::Arithmetic;

    use super::*;
    use hlx_core::testing::{devices, own_devices};

    /// How often an operand of a buffer's values was made.
    struct Made<'a> {
        device: &'a Device,
        values: Buffer,
        times: Cell<usize>,
    }

    impl Made<'_> {
        fn operand(&self, of_leaf: bool) -> Result<Operand> {
            let (device, of) = (self.device, Matrices::rows(1, 4, 32));
            let layout = Layout::contiguous(&[4, 32])?;
            let view = View {
                buffer: &self.values,
                layout: &layout,
            };
            Operand::remembered(device, view, of_leaf, Role::Weight, of, || {
                self.times.set(self.times.get() + 1);
                Operand::new(device, Role::Weight, &self.values, of)
            })
        }

        fn twice(&self, of_leaf: bool) -> Result<usize> {
            self.times.set(0);
            self.operand(of_leaf)?;
            self.operand(of_leaf)?;
            Ok(self.times.get())
        }
    }

    #[test]
    fn weights_of_16_bits_are_remembered_until_they_change() -> Result<()> {
        for device in devices() {
            for (arithmetic, made) in [(Arithmetic::Integer, 1), (Arithmetic::Portable, 2)] {
                let device = &device.with_arithmetic(arithmetic);
                let of = |values| Made {
                    device,
                    values,
                    times: Cell::new(0),
                };
                let halves = of(device.alloc_typed(DType::BF16, 128)?);
                device.fill(&halves.values, 0)?;
                assert_eq!(halves.twice(true)?, made);
                assert_eq!(halves.twice(true)?, 2 * (made - 1));
                device.note_change(&halves.values, 127..128, false);
                assert_eq!(halves.twice(true)?, made);
                let floats = of(device.buffer_of(&[1.0; 128])?);
                assert_eq!(floats.twice(false)?, 2);
            }
        }
        Ok(())
    }

    #[test]
    fn what_a_graph_computes_is_remembered_while_it_is_recorded() -> Result<()> {
        for device in own_devices() {
            let device = &device.with_arithmetic(Arithmetic::Integer);
            let floats = Made {
                device,
                values: device.buffer_of(&[1.0; 128])?,
                times: Cell::new(0),
            };
            for _ in 0..2 {
                let (graph, made) = device.record(|| floats.twice(false))?;
                assert_eq!((made, graph.len()), (1, 0), "{}", device.info());
                let (_, made) = device.record(|| floats.twice(true))?;
                assert_eq!(made, 2, "{}", device.info());
            }
            assert_eq!(floats.twice(false)?, 2, "{}", device.info());
        }
        Ok(())
    }
}
