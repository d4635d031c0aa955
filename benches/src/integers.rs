//! The operations of the `integer` arithmetic.

use anyhow::Result;
use hlx_core::{Buffer, Device};
use hlx_kernels::activation::Activation;
use hlx_kernels::attention::AttentionShape;
use hlx_kernels::attention::ranged::{
    AttentionInputs, AttentionSaved, Limits, RangedAttention, integer_attention_backward,
    integer_attention_forward, key_ranges, query_ranges,
};
use hlx_kernels::product::Epilogue;
use hlx_kernels::product::quantised::{
    IntegerProduct, Preparation, Prepared, Width, integer_product, prepare,
};
use hlx_kernels::{KernelError, Layout, Operand};

use crate::maker::{Launches, Maker, first};

/// A product of operands that are prepared each time or once, alone, with GELU behind it or its slope.
pub fn product(device: &Device, op: &str, [m, n, k]: [usize; 3]) -> Result<Launches> {
    let make = Maker(device);
    let (a, b, c) = (make.values(m * k)?, make.values(n * k)?, make.empty(m * n)?);
    let of_a = Preparation::of_rows(m, k, Width::Wide);
    let of_b = Preparation::of_rows(n, k, Width::Narrow);
    let prepared = [
        Prepared::new(device, &a, of_a)?,
        Prepared::new(device, &b, of_b)?,
    ];
    let device = device.clone();
    let shape = IntegerProduct::new(m, n, k);
    let sums = move |device: &Device, prepared: &[Prepared; 2], epilogue: Epilogue<'_>| {
        let [a, b] = prepared;
        integer_product(device, [a, b], None, &c, &shape, epilogue)
    };
    Ok(match op {
        "integer_gelu" => {
            let out = make.empty(m * n)?;
            let kind = Activation::GELU;
            Box::new(move || sums(&device, &prepared, Epilogue::Activation { kind, out: &out }))
        }
        "integer_gelu_slope" => {
            let epilogue = Epilogue::ActivationBackward(Activation::GELU);
            Box::new(move || sums(&device, &prepared, epilogue))
        }
        "integer_sums" => Box::new(move || sums(&device, &prepared, Epilogue::None)),
        _ => Box::new(move || {
            prepare(&device, &a, &prepared[0])?;
            prepare(&device, &b, &prepared[1])?;
            sums(&device, &prepared, Epilogue::None)
        }),
    })
}

/// Causal attention over ranges, with its operands' preparation.
struct Attention {
    device: Device,
    qkv: [Buffer; 3],
    layout: Layout,
    ranges: [Buffer; 2],
    o: Buffer,
    stats: Buffer,
    of: RangedAttention,
}

pub fn attention(device: &Device, backward: bool, shape: AttentionShape) -> Result<Launches> {
    let AttentionShape {
        batch,
        time,
        heads,
        head_width,
    } = shape;
    let make = Maker(device);
    let all = batch * time * heads * head_width;
    let of = RangedAttention {
        batch,
        queries: time,
        keys: time,
        heads,
        key_heads: heads,
        head_width,
        scale: 1.0 / (head_width as f32).sqrt(),
        soft_cap: None,
        dropout: None,
        causal: true,
        window: None,
    };
    let attention = Attention {
        device: device.clone(),
        qkv: [make.values(all)?, make.values(all)?, make.values(all)?],
        layout: Layout::contiguous(&[batch, time, heads, head_width])?,
        ranges: [make.empty(4 * batch * time)?, make.empty(4 * batch * time)?],
        o: make.empty(all)?,
        stats: make.empty(2 * batch * time * heads)?,
        of,
    };
    let [of_queries, of_keys] = &attention.ranges;
    first(|| {
        query_ranges(device, &Limits::default(), of_queries, &of)?;
        key_ranges(device, &Limits::default(), of_keys, &of)
    })?;
    if !backward {
        return Ok(Box::new(move || attention.forward()));
    }
    first(|| attention.forward())?;
    let (d_o, delta) = (make.values(all)?, make.empty(batch * time * heads)?);
    let gradients = [make.empty(all)?, make.empty(all)?, make.empty(all)?];
    Ok(Box::new(move || {
        attention.backward(&d_o, &delta, gradients.each_ref())
    }))
}

impl Attention {
    fn inputs(&self) -> AttentionInputs<'_> {
        let [q, k, v] = &self.qkv;
        let layout = &self.layout;
        let operand = |buffer| Operand { buffer, layout };
        AttentionInputs {
            q: operand(q),
            k: operand(k),
            v: operand(v),
            query_ranges: &self.ranges[0],
            counter: None,
        }
    }

    fn forward(&self) -> Result<(), KernelError> {
        integer_attention_forward(&self.device, &self.inputs(), &self.o, &self.stats, &self.of)
    }

    fn backward(
        &self,
        d_o: &Buffer,
        delta: &Buffer,
        gradients: [&Buffer; 3],
    ) -> Result<(), KernelError> {
        let saved = AttentionSaved {
            key_ranges: &self.ranges[1],
            o: &self.o,
            stats: &self.stats,
            d_o,
            delta,
        };
        integer_attention_backward(&self.device, &self.inputs(), &saved, gradients, &self.of)
    }
}
