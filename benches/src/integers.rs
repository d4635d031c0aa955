//! The operations of the `integer` arithmetic.

use anyhow::Result;
use hlx_core::Device;
use hlx_kernels::activation::Activation;
use hlx_kernels::product::Epilogue;
use hlx_kernels::product::quantised::{
    Digits, IntegerProduct, Preparation, Prepared, integer_product, prepare,
};

use crate::maker::{Launches, Maker};

/// A product of operands that are prepared each time or once, alone, with GELU after it or its slope.
pub fn product(device: &Device, op: &str, [m, n, k]: [usize; 3]) -> Result<Launches> {
    let make = Maker(device);
    let (a, b, c) = (make.values(m * k)?, make.values(n * k)?, make.empty(m * n)?);
    let of_a = Preparation::of_rows(m, k, Digits::Two).laid_for(device);
    let of_b = Preparation::of_rows(n, k, Digits::One).laid_for(device);
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
