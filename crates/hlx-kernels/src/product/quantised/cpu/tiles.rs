//! Sums by tiles: blocks of terms, of each all rows of A in strips, and panel after panel of B, each with every strip.

use std::ops::Range;

use super::instructions::{MAX_TILE, Packed};
use super::{MAX_ROWS, Product, Tile};
use crate::parallel;
use crate::product::rectangles::{Rectangle, parts};

impl Product<'_> {
    /// The results of a piece of a rectangle.
    pub(super) fn by_tiles(&self, of: &Rectangle, piece: usize, terms: Range<usize>) {
        let way = self.instructions;
        let ([height, width], most) = (way.tile, way.block.min(terms.len()));
        let ([strip, panel], words) = (way.packed(most), 2 * height * width);
        let down = parts(&of.rows, height).len();
        // Between two blocks the sums of every tile are stored.
        let tiles = match terms.len() <= most {
            true => 1,
            false => down * parts(&of.columns, width).len(),
        };
        let memory = down * strip + panel + tiles * words;
        parallel::scratch(memory, |memory: &mut [i32]| {
            let (left, memory) = memory.split_at_mut(down * strip);
            let (right, sums) = memory.split_at_mut(panel);
            let mut excess = [[0; 2]; MAX_ROWS];
            let mut values = [0.0; MAX_TILE[0] * MAX_TILE[1]];
            way.registers[0]();
            for block in parts(&terms, most) {
                let [strip, panel] = way.packed(block.len());
                self.pack_rows(of, &block, left, &mut excess);
                for (across, columns) in parts(&of.columns, width).enumerate() {
                    self.pack_columns(of.matrix, &columns, &block, &mut right[..panel]);
                    let factors = self.factors_of_columns(of.matrix, &columns, piece);
                    for (at, rows) in parts(&of.rows, height).enumerate() {
                        let packed = Packed {
                            left: &left[at * strip..][..strip],
                            right: &right[..panel],
                            k: block.len(),
                            begins: block.start == terms.start,
                        };
                        let place = if tiles == 1 { 0 } else { across * down + at };
                        let sums = &mut sums[place * words..][..words];
                        way.multiply(&packed, sums);
                        if block.end == terms.end {
                            let tile = Tile {
                                product: of.matrix,
                                rows,
                                columns: &columns,
                                factors: &factors,
                                width,
                                sums,
                                excess: &excess[at * height..],
                            };
                            self.finish(&tile, piece, &mut values);
                        }
                    }
                }
            }
            way.registers[1]();
        });
    }

    /// The rows of a block in strips. Rows past the edge keep what was there, as columns do: their sums are not read.
    fn pack_rows(
        &self,
        of: &Rectangle,
        block: &Range<usize>,
        strips: &mut [i32],
        excess: &mut [[i32; 2]],
    ) {
        let way = self.instructions;
        let ([height, _], [strip, _]) = (way.tile, way.packed(block.len()));
        for ((i, row), sums) in of.rows.clone().enumerate().zip(excess) {
            let digits = self.a_digits(of.matrix, row, block);
            let strip = &mut strips[i / height * strip..][..strip];
            let more = (way.pack_row)(i % height, digits, strip);
            *sums = [0, 1].map(|digit| sums[digit].wrapping_add(more[digit]));
        }
    }

    fn pack_columns(
        &self,
        product: usize,
        columns: &Range<usize>,
        block: &Range<usize>,
        panel: &mut [i32],
    ) {
        let mut digits: [&[i8]; MAX_TILE[1]] = [&[]; _];
        for (digits, column) in digits.iter_mut().zip(columns.clone()) {
            *digits = self.b_digits(product, column, block);
        }
        let (digits, way) = (&digits[..columns.len()], self.instructions);
        (way.pack_columns)(way.level, digits, panel);
    }
}
