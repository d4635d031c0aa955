//! Layouts of one shape stepped through together, with as few dimensions as can be.

use super::{Layout, MAX_RANK};

/// Dimensions that several layouts of one shape step through together, outermost first, with as few
/// dimensions as say the same: extents of 1 are left out, and neighbours are joined where every
/// layout steps from one into the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walk<const N: usize> {
    /// The extents; none where there is one element.
    pub shape: Vec<usize>,
    /// For each layout its strides.
    pub strides: [Vec<isize>; N],
    /// For each layout its first element.
    pub offsets: [usize; N],
}

impl<const N: usize> Walk<N> {
    /// Joins the dimensions of layouts of one shape.
    pub fn over(layouts: [&Layout; N]) -> Self {
        let shape = layouts[0].shape();
        debug_assert!(layouts.iter().all(|layout| layout.shape() == shape));
        let mut walk = Self {
            shape: Vec::new(),
            strides: layouts.map(|_| Vec::new()),
            offsets: layouts.map(|layout| layout.offset),
        };
        for (axis, &extent) in shape.iter().enumerate().filter(|&(_, &extent)| extent != 1) {
            let steps = layouts.map(|layout| layout.strides[axis]);
            let mut pairs = walk.strides.iter().zip(steps);
            let joins =
                pairs.all(|(strides, step)| strides.last() == Some(&(step * extent as isize)));
            match walk.shape.last_mut() {
                Some(last) if joins => *last *= extent,
                _ => walk.shape.push(extent),
            }
            for (strides, step) in walk.strides.iter_mut().zip(steps) {
                if joins {
                    strides.pop();
                }
                strides.push(step);
            }
        }
        walk
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The strides along the innermost dimension; 0 where there is one element.
    pub fn steps(&self) -> [isize; N] {
        let last = |strides: &Vec<isize>| strides.last().copied().unwrap_or(0);
        self.strides.each_ref().map(last)
    }

    /// The first place that a layout's elements touch and the one past the last.
    pub fn span(&self, k: usize) -> (usize, usize) {
        super::span(&self.shape, &self.strides[k], self.offsets[k])
    }

    /// Where each layout has the element with this row-major number.
    pub fn places(&self, number: usize) -> [usize; N] {
        places(&self.shape, self.rows(), self.offsets, number)
    }

    /// Calls `run(done, places, count)` for the runs along the innermost dimension that make up the `count`
    /// elements from number `begin` on, in order: `done` elements come before, and `places` are each layout's
    /// first.
    pub fn runs(&self, begin: usize, count: usize, run: impl FnMut(usize, [usize; N], usize)) {
        runs(&self.shape, self.rows(), self.offsets, (begin, count), run);
    }

    /// Extents and strides as push constants.
    pub fn words<const D: usize>(&self) -> ([u32; D], [[u32; D]; N]) {
        let (mut extents, mut strides) = ([1; D], [[0; D]; N]);
        for (d, &extent) in self.shape.iter().enumerate() {
            extents[d] = extent as u32;
            for (words, strides) in strides.iter_mut().zip(&self.strides) {
                words[d] = strides[d] as u32;
            }
        }
        (extents, strides)
    }

    fn rows(&self) -> [&[isize]; N] {
        self.strides.each_ref().map(|strides| &strides[..])
    }
}

impl Walk<1> {
    /// `extent` elements, `stride` apart.
    pub fn line(extent: usize, stride: usize) -> Self {
        Self {
            shape: vec![extent],
            strides: [vec![stride as isize]],
            offsets: [0],
        }
    }

    /// The innermost extent and stride; one element if there is no dimension.
    pub fn innermost(&self) -> (usize, isize) {
        (self.shape.last().copied().unwrap_or(1), self.steps()[0])
    }
}

/// How four neighbours from a multiple of four on lie: the constants of `elements.glsl`, and over a whole walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    /// Anywhere.
    Apart = 0,
    /// Behind each other, from a multiple of four on.
    Vector = 1,
    /// All in one place.
    Same = 2,
    /// Behind each other over the whole walk.
    Dense,
}

/// Whether four elements from a multiple of four on never leave their row.
pub(crate) fn in_quads(shape: &[usize]) -> bool {
    shape.len() == 1 || shape.last().is_some_and(|n| n.is_multiple_of(4))
}

/// The access of an operand of a walk of this shape, which has one dimension at least; never `Dense`.
pub(crate) fn access(shape: &[usize], strides: &[isize], offset: usize) -> Access {
    let Some((inner, outer)) = strides.split_last() else {
        return Access::Apart;
    };
    let aligned = offset.is_multiple_of(4) && outer.iter().all(|stride| stride % 4 == 0);
    match inner {
        _ if !in_quads(shape) => Access::Apart,
        1 if aligned => Access::Vector,
        0 => Access::Same,
        _ => Access::Apart,
    }
}

/// [`Walk::places`] of any shape, strides and first places.
fn places<const N: usize>(
    shape: &[usize],
    strides: [&[isize]; N],
    mut places: [usize; N],
    number: usize,
) -> [usize; N] {
    let mut rest = number;
    for (d, &extent) in shape.iter().enumerate().rev() {
        let mut at = rest;
        if d > 0 {
            (at, rest) = (rest % extent, rest / extent); // The outermost index needs no division.
        }
        for (place, strides) in places.iter_mut().zip(strides) {
            *place = place.wrapping_add_signed(at as isize * strides[d]);
        }
    }
    places
}

/// [`Walk::runs`] of any shape, strides and first places.
pub(crate) fn runs<const N: usize>(
    shape: &[usize],
    strides: [&[isize]; N],
    offsets: [usize; N],
    (begin, count): (usize, usize),
    mut run: impl FnMut(usize, [usize; N], usize),
) {
    if count == 0 {
        return; // Of an empty walk, too.
    }
    let mut index = [0; MAX_RANK];
    let mut rest = begin;
    for (at, &extent) in index.iter_mut().zip(shape).rev() {
        (*at, rest) = (rest % extent, rest / extent);
    }
    let mut places = places(shape, strides, offsets, begin);
    let inner = shape.len().saturating_sub(1);
    let extent = shape.last().copied().unwrap_or(1);
    let mut done = 0;
    while done < count {
        let length = (extent - index[inner]).min(count - done);
        run(done, places, length);
        done += length;
        if done == count {
            return;
        }
        // The next row: back along the innermost dimension, and ahead along the first with a neighbour.
        for (d, &extent) in shape.iter().enumerate().rev() {
            let has_next = d != inner && index[d] + 1 < extent;
            let ahead = if has_next { 1 } else { -(index[d] as isize) };
            index[d] = if has_next { index[d] + 1 } else { 0 };
            for (place, strides) in places.iter_mut().zip(strides) {
                *place = place.wrapping_add_signed(ahead * strides[d]);
            }
            if has_next {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_has_as_few_dimensions_as_possible() {
        let of = |shape: &[usize]| Layout::contiguous(shape).expect("a shape");
        let whole = of(&[2, 3, 4]);
        assert_eq!(Walk::over([&whole, &whole]).shape, [24]);
        let row = of(&[4]).expand(&[2, 3, 4]).expect("a row");
        let walk = Walk::over([&whole, &row]);
        assert_eq!((walk.shape, &walk.strides[1]), (vec![6, 4], &vec![0, 1]));
        assert!(Walk::over([&of(&[1, 1])]).shape.is_empty());
    }

    #[test]
    fn runs_cover_the_elements_in_order() {
        let whole = Layout::contiguous(&[3, 4, 5]).expect("a layout");
        let transposed = whole.permute(&[2, 0, 1]).expect("a permutation");
        let plain = Layout::contiguous(&[5, 3, 4]).expect("a layout");
        let flipped = plain.flip(1).expect("a dimension");
        let walk = Walk::over([&transposed, &flipped]);
        for (begin, count) in [(7, 40), (0, 60), (59, 1), (20, 0), (11, 49)] {
            let mut found = Vec::new();
            walk.runs(begin, count, |done, places, count| {
                assert_eq!(done, found.len());
                let at = |i: usize, k: usize| {
                    places[k].wrapping_add_signed(i as isize * walk.steps()[k])
                };
                found.extend((0..count).map(|i| [at(i, 0), at(i, 1)]));
            });
            let want = (begin..begin + count).map(|number| walk.places(number));
            assert_eq!(found, want.collect::<Vec<_>>(), "{count} from {begin}");
        }
        let one = Walk::over([&Layout::contiguous(&[]).expect("a scalar").starting_at(3)]);
        one.runs(0, 1, |_, places, count| {
            assert_eq!((places, count), ([3], 1))
        });
    }
}
