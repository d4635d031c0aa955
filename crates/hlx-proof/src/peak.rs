//! What a device can do at best: the arithmetic and the memory that kernels are measured against.
//!
//! [`multiply_add`] does almost nothing but fma: for each element `v_j = x[i] + j` for `j` from 0
//! to 7, then `steps` times `v_j = fma(v_j, factor, term)`, and `y[i] = ((v_0 + v_1) + (v_2 +
//! v_3)) + ((v_4 + v_5) + (v_6 + v_7))`. [`measure`] times it, and copies of a large buffer.

use std::time::{Duration, Instant};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use hlx_core::cpu::{SimdLevel, simd_level};
use hlx_core::{
    ALIGNMENT_WORDS, Binding, Buffer, Device, DeviceKind, Launch, MULTIPLY_ADD, Work, groups_1d,
};
use rayon::prelude::*;

use hlx_kernels::elementwise::scale;
#[cfg(target_arch = "aarch64")]
use hlx_kernels::product::simd::Neon;
#[cfg(target_arch = "x86_64")]
use hlx_kernels::product::simd::{Avx2, Avx512};
use hlx_kernels::product::simd::{Portable, Simd};
use hlx_kernels::{KernelError, check_len, check_that};

/// Chains of an element.
const CHAINS: usize = 8;
/// Steps that the shader unrolls.
const STEPS_AT_ONCE: usize = 16;
/// Elements of one task of the CPU.
const TASK: usize = 1024;
/// Lanes of the widest vector.
const MAX_LANES: usize = 16;

/// The most that was measured on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Operations per second of [`multiply_add`], two per multiply-add.
    pub flops: f64,
    /// Bytes per second of a copy, those read and those written.
    pub bytes: f64,
}

/// Computes `y` from `x` of the same length: see the module. `steps` is a multiple of 16.
///
/// # Errors
/// [`KernelError::Length`], [`KernelError::Argument`] for other steps, and what the device
/// reports.
pub fn multiply_add(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    steps: usize,
    [factor, term]: [f32; 2],
) -> Result<(), KernelError> {
    const NAME: &str = "multiply_add";
    const THREADS: usize = 256;
    check_len(NAME, "y", y, x.len())?;
    check_that(NAME, steps.is_multiple_of(STEPS_AT_ONCE), || {
        format!("{steps} steps, expected a multiple of {STEPS_AT_ONCE}")
    })?;
    let push = [
        x.len() as u32,
        steps as u32,
        factor.to_bits(),
        term.to_bits(),
    ];
    let launch = Launch {
        name: NAME,
        shader: &MULTIPLY_ADD,
        specialization: &[],
        bindings: &[Binding::Read(x), Binding::Write(y)],
        push: bytemuck::cast_slice(&push),
        groups: groups_1d(x.len().div_ceil(THREADS)),
    };
    let work = Work {
        flops: (2 * CHAINS * steps * x.len()) as u64,
        ..launch.work()
    };
    device.launch_counted(launch, work, move |bindings| {
        let ([x], [y]) = bindings.split::<1, 1>();
        y.par_chunks_mut(TASK)
            .zip(x.par_chunks(TASK))
            .for_each(|(y, x)| chains(x, y, steps, factor, term));
    })?;
    Ok(())
}

/// Carries out a task with the vectors of this processor.
fn chains(x: &[f32], y: &mut [f32], steps: usize, factor: f32, term: f32) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn avx512(x: &[f32], y: &mut [f32], steps: usize, factor: f32, term: f32) {
            // SAFETY: this function is compiled for AVX-512F.
            unsafe { chains_in::<Avx512>(x, y, steps, factor, term) }
        }
        #[target_feature(enable = "avx2,fma")]
        fn avx2(x: &[f32], y: &mut [f32], steps: usize, factor: f32, term: f32) {
            // SAFETY: this function is compiled for AVX2 and FMA.
            unsafe { chains_in::<Avx2>(x, y, steps, factor, term) }
        }
        match simd_level() {
            // SAFETY: `simd_level` only names levels that this processor has.
            SimdLevel::Avx512 => return unsafe { avx512(x, y, steps, factor, term) },
            // SAFETY: as above.
            SimdLevel::Avx2 => return unsafe { avx2(x, y, steps, factor, term) },
            _ => {}
        }
    }
    #[cfg(target_arch = "aarch64")]
    if simd_level() == SimdLevel::Neon {
        // SAFETY: every AArch64 processor that Rust's targets name has NEON.
        return unsafe { chains_in::<Neon>(x, y, steps, factor, term) };
    }
    // SAFETY: plain Rust needs no instruction set.
    unsafe { chains_in::<Portable>(x, y, steps, factor, term) }
}

/// The chains of some elements, a register for each chain of `LANES` of them.
///
/// # Safety
/// The processor has the instruction set of `S`.
#[inline(always)]
unsafe fn chains_in<S: Simd>(x: &[f32], y: &mut [f32], steps: usize, factor: f32, term: f32) {
    for (y, x) in y.chunks_mut(S::LANES).zip(x.chunks(S::LANES)) {
        let mut lanes = [[0.0_f32; MAX_LANES]; CHAINS];
        for (j, chain) in lanes.iter_mut().enumerate() {
            for (lane, x) in chain.iter_mut().zip(x) {
                *lane = x + j as f32;
            }
        }
        // SAFETY: a row of `lanes` has at least `LANES` floats; the caller guarantees the rest.
        unsafe {
            let (factor, term) = (S::splat(factor), S::splat(term));
            let mut v: [S::V; CHAINS] = std::array::from_fn(|j| S::load(lanes[j].as_ptr()));
            for _ in 0..steps {
                for chain in &mut v {
                    *chain = S::fma(*chain, factor, term);
                }
            }
            for (lanes, chain) in lanes.iter_mut().zip(v) {
                S::store(lanes.as_mut_ptr(), chain);
            }
        }
        for (lane, y) in y.iter_mut().enumerate() {
            let sum = |j: usize| lanes[j][lane] + lanes[j + 1][lane];
            *y = (sum(0) + sum(2)) + (sum(4) + sum(6));
        }
    }
}

/// The sizes of a measurement.
struct Sizes {
    elements: usize,
    steps: usize,
    copied_words: usize,
    repeats: usize,
}

impl Sizes {
    /// About a millisecond per launch on a large GPU, ten on a processor; the copy exceeds caches.
    fn of(device: &Device) -> Self {
        let (elements, steps, copied_words, repeats) = match device.info().kind {
            DeviceKind::VulkanGpu => (1 << 20, 4096, 1 << 26, 8),
            DeviceKind::Cpu => (TASK * 16 * device.cpu_threads().max(1), 4096, 1 << 25, 2),
            DeviceKind::VulkanSoftware => (4096, 64, 1 << 20, 2),
        };
        Self {
            elements,
            steps,
            copied_words,
            repeats,
        }
    }
}

/// Measurements of which the fastest counts, and how long they go on at least on a GPU: its
/// clock may have fallen, and takes that long to rise.
const TRIES: usize = 5;
const GPU_TIME: Duration = Duration::from_millis(200);

/// Measures the device's peak in about a second (a software driver takes longer), with all
/// earlier work done. The copy is the faster of the device's own and of a kernel's.
///
/// # Errors
/// What the device reports.
pub fn measure(device: &Device) -> Result<Peak, KernelError> {
    let sizes = Sizes::of(device);
    let x = device.buffer_of(&vec![0.5; sizes.elements])?;
    let y = device.alloc(sizes.elements)?;
    let seconds = fastest(device, sizes.repeats, || {
        multiply_add(device, &x, &y, sizes.steps, [0.999, 0.001])
    })?;
    let flops = (2 * CHAINS * sizes.steps * sizes.elements) as f64 / seconds;
    let words = sizes.copied_words.next_multiple_of(ALIGNMENT_WORDS);
    let (from, to) = (device.alloc(words)?, device.alloc(words)?);
    device.fill(&from, 0x3f80_0000)?;
    device.fill(&to, 0)?;
    let copied = fastest(device, sizes.repeats, || Ok(device.copy(&from, &to)?))?;
    let scaled = fastest(device, sizes.repeats, || scale(device, &from, 1.0, &to))?;
    let bytes = 8.0 * words as f64 / copied.min(scaled);
    Ok(Peak { flops, bytes })
}

/// The seconds of one launch among `repeats` in a row, the fastest of some tries.
fn fastest(
    device: &Device,
    repeats: usize,
    launch: impl Fn() -> Result<(), KernelError>,
) -> Result<f64, KernelError> {
    let (graph, ()) = device.record(|| (0..repeats).try_for_each(|_| launch()))?;
    graph.replay()?;
    device.sync()?;
    let is_gpu = device.info().kind == DeviceKind::VulkanGpu;
    let (begin, mut tries, mut best) = (Instant::now(), 0, f64::INFINITY);
    while tries < TRIES || (is_gpu && begin.elapsed() < GPU_TIME) {
        tries += 1;
        let start = Instant::now();
        graph.replay()?;
        device.sync()?;
        best = best.min(start.elapsed().as_secs_f64() / repeats as f64);
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hlx_kernels::testing::{assert_close, run_everywhere, values};

    #[test]
    fn the_chains_match_the_reference() {
        for n in [1, 31, 257, 1025] {
            let x = values(7, n);
            let got = run_everywhere("multiply_add", |device, mem| {
                let (input, output) = (mem.input(device, &x)?, mem.output(device, n)?);
                multiply_add(device, &input, &output, 32, [0.75, 0.5])?;
                Ok(vec![output])
            });
            let chain = |start: f64| (0..32).fold(start, |v, _| v * 0.75 + 0.5);
            let all = |x: &f32| (0..8).map(|j| chain(f64::from(*x) + f64::from(j))).sum();
            let want: Vec<f64> = x.iter().map(all).collect();
            assert_close("multiply_add", &got[0], &want, 1e-5, 1e-4);
        }
    }

    #[test]
    fn a_peak_is_measured_and_other_steps_are_refused() -> Result<(), KernelError> {
        let device = hlx_core::testing::cpu()?;
        let peak = measure(&device)?;
        assert!(peak.flops > 1e6 && peak.bytes > 1e6, "{peak:?}");
        let x = device.buffer_of(&[1.0])?;
        let refused = multiply_add(&device, &x, &device.alloc(1)?, 17, [1.0, 0.0]);
        let text = refused.expect_err("refused").to_string();
        assert_eq!(text, "multiply_add: 17 steps, expected a multiple of 16");
        Ok(())
    }
}
