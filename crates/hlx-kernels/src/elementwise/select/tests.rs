//! Choices by a condition: bits of all devices, types, layouts, and more dimensions than push constants hold.

use half::f16;
use hlx_core::{Bool, Element};

use super::*;
use crate::testing::{elements_of, run_everywhere};

fn of<'a>(buffer: &'a Buffer, layout: &'a Layout) -> Operand<'a> {
    Operand { buffer, layout }
}

/// A mask by rows, values by columns, and a transposed operand.
fn check_select<T: Element>(value: impl Fn(usize) -> T) {
    let a: Vec<T> = (0..35).map(&value).collect();
    let b: Vec<T> = (100..105).map(&value).collect();
    let condition = [true, false, false, true, true, false, true].map(Bool::from);
    let got = run_everywhere("select", |device, mem| {
        let condition = mem.input_of(device, &condition)?;
        let (a, b) = (mem.input_of(device, &a)?, mem.input_of(device, &b)?);
        let by_row = Layout::contiguous(&[7, 1])?;
        let transposed = Layout::contiguous(&[5, 7])?
            .permute(&[1, 0])
            .expect("transposed");
        let out = mem.output_of(device, T::DTYPE, 35)?;
        let row = Layout::contiguous(&[5])?;
        select(
            device,
            of(&condition, &by_row),
            of(&a, &transposed),
            of(&b, &row),
            &out,
        )?;
        let filled = mem.output_of(device, T::DTYPE, 35)?;
        masked_fill(
            device,
            of(&a, &transposed),
            of(&condition, &by_row),
            3.0,
            &filled,
        )?;
        Ok(vec![out, filled])
    });
    let (mut chosen, mut filled) = (Vec::new(), Vec::new());
    for (row, &holds) in condition.iter().enumerate() {
        for column in 0..5 {
            let transposed = a[7 * column + row];
            let holds = bool::from(holds);
            chosen.push(if holds { transposed } else { b[column] });
            filled.push(if holds { value(3) } else { transposed });
        }
    }
    assert_eq!(elements_of::<T>(&got[0], 35), chosen, "{}", T::DTYPE);
    assert_eq!(elements_of::<T>(&got[1], 35), filled, "{}", T::DTYPE);
}

#[test]
fn elements_of_every_size_are_chosen() {
    check_select(|i| i as f32);
    check_select(|i| f16::from_f32(i as f32));
    check_select(|i| i as i8);
}

#[test]
fn operands_of_other_types_are_converted() {
    let got = run_everywhere("select", |device, mem| {
        let condition = mem.input_of(device, &[true, false].map(Bool::from))?;
        let (a, b) = (
            mem.input_of(device, &[-3_i32])?,
            mem.input_of(device, &[0.5_f32, 0.25])?,
        );
        let (two, one) = (Layout::contiguous(&[2])?, Layout::contiguous(&[1])?);
        let out = mem.output_of(device, DType::F32, 2)?;
        select(
            device,
            of(&condition, &two),
            of(&a, &one),
            of(&b, &two),
            &out,
        )?;
        Ok(vec![out])
    });
    assert_eq!(got[0], [-3.0, 0.25]);
}

/// No two neighbours of these eight dimensions can be joined.
#[test]
fn eight_dimensions_that_do_not_join_are_copied_first() {
    let shape = [2; 8];
    let x: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let y: Vec<f32> = x.iter().map(|x| -x).collect();
    let truths: Vec<Bool> = (0..256).map(|i| Bool::from(i % 3 == 0)).collect();
    let whole = Layout::contiguous(&shape).expect("a shape");
    let transposed = whole.permute(&[7, 6, 5, 4, 3, 2, 1, 0]).expect("reversed");
    let got = run_everywhere("select", |device, mem| {
        let (x, y) = (mem.input(device, &x)?, mem.input(device, &y)?);
        let (mask, out) = (mem.input_of(device, &truths)?, mem.output(device, 256)?);
        select(
            device,
            of(&mask, &whole),
            of(&x, &transposed),
            of(&y, &whole),
            &out,
        )?;
        Ok(vec![out])
    });
    for (at, &found) in got[0].iter().enumerate() {
        let reversed = (at as u8).reverse_bits();
        let want = if at % 3 == 0 {
            f32::from(reversed)
        } else {
            -(at as f32)
        };
        assert_eq!(found, want, "element {at}");
    }
}

#[test]
fn values_become_elements_by_the_written_rule() {
    for (dtype, value, bits) in [
        (DType::F32, 1e-40, 0),
        (DType::F16, f64::NEG_INFINITY, 0xfc00),
        (DType::BF16, 1.0, 0x3f80),
        (DType::I32, -7.9, -7_i32 as u32),
        (DType::U32, 4e9, 4_000_000_000),
        (DType::I8, -1000.0, 0x80),
        (DType::U8, f64::NAN, 0),
        (DType::Bool, -0.5, 1),
    ] {
        assert_eq!(bits_of(dtype, value), bits, "{value} as {dtype}");
    }
}

#[test]
fn types_that_do_not_fit_are_refused_in_one_line() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let x = device.alloc(3).expect("memory");
    let truths = device.alloc_typed(DType::Bool, 3).expect("memory");
    let integers = device.alloc_typed(DType::I32, 3).expect("memory");
    let layout = Layout::contiguous(&[3]).expect("a shape");
    let (x, mask) = (of(&x, &layout), of(&truths, &layout));
    let message = |result: Result<()>| result.expect_err("refused").to_string();
    assert_eq!(
        message(select(&device, x, x, x, &integers)),
        "select: condition is f32, expected bool"
    );
    assert_eq!(
        message(select(&device, mask, x, mask, &integers)),
        "select: a is f32, expected an integer type or bool, as out is i32"
    );
    assert_eq!(
        message(masked_fill(&device, x, mask, 0.0, &integers)),
        "masked_fill: out is i32, expected f32 as x"
    );
}
