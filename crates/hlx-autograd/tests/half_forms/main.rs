//! Operations on f16 and bf16 beside their f32 forms on the same widened numbers, rounded once: every
//! public method of `Tensor`, over all its options, forward and backward.
//!
//! The methods, their arguments, and the fields and variants of the arguments' types are read from the
//! sources (`surface.rs`). A new method without a row fails, as does a new argument that no row varies.

mod compare;
mod coverage;
mod elements;
mod layers;
mod losses;
mod moves;
mod reductions;
mod refused;
mod row;
mod surface;

use hlx_autograd::{AutogradError, BackwardPlan, DType, Result, Tensor};
use hlx_core::testing::{cpu, devices};
use hlx_core::{Arithmetic, Device};

use compare::differences;
use row::Row;

const HALVES: [DType; 2] = [DType::F16, DType::BF16];

fn all_rows() -> Vec<Row> {
    [
        elements::elements(),
        elements::written(),
        moves::views(),
        moves::joins(),
        moves::places(),
        reductions::reductions(),
        layers::products(),
        layers::images(),
        layers::norms(),
        losses::losses(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whether a row is compared on a device in a 16-bit type. A software driver compiles a pipeline for
/// each operation and type, so that GPUs take all norms and each nineteenth row, unless `HLX_EXHAUSTIVE` is
/// set; that a kernel has the CPU's bits is tested beside the kernel.
fn is_compared(device: &Device, at: usize, row: &Row, dtype: DType) -> bool {
    let alternate = at.is_multiple_of(2) == (dtype == DType::F16);
    let chosen = row.method.contains("norm") || at.is_multiple_of(19);
    device.is_cpu() || std::env::var_os("HLX_EXHAUSTIVE").is_some() || (chosen && alternate)
}

#[test]
fn an_operation_of_16_bits_is_its_f32_form_rounded_once() {
    let mut wrong = Vec::new();
    let integer = devices()[0].with_arithmetic(Arithmetic::Integer);
    for device in devices().iter().chain([&integer]) {
        for (at, row) in all_rows().iter().enumerate() {
            let all = vec![true; row.shapes.len()];
            for dtype in HALVES {
                if !is_compared(device, at, row, dtype) {
                    continue;
                }
                let call = format!("{} of {dtype}, {}", row.text(), device.label());
                let found = differences(device, row, dtype, &all);
                let found = found.unwrap_or_else(|error| vec![error.to_string()]);
                wrong.extend(found.into_iter().map(|text| format!("{call}: {text}")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// One operand of 16 bits beside f32, and one of f32 beside 16 bits: refused, or the f32 form again.
#[test]
fn a_16_bit_operand_beside_f32_ones_is_widened_or_refused() -> Result<()> {
    let (device, mut wrong, mut computed) = (cpu()?, Vec::new(), 0);
    for row in all_rows().iter().filter(|row| row.shapes.len() > 1) {
        for odd in 0..row.shapes.len() {
            for odd_is_narrow in [false, true] {
                let narrow = (0..row.shapes.len()).map(|at| (at == odd) == odd_is_narrow);
                let narrow: Vec<bool> = narrow.collect();
                let Ok(found) = differences(&device, row, DType::BF16, &narrow) else {
                    continue;
                };
                computed += 1;
                let call = format!("{}, 16 bits: {narrow:?}", row.text());
                wrong.extend(found.into_iter().map(|text| format!("{call}: {text}")));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(computed > 200, "{computed} calls were computed");
    Ok(())
}

/// Calls a row with an operand of integers, or of another shape, in the place of one.
fn with_another(device: &Device, row: &Row, at: usize, dtype: DType) -> Result<[Result<()>; 2]> {
    let inputs = row
        .shapes
        .iter()
        .map(|shape| Tensor::ones(device, shape, dtype));
    let inputs = inputs.collect::<Result<Vec<Tensor>>>()?;
    let with = |other: Tensor| {
        let mut inputs = inputs.clone();
        inputs[at] = other;
        (row.call)(&inputs).map(drop)
    };
    Ok([
        with(inputs[at].to_dtype(DType::I32)?),
        with(Tensor::ones(device, &[13, 11], dtype)?),
    ])
}

#[test]
fn a_16_bit_form_refuses_what_its_f32_form_refuses() -> Result<()> {
    let (device, mut refused) = (cpu()?, 0);
    for row in all_rows() {
        for at in 0..row.shapes.len() {
            let [of_integers, of_shape] = with_another(&device, &row, at, DType::F32)?;
            let [narrow_integers, narrow_shape] = with_another(&device, &row, at, DType::BF16)?;
            let call = format!("{}, input {at}", row.text());
            if of_integers.is_err() {
                assert!(narrow_integers.is_err(), "{call} takes integers");
                refused += 1;
            }
            if let Err(error) = of_shape {
                let narrow = narrow_shape.expect_err(&call);
                assert_eq!(narrow.to_string(), error.to_string(), "{call}");
                refused += 1;
            }
        }
    }
    assert!(refused > 100, "{refused} calls were refused");
    Ok(())
}

#[test]
fn an_operation_without_a_16_bit_form_refuses_each_16_bit_operand() -> Result<()> {
    let device = cpu()?;
    for row in refused::refused() {
        let n = row.shapes.len();
        let one_narrow = (0..n).map(|odd| (0..n).map(|at| at == odd).collect());
        let all_narrow: Vec<bool> = vec![true; n];
        for narrow in one_narrow.chain([all_narrow]) {
            // A frozen weight may have 16 bits beside f32 inputs; these want gradients.
            let refusal = differences(&device, &row, DType::BF16, &narrow);
            let call = format!("{}, 16 bits: {narrow:?}", row.text());
            match refusal {
                Err(AutogradError::DType { .. }) => {}
                Err(error) => panic!("{call}: {error}"),
                Ok(_) => panic!("{call} has a 16-bit form: it needs a row"),
            }
        }
    }
    let x = Tensor::ones(&device, &[3], DType::F16)?;
    for name in refused::OF_INTEGERS {
        let binary = hlx_autograd::Binary::ALL
            .iter()
            .find(|kind| kind.name() == name);
        let refused = match binary {
            Some(&kind) => x.binary(kind, &x),
            None => x.bitwise_not(),
        };
        assert!(
            matches!(refused, Err(AutogradError::Argument { .. })),
            "{name}"
        );
    }
    Ok(())
}

/// The gradient of what repeats was f32, and that of a pass started by an f32 upstream gradient, too.
#[test]
fn a_gradient_has_the_type_of_its_16_bit_tensor() -> Result<()> {
    for device in devices() {
        let of = || Ok::<_, AutogradError>(Tensor::ones(device, &[3], DType::F16)?.with_gradient());
        let (repeated, viewed, alone) = (of()?, of()?, of()?);
        repeated.expand(&[5, 3])?.sum()?.backward()?;
        let upstream = Tensor::full(device, &[3, 1], 1.0 / 3.0, DType::F32)?;
        let view = viewed.reshape(&[3, 1])?;
        view.backward_from(&upstream, &BackwardPlan::default())?;
        alone.narrow(0, 1, 1)?.backward()?;
        for (x, expected) in [(repeated, 5.0), (viewed, 1.0 / 3.0), (alone, 0.0)] {
            let gradient = x.grad().expect("a gradient");
            assert_eq!(gradient.dtype(), DType::F16);
            let first = gradient.to_dtype(DType::F32)?.to_vec::<f32>()?[0];
            assert!((first - expected).abs() < 1e-3, "{first}, not {expected}");
        }
    }
    Ok(())
}

#[test]
fn a_constant_of_16_bits_is_rounded_once() -> Result<()> {
    for device in devices() {
        for dtype in HALVES {
            for value in [
                0.0,
                -0.0,
                1.0,
                0.1,
                -1e-7,
                65519.9,
                65520.0,
                3.4e38,
                f32::INFINITY,
            ] {
                let made = Tensor::full(device, &[5], value, dtype)?;
                let rounded = Tensor::full(device, &[5], value, DType::F32)?.to_dtype(dtype)?;
                let words = |x: &Tensor| {
                    device
                        .download_words(&x.buffer()?)
                        .map_err(AutogradError::from)
                };
                assert_eq!(words(&made)?[0], words(&rounded)?[0], "{value} of {dtype}");
            }
        }
    }
    Ok(())
}
