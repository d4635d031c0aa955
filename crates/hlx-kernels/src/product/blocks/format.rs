//! The formats of blocks: how many bits an integer has, and what scales it.

/// What the bits of a block's integers stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Levels {
    /// The integer itself.
    Integer,
    /// A sign and one of 0, 1, 2, 3, 4, 6, 8 and 12: E2M1, doubled.
    E2M1,
    /// A place in the table of NF4: the nearest integer of 127 times its number, which products sum, or the number itself, which values
    /// have ([`BlockFormat::factor_of`]).
    Nf4,
}

/// How a block's `d` is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// An f16.
    Half,
    /// The upper half of an f32.
    Brain,
    /// An f32, in blocks of 64 terms without minima.
    Float,
}

/// A format of blocks, by the name that files have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockFormat {
    /// As files name it.
    pub name: &'static str,
    /// Terms of a block, 32, 64 or 256.
    pub block: usize,
    /// Terms of a group, 16 or 32.
    pub group: usize,
    /// The lower bits of an integer, 2, 4 or 8, and the upper ones, 0, 1 or 2, which lie apart.
    pub bits: [usize; 2],
    /// What is added to an integer before it is stored, so that it has no sign. Integers of 8 bits are stored with theirs.
    pub offset: i8,
    /// What the bits stand for.
    pub levels: Levels,
    /// Groups have scales, i8; otherwise all are 1.
    pub has_scales: bool,
    /// Blocks have a `dmin`; the minima of their groups are u8, or 1 in formats without scales.
    pub has_mins: bool,
    /// How `d` is stored.
    pub factor: Factor,
}

const fn of_32(name: &'static str, bits: [usize; 2], offset: i8) -> BlockFormat {
    BlockFormat {
        name,
        block: 32,
        group: 32,
        bits,
        offset,
        levels: Levels::Integer,
        has_scales: false,
        has_mins: false,
        factor: Factor::Half,
    }
}

const fn of_256(name: &'static str, bits: [usize; 2], group: usize, offset: i8) -> BlockFormat {
    BlockFormat {
        block: 256,
        group,
        has_scales: true,
        ..of_32(name, bits, offset)
    }
}

const fn with_mins(format: BlockFormat) -> BlockFormat {
    BlockFormat {
        has_mins: true,
        ..format
    }
}

/// Every format.
pub static BLOCK_FORMATS: [BlockFormat; N_FORMATS] = FORMATS;

pub(super) const N_FORMATS: usize = 12;

pub(super) const FORMATS: [BlockFormat; N_FORMATS] = [
    of_32("Q8_0", [8, 0], 0),
    of_32("Q4_0", [4, 0], 8),
    with_mins(of_32("Q4_1", [4, 0], 0)),
    of_32("Q5_0", [4, 1], 16),
    with_mins(of_32("Q5_1", [4, 1], 0)),
    with_mins(of_256("Q2_K", [2, 0], 16, 0)),
    of_256("Q3_K", [2, 1], 16, 4),
    with_mins(of_256("Q4_K", [4, 0], 32, 0)),
    with_mins(of_256("Q5_K", [4, 1], 32, 0)),
    of_256("Q6_K", [4, 2], 16, 32),
    BlockFormat {
        levels: Levels::E2M1,
        factor: Factor::Brain,
        ..of_32("MXFP4", [4, 0], 12)
    },
    BlockFormat {
        block: 64,
        levels: Levels::Nf4,
        factor: Factor::Float,
        ..of_32("NF4", [4, 0], 127)
    },
];

/// Columns of a product that lie side by side: rows of the weight.
pub(super) const PANEL: usize = 16;

/// Where the words of a chunk begin, each of which [`PANEL`] rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub high: usize,
    pub scales: usize,
    pub mins: usize,
    pub factors: usize,
    /// Words of a row in a chunk.
    pub words: usize,
}

impl BlockFormat {
    /// The format with a name, such as `Q4_K`.
    pub fn named(name: &str) -> Option<&'static Self> {
        BLOCK_FORMATS.iter().find(|format| format.name == name)
    }

    /// Groups of a block.
    pub const fn groups(&self) -> usize {
        self.block / self.group
    }

    /// Terms that lie together: a block of 256 or of 64, or two of 32.
    pub(super) const fn chunk(&self) -> usize {
        if self.block == 256 { 256 } else { 64 }
    }

    /// What is to be taken off an integer as sums read it, without a sign.
    pub(super) const fn stored_offset(&self) -> i32 {
        if self.bits[0] == 8 {
            128
        } else {
            self.offset as i32
        }
    }

    pub(super) const fn places(&self) -> Places {
        let (chunk, [low, high]) = (self.chunk(), self.bits);
        let high_at = chunk * low / 32;
        let scales = high_at + chunk * high / 32;
        let of_groups = if self.has_scales {
            chunk / self.group / 4
        } else {
            0
        };
        let mins = scales + of_groups;
        let factors = mins + if self.has_mins { of_groups } else { 0 };
        // A word has d and dmin of a block, d of two, or a d of 32 bits.
        let blocks = if self.has_mins { chunk / self.block } else { 1 };
        Places {
            high: high_at,
            scales,
            mins,
            factors,
            words: factors + blocks,
        }
    }

    /// Words of a matrix of n rows of k terms: chunks of zeros fill up its rows, and rows of zeros its last panel.
    pub(super) const fn words(&self, [n, k]: [usize; 2]) -> usize {
        let chunks = k.div_ceil(self.chunk());
        let of_panel = chunks.saturating_mul(self.places().words * PANEL);
        n.div_ceil(PANEL).saturating_mul(of_panel)
    }

    /// Where a term's integer lies in a unit of 32 terms: the word among the lower bits and the shift there, and the same among
    /// the upper bits.
    pub(super) fn place_of(&self, term: usize) -> [[usize; 2]; 2] {
        let (word, byte) = (term / 4, 8 * (term % 4));
        let of = |bits: usize| match bits {
            0 => [0, 0],
            1 => [0, word + byte],
            2 => [word / 4, 2 * (word % 4) + byte],
            4 => [word % 4, 4 * (word / 4) + byte],
            _ => [word, byte],
        };
        [of(self.bits[0]), of(self.bits[1])]
    }
}

impl BlockFormat {
    /// The integer that stored bits stand for.
    pub(super) fn integer_of(&self, bits: u32) -> i8 {
        match self.levels {
            Levels::E2M1 => E2M1[(bits & 15) as usize],
            Levels::Nf4 => NF4[(bits & 15) as usize],
            Levels::Integer => (bits as i8).wrapping_sub(self.offset),
        }
    }

    /// The bits of an integer; none for one that the format does not have.
    pub fn bits_of(&self, q: i8) -> Option<u32> {
        if let Some(table) = self.table() {
            // Zero has two in E2M1; the first is taken.
            let place = table.iter().position(|level| *level == q);
            return place.map(|bits| bits as u32);
        }
        if self.bits[0] == 8 {
            return Some(u32::from(q as u8));
        }
        let bits = i32::from(q) + i32::from(self.offset);
        let n = self.bits[0] + self.bits[1];
        (0..1 << n).contains(&bits).then_some(bits as u32)
    }
}

impl BlockFormat {
    /// The integers that bits are places of, in formats with a table.
    pub(super) const fn table(&self) -> Option<&'static [i8; 16]> {
        match self.levels {
            Levels::Integer => None,
            Levels::E2M1 => Some(&E2M1),
            Levels::Nf4 => Some(&NF4),
        }
    }

    /// The number that stored bits stand for in a value: the integer, or NF4's number.
    #[inline(always)]
    pub(super) fn number_of(&self, bits: u32) -> f32 {
        match self.levels {
            Levels::Nf4 => NF4_NUMBERS[(bits & 15) as usize],
            _ => f32::from(self.integer_of(bits)),
        }
    }

    /// What products multiply the sums of integers by, of a `d`: itself, or 1/127 of it in NF4.
    #[inline(always)]
    pub fn factor_of(&self, d: f32) -> f32 {
        match self.levels {
            Levels::Nf4 => hlx_core::arith::mul(d, NF4_STEP),
            _ => d,
        }
    }
}

/// E2M1's doubled values by their bits.
pub(super) const E2M1: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// The table of NF4 (Dettmers et al. 2023, *QLoRA: efficient finetuning of quantized LLMs*): quantiles of the normal distribution.
pub const NF4_NUMBERS: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// The nearest integers of 127 times the numbers of NF4.
pub(super) const NF4: [i8; 16] = [
    -127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127,
];

/// 1/127.
pub(super) const NF4_STEP: f32 = 1.0 / 127.0;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_bits_of_a_unit_fill_its_words_once() {
        for format in &BLOCK_FORMATS {
            for (i, bits) in format.bits.into_iter().enumerate() {
                let mut taken = HashSet::new();
                for term in 0..32 {
                    let [word, shift] = format.place_of(term)[i];
                    assert!(word < bits.max(1), "{}", format.name);
                    for bit in 0..bits {
                        assert!(taken.insert((word, shift + bit)), "{}: {term}", format.name);
                    }
                }
                assert_eq!(taken.len(), 32 * bits);
            }
        }
    }

    #[test]
    fn rows_take_about_the_bytes_of_the_files() {
        let stored = [
            ("Q8_0", 8.5),
            ("Q4_0", 4.5),
            ("Q4_1", 5.0),
            ("Q5_0", 5.5),
            ("Q5_1", 6.0),
            ("Q2_K", 2.625),
            ("Q3_K", 3.4375),
            ("Q4_K", 4.5),
            ("Q5_K", 5.5),
            ("Q6_K", 6.5625),
            ("MXFP4", 4.25),
            ("NF4", 4.5),
        ];
        for (name, bits) in stored {
            let format = BlockFormat::named(name).expect("a format");
            let own = format.words([16, 4096]) as f64 * 32.0 / (16.0 * 4096.0);
            assert!((bits..=bits + 0.6).contains(&own), "{name}: {own} bits");
        }
    }

    #[test]
    fn levels_of_nf4_are_the_nearest_integers_of_its_numbers() {
        for (level, number) in NF4.into_iter().zip(NF4_NUMBERS) {
            let exact = 127.0 * f64::from(number);
            assert!((exact - f64::from(level)).abs() < 0.499, "{level}: {exact}");
        }
    }
}
