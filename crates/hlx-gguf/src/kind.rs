//! The types of a tensor's values in a file: which are read, their blocks, and the names of those that are not.

/// How a tensor's values are stored: in blocks of a fixed number of values and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BlockKind {
    /// 32-bit floats.
    F32,
    /// 16-bit floats with 5 bits of exponent.
    F16,
    /// 16-bit floats with 8 bits of exponent.
    BF16,
    /// 32 values of 8 bits, a scale.
    Q8_0,
    /// 32 values of 4 bits, a scale.
    Q4_0,
    /// 32 values of 4 bits, a scale and an offset.
    Q4_1,
    /// 32 values of 5 bits, a scale.
    Q5_0,
    /// 32 values of 5 bits, a scale and an offset.
    Q5_1,
    /// 256 values of 2 bits, scales and minima of 4 bits for each 16.
    Q2K,
    /// 256 values of 3 bits, scales of 6 bits for each 16.
    Q3K,
    /// 256 values of 4 bits, scales and minima of 6 bits for each 32.
    Q4K,
    /// 256 values of 5 bits, scales and minima of 6 bits for each 32.
    Q5K,
    /// 256 values of 6 bits, scales of 8 bits for each 16.
    Q6K,
    /// 32 values of 4 bits as E2M1, a power of two: OCP's microscaling format.
    MXFP4,
}

/// A kind, its number in files, its name, the values and the bytes of its block.
type Row = (BlockKind, u32, &'static str, usize, usize);

const TABLE: [Row; 14] = [
    (BlockKind::F32, 0, "F32", 1, 4),
    (BlockKind::F16, 1, "F16", 1, 2),
    (BlockKind::BF16, 30, "BF16", 1, 2),
    (BlockKind::Q8_0, 8, "Q8_0", 32, 34),
    (BlockKind::Q4_0, 2, "Q4_0", 32, 18),
    (BlockKind::Q4_1, 3, "Q4_1", 32, 20),
    (BlockKind::Q5_0, 6, "Q5_0", 32, 22),
    (BlockKind::Q5_1, 7, "Q5_1", 32, 24),
    (BlockKind::Q2K, 10, "Q2_K", 256, 84),
    (BlockKind::Q3K, 11, "Q3_K", 256, 110),
    (BlockKind::Q4K, 12, "Q4_K", 256, 144),
    (BlockKind::Q5K, 13, "Q5_K", 256, 176),
    (BlockKind::Q6K, 14, "Q6_K", 256, 210),
    (BlockKind::MXFP4, 39, "MXFP4", 32, 17),
];

/// The numbers and names of types that other programs write.
const OTHERS: [(u32, &str); 20] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

impl BlockKind {
    /// All kinds, floats first.
    pub const ALL: [Self; 14] = {
        let mut all = [Self::F32; 14];
        let mut at = 0;
        while at < all.len() {
            all[at] = TABLE[at].0;
            at += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The kind's number in files.
    pub fn id(self) -> u32 {
        self.row().1
    }

    /// The kind's name: `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Values per block; a row of a tensor has whole blocks.
    pub fn block_values(self) -> usize {
        self.row().3
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        self.row().4
    }

    /// Whether values are floats, not blocks of integers.
    pub fn is_float(self) -> bool {
        self.block_values() == 1
    }

    /// The bytes of a number of values; `None` if they are not whole blocks, or too many to count.
    pub fn bytes_of(self, n_values: usize) -> Option<usize> {
        let n_blocks = n_values / self.block_values();
        let whole = n_values.is_multiple_of(self.block_values());
        n_blocks.checked_mul(self.block_bytes()).filter(|_| whole)
    }

    /// The kind of a number in a file.
    ///
    /// # Errors
    /// The end of a sentence that names the type.
    pub(crate) fn of_id(id: u32) -> Result<Self, String> {
        if let Some(row) = TABLE.iter().find(|row| row.1 == id) {
            return Ok(row.0);
        }
        let known = || Self::ALL.map(Self::name).join(", ");
        match OTHERS.iter().find(|(number, _)| *number == id) {
            Some((_, name)) => Err(format!("is of type {name}, expected one of {}", known())),
            None => Err(format!(
                "is of the unknown type {id}, expected one of {}",
                known()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_finds_its_own_row() {
        for kind in BlockKind::ALL {
            assert_eq!(kind.row().0, kind);
            assert_eq!(BlockKind::of_id(kind.id()), Ok(kind));
        }
        let refused = BlockKind::of_id(23).expect_err("IQ4_XS");
        assert!(refused.starts_with("is of type IQ4_XS, expected one of F32, F16, BF16, Q8_0,"));
        assert!(
            BlockKind::of_id(4)
                .expect_err("gone")
                .contains("the unknown type 4")
        );
        assert_eq!(BlockKind::Q4K.bytes_of(512), Some(288));
        assert_eq!(BlockKind::Q4K.bytes_of(128), None);
        assert_eq!(BlockKind::F32.bytes_of(usize::MAX), None);
    }
}
