//! The harness through which every kernel is tested: one body, every device, equal bits.
//!
//! Public so that kernels of your own can be tested the same way.

use hlx_core::digest::canonical_bits;
use hlx_core::{Buffer, CoreError, DType, Device, Element};

use crate::KernelError;

pub use hlx_core::testing::{devices, own_devices, vulkan_devices};

/// Words of fence on either side of every buffer.
const FENCE_WORDS: usize = 64;
/// What surrounds a buffer on the reference device: an ordinary number.
const FENCE: u32 = 0x5eed_f00d;
/// What surrounds it on the others: NaN of every float type, an infinity of f32, of bf16 and of f16, and the
/// largest number. A kernel that reads past its buffer, or what it has not written, gives other bits there.
const AWKWARD_FENCES: [u32; 5] = [
    0x7fff_7fff,
    0x7f80_0000,
    0xff80_ff80,
    0x7c00_7c00,
    0x7f7f_ffff,
];
/// Words of freed memory that hold the fence's word before a body runs: what it allocates for itself begins so.
const STALE_WORDS: usize = 1 << 16;
/// What an output holds before the kernel runs: a NaN that no kernel computes.
const UNWRITTEN: u32 = 0x7fee_dbad;

/// The fenced buffers of one run on one device.
pub struct TestMemory {
    fence: u32,
    fenced: Vec<(Buffer, usize)>,
}

impl Default for TestMemory {
    fn default() -> Self {
        Self::fenced_by(FENCE)
    }
}

impl TestMemory {
    /// Surrounds every buffer with this word, which must not depend on what is computed.
    pub fn fenced_by(fence: u32) -> Self {
        Self {
            fence,
            fenced: Vec::new(),
        }
    }

    /// Fills freed memory of the device with the fence's word, so that buffers allocated next hold it.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn spoil_freed_memory(&self, device: &Device) -> Result<(), CoreError> {
        device.fill(&device.alloc(STALE_WORDS)?, self.fence)
    }

    /// Returns a fenced buffer with these values (subnormals flushed).
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn input(&mut self, device: &Device, data: &[f32]) -> Result<Buffer, CoreError> {
        self.input_of(device, data)
    }

    /// Returns a fenced buffer with these elements (subnormals of f32 and bf16 flushed).
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn input_of<T: Element>(
        &mut self,
        device: &Device,
        data: &[T],
    ) -> Result<Buffer, CoreError> {
        let buffer = self.fenced(device, T::DTYPE, data.len())?;
        device.upload(&buffer, data)?;
        let spare = buffer.words() * 4 - std::mem::size_of_val(data);
        if spare > 0 {
            // The rest of the last word belongs to the neighbour, as in a window of a larger buffer.
            let mut words = device.download_words(&buffer)?;
            if let Some(last) = words.last_mut() {
                *last |= self.fence & (u32::MAX << (32 - 8 * spare));
            }
            device.upload_words(&buffer, &words)?;
        }
        Ok(buffer)
    }

    /// Returns a fenced buffer with these words.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn input_u32(&mut self, device: &Device, data: &[u32]) -> Result<Buffer, CoreError> {
        let buffer = self.fenced(device, DType::F32, data.len())?;
        device.upload_words(&buffer, data)?;
        Ok(buffer)
    }

    /// Returns a fenced buffer filled with a NaN.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn output(&mut self, device: &Device, len: usize) -> Result<Buffer, CoreError> {
        self.output_of(device, DType::F32, len)
    }

    /// Returns a fenced buffer of a type, filled with words that no kernel computes.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    pub fn output_of(
        &mut self,
        device: &Device,
        dtype: DType,
        len: usize,
    ) -> Result<Buffer, CoreError> {
        let buffer = self.fenced(device, dtype, len)?;
        device.fill(&buffer, UNWRITTEN)?;
        Ok(buffer)
    }

    fn fenced(&mut self, device: &Device, dtype: DType, len: usize) -> Result<Buffer, CoreError> {
        let words = dtype.words(len);
        let whole = device.alloc(words + 2 * FENCE_WORDS)?;
        device.fill(&whole, self.fence)?;
        let window = whole.slice(FENCE_WORDS, words)?.view_as(dtype, len)?;
        self.fenced.push((whole, words));
        Ok(window)
    }

    /// Checks that no kernel wrote outside its buffers.
    ///
    /// # Errors
    /// As [`Device::download_words`].
    ///
    /// # Panics
    /// If one did.
    pub fn check_fences(&self, name: &str, device: &Device) -> Result<(), CoreError> {
        for (index, (whole, len)) in self.fenced.iter().enumerate() {
            let words = device.download_words(whole)?;
            let (before, rest) = words.split_at(FENCE_WORDS);
            let outside = before.iter().chain(&rest[*len..]);
            let broken = outside.enumerate().find(|&(_, &word)| word != self.fence);
            if let Some((at, word)) = broken {
                panic!(
                    "{name} on {}: buffer {index}: fence word {at} is {word:#x}",
                    device.info()
                );
            }
        }
        Ok(())
    }
}

/// The devices under test that compute in `fast` with a type.
#[cfg(test)]
pub(crate) fn devices_in_fast(half: hlx_core::Half) -> Vec<Device> {
    let fast = hlx_core::Arithmetic::Fast(half);
    let devices = devices().iter();
    devices
        .filter_map(|device| device.in_arithmetic(fast).ok())
        .collect()
}

/// Runs `body` on every device under test and returns the CPU's outputs.
///
/// `body` makes its buffers through [`TestMemory`], launches, and returns the outputs.
///
/// # Panics
/// If a launch fails, an output word stays unwritten, a fence is broken, or any word differs in
/// its bits between two devices (all NaNs of an f32 buffer count as one).
pub fn run_everywhere<F>(name: &str, body: F) -> Vec<Vec<f32>>
where
    F: Fn(&Device, &mut TestMemory) -> Result<Vec<Buffer>, KernelError>,
{
    run_on_each(name, devices(), body)
}

/// As [`run_everywhere`], on these devices, of which the first is the reference.
///
/// # Panics
/// As [`run_everywhere`].
pub fn run_on_each<F>(name: &str, devices: &[Device], body: F) -> Vec<Vec<f32>>
where
    F: Fn(&Device, &mut TestMemory) -> Result<Vec<Buffer>, KernelError>,
{
    let mut reference: Option<Vec<Output>> = None;
    let fences = AWKWARD_FENCES.into_iter().cycle().skip(name.len() % 5);
    for (device, fence) in devices.iter().zip([FENCE].into_iter().chain(fences)) {
        let outputs = outputs_on(name, device, fence, &body);
        match &reference {
            None => reference = Some(outputs),
            Some(expected) => assert_same_bits(name, device, expected, &outputs),
        }
    }
    values_of(reference.unwrap_or_default())
}

/// Runs `body` on one device and returns its outputs.
///
/// # Panics
/// As [`run_everywhere`].
pub fn run_on<F>(name: &str, device: &Device, body: F) -> Vec<Vec<f32>>
where
    F: Fn(&Device, &mut TestMemory) -> Result<Vec<Buffer>, KernelError>,
{
    values_of(outputs_on(name, device, FENCE, body))
}

/// Returns the elements of an output of [`run_everywhere`] that is of another type than f32.
pub fn elements_of<T: Element>(output: &[f32], len: usize) -> Vec<T> {
    bytemuck::cast_slice(output)[..len].to_vec()
}

/// An output's type and words.
type Output = (DType, Vec<u32>);

fn values_of(outputs: Vec<Output>) -> Vec<Vec<f32>> {
    let values = |words: Vec<u32>| words.into_iter().map(f32::from_bits).collect();
    outputs
        .into_iter()
        .map(|(_, words)| values(words))
        .collect()
}

fn outputs_on<F>(name: &str, device: &Device, fence: u32, body: F) -> Vec<Output>
where
    F: Fn(&Device, &mut TestMemory) -> Result<Vec<Buffer>, KernelError>,
{
    let mut memory = TestMemory::fenced_by(fence);
    let spoiled = memory.spoil_freed_memory(device).map_err(KernelError::from);
    let result = spoiled.and_then(|()| body(device, &mut memory));
    let result = result.and_then(|buffers| {
        memory.check_fences(name, device)?;
        let output = |buffer: &Buffer| Ok((buffer.dtype(), device.download_words(buffer)?));
        let outputs: Result<Vec<Output>, CoreError> = buffers.iter().map(output).collect();
        Ok(outputs?)
    });
    let outputs = result.unwrap_or_else(|error| panic!("{name} on {}: {error}", device.info()));
    for (index, (_, words)) in outputs.iter().enumerate() {
        if let Some(at) = words.iter().position(|&word| word == UNWRITTEN) {
            panic!(
                "{name} on {}: output {index}: element {at} was not written",
                device.info()
            );
        }
    }
    assert_eq!(
        hlx_core::validation_messages(),
        0,
        "{name}: the validation layer complained"
    );
    outputs
}

fn assert_same_bits(name: &str, device: &Device, expected: &[Output], found: &[Output]) {
    assert_eq!(expected.len(), found.len(), "{name}: number of outputs");
    for (index, ((dtype, expected), (_, found))) in expected.iter().zip(found).enumerate() {
        assert_eq!(
            expected.len(),
            found.len(),
            "{name}: length of output {index}"
        );
        let bits = |word: u32| match dtype {
            DType::F32 => canonical_bits(f32::from_bits(word)),
            _ => word,
        };
        for (at, (&e, &f)) in expected.iter().zip(found).enumerate() {
            let (e_bits, f_bits) = (bits(e), bits(f));
            assert!(
                e_bits == f_bits,
                "{name} on {}: output {index}, word {at}: {f_bits:#010x} ({:e}), \
                 the CPU has {e_bits:#010x} ({:e})",
                device.info(),
                f32::from_bits(f),
                f32::from_bits(e),
            );
        }
    }
}

/// A small generator for test data (SplitMix64); no part of HLX's own random numbers.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A value in [-1, 1).
    fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Returns `len` ordinary values in about [-3, 3], bell-shaped.
pub fn normal(seed: u64, len: usize) -> Vec<f32> {
    let mut random = SplitMix(seed);
    (0..len)
        .map(|_| (0..3).map(|_| random.signed()).sum())
        .collect()
}

/// Returns `len` values with zeros, negative zeros, large, tiny and ordinary ones among them; no
/// infinity, no NaN, and no product or sum of a few thousand of them overflows.
pub fn values(seed: u64, len: usize) -> Vec<f32> {
    let mut random = SplitMix(seed ^ 0xabcd);
    (0..len)
        .map(|_| {
            let ordinary = random.signed();
            match random.next() % 16 {
                0 => 0.0,
                1 => -0.0,
                2 => ordinary * 1e12,
                3 => ordinary * 1e-20,
                4 => ordinary * f32::MIN_POSITIVE * 4.0,
                _ => ordinary * 3.0,
            }
        })
        .collect()
}

/// Returns `len` pairs of numbers whose product, exact, lies at or next to 2^-126 on either side of
/// what rounds to it; a device that flushes before rounding returns zero for some.
pub fn pairs_next_to_the_smallest(seed: u64, len: usize) -> (Vec<f32>, Vec<f32>) {
    let mut random = SplitMix(seed ^ 0x126);
    (0..len)
        .map(|_| {
            let word = random.next();
            let a = (word & 0x007f_ffff) | 0x0080_0001;
            let b = (1_u64 << 47) / a + (word >> 62);
            let shift = (word >> 32 & 31) as u32;
            let float = |significand: u64, exponent: u32, sign: u64| {
                let bits = exponent << 23 | (significand as u32 & 0x007f_ffff);
                f32::from_bits(bits | ((sign & 1) as u32) << 31)
            };
            (
                float(a, 64 + shift, word >> 40),
                float(b, 63 - shift, word >> 41),
            )
        })
        .unzip()
}

/// Returns `len` ids below `bound`.
pub fn ids(seed: u64, len: usize, bound: u32) -> Vec<u32> {
    let mut random = SplitMix(seed ^ 0x1d5);
    (0..len)
        .map(|_| (random.next() % u64::from(bound)) as u32)
        .collect()
}

/// Asserts that every value is within `abs + rel * |want|` of an f64 reference.
///
/// # Panics
/// With the first value that is not, or if the lengths differ.
pub fn assert_close(name: &str, got: &[f32], want: &[f64], rel: f64, abs: f64) {
    assert_eq!(got.len(), want.len(), "{name}: length");
    for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        assert!(
            error <= abs + rel * want.abs(),
            "{name}: element {at} is {got:e}, the reference has {want:e} (error {error:e})"
        );
    }
}
