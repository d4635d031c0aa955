//! The formats of operands that are not read as floats: one row for each.

use hlx_core::{Arithmetic, Buffer, Device, Half, IntegerPath};

use super::quantised::specification::digits_of;
use super::quantised::{Call, Digits};
use super::role::Role;
use crate::Result;
use crate::tuning::KernelTuning;

/// How operands are stored, and how two of them are multiplied.
pub(crate) struct Format {
    /// The arithmetic of the devices whose products read operands in this format.
    pub arithmetic: Arithmetic,
    /// The digits of an operand, by what it is to a step.
    pub digits: fn(Role) -> Digits,
    /// The digits of the left and of the right operand of a product.
    pub pair: [Digits; 2],
    /// Launches a checked product into C.
    pub launch: fn(&Call<'_>, &Device, &Buffer) -> Result<()>,
}

/// Every format. Where operands are given without an arithmetic, as in tests, the first row that fits is taken.
static FORMATS: [Format; 1] = [Format {
    arithmetic: Arithmetic::Integer,
    digits: digits_of,
    pair: [Digits::Two, Digits::One],
    launch: |call, device, c| call.launch(device, c),
}];

impl Format {
    /// The format of a device's operands; none where products read floats.
    pub fn of(device: &Device) -> Option<&'static Self> {
        let mut formats = FORMATS.iter();
        formats.find(|format| format.arithmetic == device.product_arithmetic())
    }

    /// The format of the operands of attention; none where its products read floats. In `fast` they are quantised too, wherever
    /// sums of integers are as fast as those of halves.
    pub fn of_sources(device: &Device) -> Option<&'static Self> {
        let integers = KernelTuning::of(device).products.integers;
        let are_fast = device.is_cpu() || matches!(integers, IntegerPath::Matrices(_));
        match device.product_arithmetic() {
            Arithmetic::Fast(_) if are_fast => Some(&FORMATS[0]),
            _ => Self::of(device),
        }
    }

    /// The same of a device whose operands are quantised in any case.
    pub fn of_quantised(device: &Device) -> &'static Self {
        Self::of(device).unwrap_or(&FORMATS[0])
    }

    /// The format of a product of operands with these digits.
    pub fn of_pair(pair: [Digits; 2]) -> &'static Self {
        let mut formats = FORMATS.iter();
        let found = formats.find(|format| format.pair == pair);
        found.unwrap_or(&FORMATS[0])
    }
}

impl Role {
    /// The type that an operand of this role is rounded to; none where it is not.
    pub(super) fn half(self, device: &Device) -> Option<Half> {
        device
            .product_arithmetic()
            .half()
            .filter(|_| self != Self::TimeStep)
    }

    /// How an operand of this role is stored; none where products read its floats.
    pub(super) fn format(self, device: &Device) -> Option<&'static Format> {
        Format::of(device).filter(|_| self != Self::TimeStep)
    }
}
