//! The probe's row reduction: rows whose sum depends on the order of summation.

use crate::arith;
use crate::device::Device;
use crate::error::CoreError;
use crate::launch::{Binding, Launch, groups_1d};
use crate::probe_report::ProbeReport;
use crate::shader::Shader;

static ROW_SUM_SPV: &[u8] = include_bytes!("../../spv/probe/row_sum.spv");
// SAFETY: a module of `cargo xtask shaders`; its accesses are bounded by the rows and columns
// pushed to it.
pub(super) static ROW_SUM: Shader = unsafe { Shader::new("probe/row_sum", ROW_SUM_SPV) };

/// Rows whose sum shows the order: exponents from -30 to 30 and signs at random.
fn reduction_rows() -> (Vec<f32>, [usize; 2]) {
    let [rows, cols] = [9, 333];
    let values = (0..rows * cols).map(|index| {
        let [a, b, ..] = arith::philox4x32([index as u32, 1, 0, 0], [0x0048_4c58, 0]);
        f32::from_bits((a & 0x807f_ffff) | ((97 + b % 61) << 23))
    });
    (values.collect(), [rows, cols])
}

/// The row sum of the specification, one lane after the other.
fn reference_row_sum(row: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 128];
    for (index, &value) in row.iter().enumerate() {
        lanes[index % 128] = arith::add(lanes[index % 128], value);
    }
    let mut half = 64;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] = arith::add(lanes[lane], lanes[lane + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Compares the device's row sums with the order that is specified.
pub(super) fn probe(device: &Device, report: &mut ProbeReport) -> Result<(), CoreError> {
    let (values, [rows, cols]) = reduction_rows();
    let x = device.buffer_of(&values)?;
    let out = device.alloc(rows)?;
    let push = [rows as u32, cols as u32];
    let launch = Launch {
        name: "probe",
        shader: &ROW_SUM,
        specialization: &[],
        bindings: &[Binding::Read(&x), Binding::Write(&out)],
        push: bytemuck::cast_slice(&push),
        groups: groups_1d(rows.div_ceil(8)),
    };
    device.launch(launch, |_| {})?;
    let found = device.download_words(&out)?;
    let expected: Vec<u32> = crate::cpu::with_flush(|| {
        values
            .chunks(cols)
            .map(|row| reference_row_sum(row).to_bits())
            .collect()
    });
    let finding = if found == expected {
        "equal"
    } else {
        "another order of summation"
    };
    report.add("row reduction", finding, found == expected);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reduction_rows_tell_orders_apart() {
        let (values, [_, cols]) = reduction_rows();
        let sequential = values[..cols]
            .iter()
            .fold(0.0, |sum: f32, value| sum + value);
        assert_ne!(
            sequential.to_bits(),
            reference_row_sum(&values[..cols]).to_bits()
        );
    }
}
