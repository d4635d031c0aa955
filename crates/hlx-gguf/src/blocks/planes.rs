//! Small unsigned numbers in bytes: several planes of a few bits each, in the orders that the blocks have them.
//!
//! A run of `SPAN` bytes holds `SPAN * 8 / BITS` numbers: its lowest bits the first `SPAN` of them, the next bits the
//! next `SPAN`, and so on.

/// Adds the numbers of `bytes`, shifted to the left, to `numbers`.
pub(super) fn unpack<const BITS: u32, const SPAN: usize>(
    bytes: &[u8],
    shift: u32,
    numbers: &mut [u8],
) {
    let mask = (1_u8 << BITS) - 1;
    let runs = bytes.chunks_exact(SPAN);
    for (run, numbers) in runs.zip(numbers.chunks_mut(SPAN * 8 / BITS as usize)) {
        for (plane, numbers) in (0..).zip(numbers.chunks_exact_mut(SPAN)) {
            for (number, byte) in numbers.iter_mut().zip(run) {
                *number |= (byte >> (plane * BITS) & mask) << shift;
            }
        }
    }
}

/// The reverse of [`unpack`]: sets the bytes to bits of the numbers from `shift` on.
pub(super) fn pack<const BITS: u32, const SPAN: usize>(
    numbers: &[u8],
    shift: u32,
    bytes: &mut [u8],
) {
    let mask = (1_u8 << BITS) - 1;
    bytes.fill(0);
    let runs = bytes.chunks_exact_mut(SPAN);
    for (run, numbers) in runs.zip(numbers.chunks(SPAN * 8 / BITS as usize)) {
        for (plane, numbers) in (0..).zip(numbers.chunks_exact(SPAN)) {
            for (number, byte) in numbers.iter().zip(run.iter_mut()) {
                *byte |= (number >> shift & mask) << (plane * BITS);
            }
        }
    }
}

/// The 8 scales and 8 minima of 6 bits in 12 bytes of Q4_K and Q5_K.
pub(super) fn unpack_scales(bytes: &[u8; 12]) -> [[u8; 8]; 2] {
    let [mut scales, mut mins] = [[0; 8]; 2];
    for at in 0..4 {
        let [scale, min, both] = [bytes[at], bytes[at + 4], bytes[at + 8]];
        (scales[at], mins[at]) = (scale & 63, min & 63);
        // The upper ones have their lowest 4 bits together, the others above the lower ones.
        scales[at + 4] = both & 15 | scale >> 6 << 4;
        mins[at + 4] = both >> 4 | min >> 6 << 4;
    }
    [scales, mins]
}

/// The reverse of [`unpack_scales`].
pub(super) fn pack_scales([scales, mins]: [[u8; 8]; 2]) -> [u8; 12] {
    let mut bytes = [0; 12];
    for at in 0..4 {
        bytes[at] = scales[at] & 63 | scales[at + 4] >> 4 << 6;
        bytes[at + 4] = mins[at] & 63 | mins[at + 4] >> 4 << 6;
        bytes[at + 8] = scales[at + 4] & 15 | mins[at + 4] << 4;
    }
    bytes
}
