//! The start-up probe: does this device compute as HLX's arithmetic says?
//!
//! It runs in three parts: the bare instructions, to see whether the device fuses and flushes by
//! itself; every function of [`crate::arith`], whose GLSL must give the bits of its Rust twin;
//! and a row reduction. A device that fails is refused. The answer is kept on disk by device,
//! driver and shader, so that it costs its tenth of a second once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::device::DeviceKind;
use crate::digest::{canonical_bits, sha256_hex};
use crate::error::CoreError;
use crate::launch::{Binding, Launch, groups_1d};
use crate::peak::{self, Peak};
use crate::probe_report::ProbeReport;
use crate::shader::Shader;
use crate::vulkan::{Modes, VulkanDevice, cache_dir, write_atomically};
use crate::{Buffer, arith, multiversion};

static ARITHMETIC_SPV: &[u8] = include_bytes!("../spv/probe/arithmetic.spv");
// SAFETY: a module of `cargo xtask shaders`; its accesses are bounded by the count pushed to it.
static ARITHMETIC: Shader = unsafe { Shader::new("probe/arithmetic", ARITHMETIC_SPV) };

static ROW_SUM_SPV: &[u8] = include_bytes!("../spv/probe/row_sum.spv");
// SAFETY: as above, by the rows and columns pushed to it.
static ROW_SUM: Shader = unsafe { Shader::new("probe/row_sum", ROW_SUM_SPV) };

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

/// Inputs of the probe: every triple of awkward values, then random bits.
struct Inputs([Vec<u32>; 3]);

/// Bits where arithmetic goes wrong first: zeros, subnormals, the smallest normals and their
/// neighbours, ones, powers whose products are tiny, the largest, infinity and NaN.
const AWKWARD: [u32; 14] = [
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0001,
    0x00ff_ffff,
    0x1f80_0000,
    0x9fff_ffff,
    0x3f80_0000,
    0xbf80_0001,
    0x7f7f_ffff,
    0xff80_0000,
    0x7fc0_0000,
];

impl Inputs {
    fn new() -> Self {
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        for a in AWKWARD {
            for b in AWKWARD {
                for c in AWKWARD {
                    for (column, bits) in columns.iter_mut().zip([a, b, c]) {
                        column.push(bits);
                    }
                }
            }
        }
        // Products that round to 2^-126 from just below it.
        for word in (0..1 << 23).step_by(0x5678) {
            let a = 1_u64 << 23 | word | 1;
            let b = (1 << 47) / a;
            if (1 << 47) % a < 1 << 22 {
                let bits = |significand: u64, exponent: u32| {
                    exponent << 23 | (significand as u32 & 0x007f_ffff)
                };
                let row = [bits(a, 64), bits(b, 63), (word as u32 & 2) << 30];
                for (column, bits) in columns.iter_mut().zip(row) {
                    column.push(bits);
                }
            }
        }
        let mut counter = 0;
        while columns[0].len() < 4096 {
            let words = arith::philox4x32([counter, 0, 0, 0], [0x0048_4c58, 0]);
            // Half of any size, half near one, where the functions are used.
            let tame = |word: u32| (word & 0x807f_ffff) | (0x3c00_0000 + ((word & 15) << 23));
            let near_one = counter % 2 == 0;
            for (column, word) in columns.iter_mut().zip(words) {
                column.push(if near_one { tame(word) } else { word });
            }
            counter += 1;
        }
        Self(columns)
    }

    fn len(&self) -> usize {
        self.0[0].len()
    }

    fn triple(&self, index: usize) -> [f32; 3] {
        std::array::from_fn(|column| f32::from_bits(self.0[column][index]))
    }

    /// Returns where outputs first differ from the twin, with inputs and both bits. Without
    /// `edges`, inputs and results near the subnormal range do not count.
    fn first_difference(&self, twin: Twin, outputs: &[u32], edges: bool) -> Option<String> {
        let ordinary = |bits: u32| (64 << 23..=0x7f80_0000).contains(&(bits & 0x7fff_ffff));
        crate::cpu::with_flush(|| {
            (0..self.len()).find_map(|index| {
                let [x, y, z] = self.triple(index);
                let expected = canonical_bits(twin(x, y, z));
                let found = canonical_bits(f32::from_bits(outputs[index]));
                let inputs = self.0.each_ref().map(|column| column[index]);
                let counts = edges || (ordinary(expected) && inputs.into_iter().all(ordinary));
                (counts && expected != found).then(|| {
                    let inputs = inputs.map(|bits| format!("{bits:#010x}")).join(", ");
                    format!("of ({inputs}) is {found:#010x}, expected {expected:#010x}")
                })
            })
        })
    }
}

/// When a device turns a tiny result into zero.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FlushRule {
    /// As HLX: what rounds to less than 2^-126. x86 and NVIDIA's GPUs.
    AfterRounding,
    /// What is below 2^-126 before it is rounded. AArch64.
    BeforeRounding,
    /// Never: subnormal results appear.
    Keeps,
}

impl FlushRule {
    fn name(self) -> &'static str {
        match self {
            Self::AfterRounding => "after rounding",
            Self::BeforeRounding => "before rounding",
            Self::Keeps => "subnormals are kept",
        }
    }
}

impl Inputs {
    /// Finds a device's rule from its products of the first two columns.
    fn flush_rule(&self, products: &[u32]) -> FlushRule {
        let tiny = |index: usize| {
            let [x, y, _] = self.triple(index).map(arith::flush);
            let product = f64::from(x) * f64::from(y);
            let is_tiny = product != 0.0 && product.abs() < f64::from(f32::MIN_POSITIVE);
            let is_zero = products[index] & 0x7fff_ffff == 0;
            is_tiny.then(|| (is_zero, arith::wide::mul(x, y) == 0.0))
        };
        let found: Vec<(bool, bool)> = (0..self.len()).filter_map(tiny).collect();
        if found.contains(&(false, true)) {
            FlushRule::Keeps
        } else if found.contains(&(true, false)) {
            FlushRule::BeforeRounding
        } else {
            FlushRule::AfterRounding
        }
    }
}

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

multiversion! {
    /// `[x y + z, x y]` of each triple, as kernels compute them.
    fn fma_and_mul<A>(triples: &[[f32; 3]], out: &mut [[f32; 2]]) {
        for (out, &[x, y, z]) in out.iter_mut().zip(triples) {
            *out = [A::fma(x, y, z), A::mul(x, y)];
        }
    }
}

/// Probes the CPU device; runs in one of its workers. The kernels use the processor's own
/// arithmetic, so what there is to show is that it fuses and flushes.
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

/// What is kept on disk.
#[derive(Serialize, Deserialize)]
struct Kept {
    native_fma: u32,
    native_flush: u32,
    report: ProbeReport,
    /// Of hardware alone: software drivers have no time-out.
    peak: Option<Peak>,
}

/// What the probe of a Vulkan device gives.
#[derive(Clone)]
pub(crate) struct Probed {
    pub report: ProbeReport,
    pub peak: Option<Peak>,
}

/// Where a device's answer is kept: named by device, driver, and the probe's own shaders.
fn kept_path(device: &VulkanDevice) -> Option<PathBuf> {
    let mut modules = ARITHMETIC.bytes().to_vec();
    modules.extend_from_slice(ROW_SUM.bytes());
    modules.extend_from_slice(device.info.driver.as_bytes());
    let digest = sha256_hex(&modules);
    Some(cache_dir()?.join(format!(
        "probe-{}-{}.json",
        device.info.cache_key,
        &digest[..16]
    )))
}

/// Probes a Vulkan device, or reads what an earlier probe of it found, and sets its modes.
pub(crate) fn run_vulkan(
    context: &Context,
    device: &Arc<VulkanDevice>,
) -> Result<Probed, CoreError> {
    // By selector. One probe at a time; the others of this process then find its answer.
    static FOUND: Mutex<BTreeMap<String, Probed>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(probed) = found.get(&device.info.selector) {
        return Ok(probed.clone());
    }
    let probed = match read_kept(device) {
        Some(kept) => {
            let modes = Modes {
                native_fma: kept.native_fma,
                native_flush: kept.native_flush,
            };
            let _ = device.modes.set(modes);
            Probed {
                report: kept.report,
                peak: kept.peak,
            }
        }
        None => {
            let (modes, report) = probe(context, device)?;
            let hardware = device.info.kind == DeviceKind::VulkanGpu;
            let peak = match report.passed() && hardware {
                true => Some(peak::measure(context)?),
                false => None,
            };
            let probed = Probed { report, peak };
            if probed.report.passed() {
                keep(device, modes, &probed);
            }
            probed
        }
    };
    found.insert(device.info.selector.clone(), probed.clone());
    Ok(probed)
}

fn read_kept(device: &VulkanDevice) -> Option<Kept> {
    let bytes = std::fs::read(kept_path(device)?).ok()?;
    let kept: Kept = serde_json::from_slice(&bytes).ok()?;
    let hardware = device.info.kind == DeviceKind::VulkanGpu;
    let whole = !kept.report.checks.is_empty() && kept.peak.is_some() == hardware;
    (kept.report.passed() && whole).then_some(kept)
}

/// Writes what the probe found; if that fails, the next start probes again, so it is only logged.
fn keep(device: &VulkanDevice, modes: Modes, probed: &Probed) {
    let Some(path) = kept_path(device) else {
        return;
    };
    let kept = Kept {
        native_fma: modes.native_fma,
        native_flush: modes.native_flush,
        report: probed.report.clone(),
        peak: probed.peak,
    };
    let written = serde_json::to_vec_pretty(&kept)
        .map_err(std::io::Error::other)
        .and_then(|bytes| write_atomically(&path, &bytes));
    if let Err(error) = written {
        tracing::warn!("probe cache {}: {error}", path.display());
    }
}

fn probe(context: &Context, device: &Arc<VulkanDevice>) -> Result<(Modes, ProbeReport), CoreError> {
    let mut report = ProbeReport::default();
    let inputs = Inputs::new();
    let mut buffers = Vec::with_capacity(3);
    for column in &inputs.0 {
        buffers.push(context.buffer_u32(column)?);
    }
    let mut bare = Vec::with_capacity(BARE.len());
    for (op, _, _) in BARE {
        bare.push(run_operation(context, &buffers, op)?);
    }
    let difference = |op: usize, edges: bool| inputs.first_difference(BARE[op].2, &bare[op], edges);
    let flush_difference = (0..BARE.len()).find_map(|op| {
        difference(op, true).map(|found| format!("emulated: the bare {} {found}", BARE[op].1))
    });
    // A device that fuses and keeps subnormals needs the flush alone emulated.
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
    let _ = device.modes.set(modes);
    for (op, name, twin) in FUNCTIONS {
        let outputs = run_operation(context, &buffers, op)?;
        match inputs.first_difference(twin, &outputs, true) {
            None => report.add(name, "equal", true),
            Some(difference) => report.add(name, difference, false),
        }
    }
    probe_reduction(context, &mut report)?;
    Ok((modes, report))
}

fn run_operation(context: &Context, inputs: &[Buffer], op: u32) -> Result<Vec<u32>, CoreError> {
    let count = inputs[0].len();
    let out = context.alloc(count)?;
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
    context.launch(launch, |_| {})?;
    context.download_u32(&out)
}

fn probe_reduction(context: &Context, report: &mut ProbeReport) -> Result<(), CoreError> {
    let (values, [rows, cols]) = reduction_rows();
    let x = context.buffer_f32(&values)?;
    let out = context.alloc(rows)?;
    let push = [rows as u32, cols as u32];
    let launch = Launch {
        name: "probe",
        shader: &ROW_SUM,
        specialization: &[],
        bindings: &[Binding::Read(&x), Binding::Write(&out)],
        push: bytemuck::cast_slice(&push),
        groups: groups_1d(rows.div_ceil(8)),
    };
    context.launch(launch, |_| {})?;
    let found = context.download_u32(&out)?;
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
    fn the_cpu_passes() {
        let ctx = crate::testing::cpu().expect("cpu");
        assert!(
            ctx.probe().passed() && ctx.probe().checks.len() == 4,
            "{:?}",
            ctx.probe()
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
            "device `a GPU` is refused for the portable profile: \
             div: 0x3f800001 of 0x3f800000, expected 0x3f800000"
        );
    }

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
