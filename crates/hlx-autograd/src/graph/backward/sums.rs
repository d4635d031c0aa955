//! How contributions to one gradient are added, in the order in which they come.

use std::sync::Arc;

use hlx_core::{Buffer, DType};
use hlx_kernels::elementwise::{Binary, add, add_assign, binary};
use hlx_kernels::{Layout, Operand};

use super::gradient::Values;
use super::{Backward, Gradient};
use crate::Result;
use crate::error::AutogradError;
use crate::graph::input::Leaf;

impl Backward<'_> {
    /// Whether a leaf's next gradient is added to what is there.
    pub(super) fn continues(&self, leaf: &Leaf) -> Result<bool> {
        if self.written.contains(&leaf.identity()) {
            if !self.plan.whole_batch {
                let parameter = leaf.name.clone();
                return Err(AutogradError::SharedParameter {
                    op: self.op,
                    parameter,
                });
            }
            return Ok(true);
        }
        let mut slot = leaf.slot();
        slot.fetch()?;
        if leaf.first_use.is_some() && self.plan.whole_batch {
            // What it holds was added to the parameter's gradient by an earlier pass.
            return Ok(false);
        }
        let has_buffer = slot.buffer.is_some();
        Ok((self.plan.accumulate && has_buffer) || (self.adds_to_filled && slot.filled))
    }

    /// Notes that the pass has written a leaf's gradient.
    pub(super) fn note_written(&mut self, leaf: &Arc<Leaf>) {
        if self.written.insert(leaf.identity()) && leaf.first_use.is_some() {
            self.uses.push(Arc::clone(leaf));
        }
    }

    /// Adds the gradients of other uses to those of the parameters, in the order in which they went
    /// forward.
    pub(super) fn add_uses(&mut self) -> Result<()> {
        for leaf in std::mem::take(&mut self.uses).into_iter().rev() {
            let Some(first) = &leaf.first_use else {
                continue;
            };
            let mut slot = leaf.slot();
            slot.filled = false;
            let Some(root) = slot.buffer.clone() else {
                continue;
            };
            let goes_on = self.written.contains(&first.identity())
                || self.plan.accumulate
                || self.adds_to_filled;
            let mut own = first.slot();
            own.fetch()?;
            match &own.buffer {
                Some(total) if own.filled && goes_on => add_assign(&self.device, total, &root)?,
                Some(total) => self.device.copy(&root, total)?,
                None => {
                    let total = self.device.alloc(root.len())?;
                    self.device.copy(&root, &total)?;
                    own.buffer = Some(total);
                }
            }
            own.filled = true;
        }
        Ok(())
    }

    pub(super) fn add_to_leaf(
        &mut self,
        leaf: &Arc<Leaf>,
        elements: usize,
        gradient: Gradient,
    ) -> Result<()> {
        let accumulate = self.continues(leaf)?;
        self.note_written(leaf);
        let mut slot = leaf.slot();
        slot.filled = true;
        if self.recorded && !slot.external {
            let Values::Tensor(mut total) = gradient.values else {
                return Err(AutogradError::NoSecondDerivative { op: self.op });
            };
            if let Some(earlier) = slot.tensor.take().filter(|_| accumulate) {
                total = earlier.add(&total)?;
            }
            slot.buffer = Some(total.buffer()?);
            slot.tensor = Some(total);
            return Ok(());
        }
        slot.tensor = None;
        let values = gradient.buffer()?;
        let own = gradient.owned || gradient.is_copy(&values);
        match slot.buffer.take() {
            Some(buffer) if accumulate => {
                slot.buffer = Some(self.added(buffer, true, &values)?);
            }
            Some(buffer) if slot.external => {
                self.device.copy(&values, &buffer)?;
                slot.buffer = Some(buffer);
            }
            _ if own => slot.buffer = Some(values),
            _ => {
                let buffer = self.device.alloc_typed(values.dtype(), elements)?;
                self.device.copy(&values, &buffer)?;
                slot.buffer = Some(buffer);
            }
        }
        Ok(())
    }

    /// Adds a later contribution to an earlier one, in its memory where nothing else reads it.
    pub(super) fn added(&self, earlier: Buffer, owned: bool, later: &Buffer) -> Result<Buffer> {
        let (dtype, len) = (earlier.dtype(), earlier.len());
        if dtype == DType::F32 && owned {
            add_assign(&self.device, &earlier, later)?;
            return Ok(earlier);
        }
        let total = self.device.alloc_typed(dtype, len)?;
        if dtype == DType::F32 {
            add(&self.device, &earlier, later, &total)?;
            return Ok(total);
        }
        let layout = Layout::contiguous(&[len])?;
        let [one, two] = [&earlier, later].map(|buffer| Operand {
            buffer,
            layout: &layout,
        });
        binary(&self.device, Binary::Add, DType::F32, one, two, &total)?;
        Ok(total)
    }

    /// Adds to the gradient of a wanted tensor; drops that of another leaf.
    pub(super) fn add_to_wanted(&mut self, identity: usize, gradient: Gradient) -> Result<()> {
        let Some(slot) = self.wanted.as_mut().and_then(|all| all.get_mut(&identity)) else {
            return Ok(());
        };
        let total = match slot.take() {
            None => gradient,
            Some(earlier) => self.sum(earlier, gradient)?,
        };
        if let Some(slot) = self.wanted.as_mut().and_then(|all| all.get_mut(&identity)) {
            *slot = Some(total);
        }
        Ok(())
    }

    /// Adds a later contribution to an earlier one, in that order.
    pub(super) fn sum(&self, earlier: Gradient, later: Gradient) -> Result<Gradient> {
        if let (true, Values::Tensor(one), Values::Tensor(two)) =
            (self.recorded, &earlier.values, &later.values)
        {
            return Ok(Gradient::of(one.add(two)?));
        }
        let (owned, two) = (earlier.owned, later.buffer()?);
        Ok(Gradient::owned(self.added(
            earlier.buffer()?,
            owned,
            &two,
        )?))
    }
}
