//! Causal attention: of packed floats, and of integers with their preparation.

use anyhow::Result;
use hlx_core::{Buffer, Device};
use hlx_kernels::attention::{
    Attention, AttentionOperands, AttentionOutput, Limits, PreparedAttention, Schedule,
    layouts_of_packed, query_ranges,
};
use hlx_kernels::{KernelError, Layout, Operand};

use crate::maker::{Launches, Maker, first};

/// A packed operand, and what its attention writes.
struct Case {
    device: Device,
    schedule: Schedule,
    of: Attention,
    qkv: Buffer,
    layouts: [Layout; 3],
    ranges: Buffer,
    o: Buffer,
    stats: Buffer,
}

pub fn attention(
    device: &Device,
    op: &str,
    [batch, time, heads, head_width]: [usize; 4],
) -> Result<Launches> {
    let of = Attention::causal([batch, time], heads, head_width);
    let (make, all) = (Maker(device), batch * time * heads * head_width);
    let mut case = Case {
        device: device.clone(),
        schedule: Schedule::Quantised,
        of,
        qkv: make.values(3 * all)?,
        layouts: layouts_of_packed(&of)?,
        ranges: make.empty(4 * batch * time)?,
        o: make.empty(all)?,
        stats: make.empty(2 * batch * time * heads)?,
    };
    if !op.starts_with("integer") {
        case.schedule = Schedule::of(device, &case.operands(), &of);
    }
    first(|| query_ranges(device, &Limits::default(), &case.ranges, &of))?;
    if !op.ends_with("backward") {
        return Ok(Box::new(move || case.forward()));
    }
    first(|| case.forward())?;
    let d_o = make.values(all)?;
    Ok(Box::new(move || case.backward(&d_o)))
}

impl Case {
    fn heads<'a>(&'a self, buffer: &'a Buffer) -> [Operand<'a>; 3] {
        let layouts = self.layouts.each_ref();
        layouts.map(|layout| Operand { buffer, layout })
    }

    fn operands(&self) -> AttentionOperands<'_> {
        AttentionOperands {
            heads: self.heads(&self.qkv),
            packed: Some(&self.qkv),
            limits: Limits::default(),
            counter: None,
        }
    }

    fn prepared(&self, for_backward: bool) -> Result<PreparedAttention, KernelError> {
        let ranges = Some(&self.ranges);
        let (device, operands) = (&self.device, &self.operands());
        PreparedAttention::by(
            self.schedule,
            device,
            operands,
            ranges,
            &self.of,
            for_backward,
        )
    }

    fn forward(&self) -> Result<(), KernelError> {
        let outputs = [&self.o, &self.stats];
        self.prepared(false)?
            .forward_to(&self.device, &self.operands(), outputs)
    }

    fn backward(&self, d_o: &Buffer) -> Result<(), KernelError> {
        let output = AttentionOutput {
            o: &self.o,
            stats: &self.stats,
            d_o,
        };
        let prepared = self.prepared(true)?;
        prepared.backward(&self.device, &self.operands(), &output)?;
        Ok(())
    }
}
