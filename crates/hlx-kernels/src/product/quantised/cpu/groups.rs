//! Products of groups of rows or of terms, as bounds tell.

use super::super::GRANULE;
use super::super::shape::{Bounded, IntegerProduct};
use super::{Operands, Pieces};

/// The products of `groups` groups of rows or of terms, from the group `first`; `bounds` say where each begins and ends.
pub(in super::super) fn groups<'a>(
    of: Bounded,
    (bounds, [first, groups]): (&[u32], [usize; 2]),
    shape: &IntegerProduct,
    operands: Operands<'a>,
) -> Vec<(IntegerProduct, Operands<'a>)> {
    let [c_first, c_row] = shape.place();
    let range = |group: usize| [0, 1].map(|i| bounds[first + group + i] as usize);
    let by_rows = |group: usize| {
        let [first, end] = range(group).map(|row| row.min(shape.m));
        let within = Some([c_first + first * c_row, c_row]);
        let m = end.saturating_sub(first);
        let first = [first, group * shape.n];
        (
            IntegerProduct {
                m,
                within,
                ..*shape
            },
            Operands { first, ..operands },
        )
    };
    let by_terms = |product: usize| {
        let ([first_term, end], index) = (range(product), first + product);
        let start = (first_term / GRANULE + index) * GRANULE;
        let padded = end.saturating_sub(first_term).next_multiple_of(GRANULE);
        let pieces = Pieces::One {
            index,
            of: groups,
            terms: [start, start + padded].map(|term| term.min(operands.padded)),
        };
        let of_one = if shape.transposed { shape.n } else { shape.m } * c_row;
        let within = Some([c_first + product * of_one, c_row]);
        let shape = IntegerProduct {
            batch: 1,
            within,
            ..*shape
        };
        (shape, Operands { pieces, ..operands })
    };
    match of {
        Bounded::Rows => (0..groups).map(by_rows).collect(),
        Bounded::Terms => (0..shape.batch).map(by_terms).collect(),
    }
}
