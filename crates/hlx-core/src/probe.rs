//! The start-up probe: does this device compute as HLX's arithmetic says?
//!
//! It runs in three parts: the bare instructions, to see whether the device fuses and flushes by
//! itself; every function of [`crate::arith`], whose GLSL must give the bits of its Rust twin;
//! and a row reduction. A device that fails is refused. The result is cached on disk by
//! device, driver and shader, as the probe takes a tenth of a second.

mod dots;
mod halves;
mod inputs;
mod matrices;
mod reduction;
mod stored;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use self::inputs::Inputs;
use crate::arithmetic::{Half, HalfMatrices, IntegerPath, MatrixShape};
use crate::device::Device;
use crate::device_info::DeviceKind;
use crate::digest::canonical_bits;
use crate::error::CoreError;
use crate::launch::{Binding, Launch, groups_1d};
use crate::peak::{self, Peak};
use crate::probe_report::ProbeReport;
use crate::shader::Shader;
use crate::vulkan::{Modes, VulkanDevice};
use crate::{Buffer, arith, multiversion};

static ARITHMETIC_SPV: &[u8] = include_bytes!("../spv/probe/arithmetic.spv");
// SAFETY: a module of `cargo xtask shaders`; its accesses are bounded by the count pushed to it.
static ARITHMETIC: Shader = unsafe { Shader::new("probe/arithmetic", ARITHMETIC_SPV) };

/// The Rust twin of an operation under probe.
type Twin = fn(f32, f32, f32) -> f32;

/// An operation under probe: its number in the shader, its name and its twin.
type Operation = (u32, &'static str, Twin);

const BARE: [Operation; 3] = [
    (0, "fma", |x, y, z| arith::fma(x, y, z)),
    (1, "multiplication", |x, y, _| arith::mul(x, y)),
    (2, "addition", |x, y, _| arith::add(x, y)),
];

const FUNCTIONS: [Operation; 15] = [
    (3, "fma", |x, y, z| arith::fma(x, y, z)),
    (4, "mul", |x, y, _| arith::mul(x, y)),
    (5, "add", |x, y, _| arith::add(x, y)),
    (6, "sub", |x, y, _| arith::sub(x, y)),
    (7, "order of operations", |x, y, _| {
        arith::sub(arith::add(x, y), x)
    }),
    (8, "div", |x, y, _| arith::div(x, y)),
    (9, "sqrt", |x, _, _| arith::sqrt(x)),
    (10, "rsqrt", |x, _, _| arith::rsqrt(x)),
    (11, "exp", |x, _, _| arith::exp(x)),
    (12, "log", |x, _, _| arith::log(x)),
    (13, "tanh", |x, _, _| arith::tanh(x)),
    (14, "erf", |x, _, _| arith::erf(x)),
    (15, "sin", |x, _, _| arith::sin(x)),
    (16, "cos", |x, _, _| arith::cos(x)),
    (17, "max", |x, y, _| {
        arith::max(arith::flush(x), arith::flush(y))
    }),
];

multiversion! {
    /// `[x y + z, x y]` of each triple, as kernels compute them.
    fn fma_and_mul<A>(triples: &[[f32; 3]], out: &mut [[f32; 2]]) {
        for (out, &[x, y, z]) in out.iter_mut().zip(triples) {
            *out = [A::fma(x, y, z), A::mul(x, y)];
        }
    }
}

/// Probes the CPU device; runs in one of its workers. The kernels use the processor's own
/// arithmetic, so the probe shows that it fuses and flushes.
pub(crate) fn run_cpu() -> ProbeReport {
    use arith::soft::{Here, softfma};

    // Miri runs no assembly, so it cannot flush subnormals; it checks memory, not numbers.
    if cfg!(miri) {
        return ProbeReport::default();
    }
    let mut report = ProbeReport::default();
    let tiny = std::hint::black_box(f32::MIN_POSITIVE);
    let flushed = (tiny * 0.5).to_bits() == 0 && (-tiny * 0.5).to_bits() == 0x8000_0000;
    let finding = if flushed { "flushed" } else { "kept" };
    report.add("subnormals", finding, flushed);
    let subnormal = std::hint::black_box(f32::from_bits(1));
    let read_as_zero = (subnormal * 1e30).to_bits() == 0;
    let finding = if read_as_zero { "zero" } else { "kept" };
    report.add("subnormal inputs", finding, read_as_zero);

    let inputs = Inputs::new();
    let bare: Vec<u32> = (0..inputs.len())
        .map(|index| {
            let [x, y, _] = inputs.triple(index);
            (std::hint::black_box(x) * y).to_bits()
        })
        .collect();
    report.add("flush of subnormals", inputs.flush_rule(&bare).name(), true);

    let triples: Vec<_> = (0..inputs.len())
        .map(|index| inputs.triple(index))
        .collect();
    let mut found = vec![[0.0; 2]; triples.len()];
    fma_and_mul(&triples, &mut found);
    let differing = triples.iter().zip(&found).find(|([x, y, z], [fma, mul])| {
        let exact = [softfma::<Here>(*x, *y, *z), arith::wide::mul(*x, *y)];
        [*fma, *mul].map(canonical_bits) != exact.map(canonical_bits)
    });
    match differing {
        None => report.add("fma and mul against integers", "equal", true),
        Some(([x, y, z], _)) => report.add(
            "fma and mul against integers",
            format!("differ at ({x:e}, {y:e}, {z:e})"),
            false,
        ),
    }
    report
}

/// What the probe of a Vulkan device gives.
#[derive(Clone)]
pub(crate) struct Probed {
    pub report: ProbeReport,
    pub peak: Option<Peak>,
    pub integers: IntegerPaths,
    pub halves: HalfMatrices,
}

/// How a device can sum products of integers, besides plainly.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct IntegerPaths {
    /// Dot products of four bytes that are right.
    pub dots: bool,
    /// And in hardware.
    pub dots_in_hardware: bool,
    /// Cooperative matrices that are right, if some are there.
    pub matrices: Option<MatrixShape>,
}

impl IntegerPaths {
    /// All of them, the fastest first. Dot products that are not in hardware are the slowest.
    pub fn all(self) -> Vec<IntegerPath> {
        let dots = |wanted: bool| wanted.then_some(IntegerPath::Dots);
        let all = [
            self.matrices.map(IntegerPath::Matrices),
            dots(self.dots && self.dots_in_hardware),
            Some(IntegerPath::Plain),
            dots(self.dots && !self.dots_in_hardware),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Probes a Vulkan device, or reads what an earlier probe of it found, and sets its modes.
pub(crate) fn run_vulkan(device: &Device, vulkan: &Arc<VulkanDevice>) -> Result<Probed, CoreError> {
    // By selector. One probe at a time; the others of this process then find its result.
    static FOUND: Mutex<BTreeMap<String, Probed>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(probed) = found.get(&vulkan.info.selector) {
        return Ok(probed.clone());
    }
    let probed = match stored::read(vulkan) {
        Some(stored) => {
            let modes = Modes {
                native_fma: stored.native_fma,
                native_flush: stored.native_flush,
            };
            let _ = vulkan.modes.set(modes);
            Probed {
                report: stored.report,
                peak: stored.peak,
                integers: stored.integers,
                halves: stored.halves,
            }
        }
        None => {
            let (modes, report, integers, halves) = probe(device, vulkan)?;
            let hardware = vulkan.info.kind == DeviceKind::VulkanGpu;
            let peak = match report.passed() && hardware {
                true => Some(peak::measure(device)?),
                false => None,
            };
            let probed = Probed {
                report,
                peak,
                integers,
                halves,
            };
            if probed.report.passed() {
                stored::write(vulkan, modes, &probed);
            }
            probed
        }
    };
    found.insert(vulkan.info.selector.clone(), probed.clone());
    Ok(probed)
}

/// The device's modes, the report, and how it can sum products of integers and of 16-bit floats.
fn probe(
    device: &Device,
    vulkan: &Arc<VulkanDevice>,
) -> Result<(Modes, ProbeReport, IntegerPaths, HalfMatrices), CoreError> {
    let mut report = ProbeReport::default();
    let inputs = Inputs::new();
    let mut buffers = Vec::with_capacity(3);
    for column in &inputs.0 {
        buffers.push(device.buffer_of::<u32>(column)?);
    }
    let mut bare = Vec::with_capacity(BARE.len());
    for (op, _, _) in BARE {
        bare.push(run_operation(device, &buffers, op)?);
    }
    let difference = |op: usize, edges: bool| inputs.first_difference(BARE[op].2, &bare[op], edges);
    let flush_difference = (0..BARE.len()).find_map(|op| {
        difference(op, true).map(|found| format!("emulated: the bare {} {found}", BARE[op].1))
    });
    // A device that fuses and preserves subnormals needs the flush alone emulated.
    let fma_difference =
        difference(0, false).map(|found| format!("emulated: the bare {} {found}", BARE[0].1));
    let modes = Modes {
        native_fma: u32::from(fma_difference.is_none()),
        native_flush: u32::from(flush_difference.is_none() && fma_difference.is_none()),
    };
    let rule = inputs.flush_rule(&bare[1]).name();
    let flush = match (flush_difference, modes.native_flush) {
        (None, 1) => format!("{rule}: native"),
        (None, _) => format!("{rule}: emulated"),
        (Some(difference), _) => format!("{rule}: {difference}"),
    };
    let or_native = |finding: Option<String>| finding.unwrap_or_else(|| "native".to_owned());
    report.add("fused multiply-add", or_native(fma_difference), true);
    report.add("flush of subnormals", flush, true);
    let _ = vulkan.modes.set(modes);
    for (op, name, twin) in FUNCTIONS {
        let outputs = run_operation(device, &buffers, op)?;
        match inputs.first_difference(twin, &outputs, true) {
            None => report.add(name, "equal", true),
            Some(difference) => report.add(name, difference, false),
        }
    }
    reduction::probe(device, &mut report)?;
    let listed = vulkan.dot_products();
    let integers = IntegerPaths {
        dots: dots::probe(device, listed, &mut report)?,
        dots_in_hardware: listed.is_some_and(|dots| dots.in_hardware),
        matrices: matrices::probe(device, &vulkan.matrix_shapes(), &mut report)?,
    };
    let mut of = |half| halves::probe(device, half, &vulkan.half_matrix_shapes(half), &mut report);
    let halves = HalfMatrices {
        bf16: of(Half::Bf16)?,
        f16: of(Half::F16)?,
    };
    Ok((modes, report, integers, halves))
}

fn run_operation(device: &Device, inputs: &[Buffer], op: u32) -> Result<Vec<u32>, CoreError> {
    let count = inputs[0].len();
    let out = device.alloc(count)?;
    let push = [count as u32, op];
    let launch = Launch {
        name: "probe",
        shader: &ARITHMETIC,
        specialization: &[],
        bindings: &[
            Binding::Read(&inputs[0]),
            Binding::Read(&inputs[1]),
            Binding::Read(&inputs[2]),
            Binding::Write(&out),
        ],
        push: bytemuck::cast_slice(&push),
        groups: groups_1d(count.div_ceil(64)),
    };
    device.launch(launch, |_| {})?;
    device.download_words(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_passes() {
        let device = crate::testing::cpu().expect("cpu");
        assert!(
            device.probe().passed() && device.probe().checks.len() == 4,
            "{:?}",
            device.probe()
        );
    }

    #[test]
    fn a_wrong_result_is_found() {
        let inputs = Inputs::new();
        let mut outputs: Vec<u32> = crate::cpu::with_flush(|| {
            (0..inputs.len())
                .map(|index| {
                    let [x, y, z] = inputs.triple(index);
                    arith::fma(x, y, z).to_bits()
                })
                .collect()
        });
        let twin = FUNCTIONS[0].2;
        assert_eq!(inputs.first_difference(twin, &outputs, true), None);
        let last = outputs.len() - 1;
        outputs[last] ^= 1;
        let found = inputs
            .first_difference(twin, &outputs, true)
            .expect("a difference");
        assert!(found.contains("expected"), "{found}");
    }

    #[test]
    fn a_device_that_fails_is_refused_with_its_first_failure() {
        let mut report = ProbeReport::default();
        report.add("fused multiply-add", "native", true);
        assert!(report.check("a GPU").is_ok());
        report.add(
            "div",
            "0x3f800001 of 0x3f800000, expected 0x3f800000",
            false,
        );
        report.add("exp", "no number", false);
        assert!(!report.passed());
        let error = report.check("a GPU").expect_err("two checks failed");
        assert_eq!(
            error.to_string(),
            "device `a GPU` is refused for the portable arithmetic: \
             div: 0x3f800001 of 0x3f800000, expected 0x3f800000"
        );
    }
}
