//! How the terms of a weight's gradient are cut into pieces, and some of their rows.

use crate::product::quantised::{Digits, Preparation};

/// How the terms of a shard, the pixels of its samples in order, are cut into pieces with exponents of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Samples of a piece; the last piece may have fewer.
    pub samples: usize,
    /// Pieces of a sample, where it has several.
    pub runs: usize,
    /// Pieces of a shard.
    pub pieces: usize,
    /// Terms of a piece; the last one of a sample or of a shard may have fewer.
    pub terms: usize,
}

impl Cut {
    /// That of a shard of `samples` samples of `pixels` pixels: the fewest pieces of at most 16,384 terms and of equally many samples, or the
    /// fewest runs of a sample's pixels of at most as many and of equal lengths.
    pub fn of(samples: usize, pixels: usize) -> Self {
        const MOST: usize = 16_384;
        let runs = pixels.div_ceil(MOST);
        if runs > 1 {
            return Self {
                samples: 1,
                runs,
                pieces: samples * runs,
                terms: pixels.div_ceil(runs),
            };
        }
        let pieces = samples.div_ceil(MOST / pixels.max(1)).max(1);
        let of_piece = samples.div_ceil(pieces);
        Self {
            samples: of_piece,
            runs: 1,
            pieces: samples.div_ceil(of_piece.max(1)),
            terms: of_piece * pixels,
        }
    }

    /// Digits of a piece.
    pub fn padded(&self) -> usize {
        Preparation::of_rows(1, self.terms, Digits::One).padded()
    }
}

/// Some rows of an operand: of some z some rows, and of these some pieces; of each the first one and how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    pub z: [usize; 2],
    pub rows: [usize; 2],
    pub pieces: [usize; 2],
    pub cut: Cut,
    /// Samples of a shard.
    pub samples: usize,
}

impl Selection {
    /// The rows as an operand.
    pub fn of(&self, n_digits: Digits) -> Preparation {
        let terms = self.pieces[1] * self.cut.padded();
        let of = Preparation::of_rows(self.z[1] * self.rows[1], terms, n_digits);
        match self.pieces[1] {
            // One shader for pieces of any length.
            1 => of.whole(),
            _ => Preparation {
                piece: self.cut.padded(),
                ..of
            },
        }
    }
}
