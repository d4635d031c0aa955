//! Loops of CPU twins over all threads: one compiled loop for all of them, over pieces of slices.
//!
//! What a piece computes must not depend on the others: they run in any order.

use std::cell::Cell;
use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable, cast_slice_mut};
use hlx_core::cpu;
use rayon::prelude::*;

/// Slices, cut into pieces that different threads may hold at a time.
///
/// # Safety
/// Pieces of different numbers share no mutable memory.
pub unsafe trait Pieces: Sync {
    type Piece;

    fn count(&self) -> usize;

    /// # Safety
    /// `i` is less than `count`, and no piece of this number is alive.
    unsafe fn piece(&self, i: usize) -> Self::Piece;
}

/// A slice in pieces of `length` items; the last may be shorter.
pub struct Read<'a, T> {
    items: &'a [T],
    length: usize,
}

/// A mutable slice in pieces of `length` items; the last may be shorter.
pub struct Write<'a, T> {
    items: *mut T,
    n: usize,
    length: usize,
    slice: PhantomData<&'a mut [T]>,
}

/// `items` in pieces of `length` (at least 1), to be read.
pub fn read<T>(items: &[T], length: usize) -> Read<'_, T> {
    let length = length.max(1);
    Read { items, length }
}

/// `items` in pieces of `length` (at least 1), to be written.
pub fn write<T>(items: &mut [T], length: usize) -> Write<'_, T> {
    Write {
        items: items.as_mut_ptr(),
        n: items.len(),
        length: length.max(1),
        slice: PhantomData,
    }
}

// SAFETY: nothing is mutable.
unsafe impl<'a, T: Sync> Pieces for Read<'a, T> {
    type Piece = &'a [T];

    fn count(&self) -> usize {
        self.items.len().div_ceil(self.length)
    }

    unsafe fn piece(&self, i: usize) -> &'a [T] {
        let begin = i * self.length;
        &self.items[begin..self.items.len().min(begin + self.length)]
    }
}

// SAFETY: it stands for a `&mut [T]`, whose pieces go to threads as a `T` would.
unsafe impl<T: Send> Sync for Write<'_, T> {}

impl<'a, T> Write<'a, T> {
    /// # Safety
    /// The range is within the slice, and no piece that shares an item with it is alive.
    unsafe fn range(&self, begin: usize, n: usize) -> &'a mut [T] {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.items.add(begin), n) }
    }
}

// SAFETY: pieces of different numbers do not overlap.
unsafe impl<'a, T: Send> Pieces for Write<'a, T> {
    type Piece = &'a mut [T];

    fn count(&self) -> usize {
        self.n.div_ceil(self.length)
    }

    unsafe fn piece(&self, i: usize) -> &'a mut [T] {
        let begin = i * self.length;
        let n = self.length.min(self.n - begin);
        // SAFETY: the range is within the slice, as `i` is less than `count`; the caller holds no other
        // piece of this number.
        unsafe { self.range(begin, n) }
    }
}

/// A mutable slice of rows, each in pieces of `length` items; the last of a row may be shorter.
pub struct Tiles<'a, T> {
    items: Write<'a, T>,
    row: usize,
}

/// `items`, whole rows of `row` each, in pieces of `length` (at least 1) to be written, each with the numbers of
/// its row and of its first column.
pub fn tiles<T>(items: &mut [T], row: usize, length: usize) -> Tiles<'_, T> {
    let items = write(items, length);
    Tiles { items, row }
}

// SAFETY: pieces of different numbers do not overlap.
unsafe impl<'a, T: Send> Pieces for Tiles<'a, T> {
    type Piece = (usize, usize, &'a mut [T]);

    fn count(&self) -> usize {
        let rows = self.items.n.checked_div(self.row).unwrap_or(0);
        rows * self.row.div_ceil(self.items.length)
    }

    unsafe fn piece(&self, i: usize) -> Self::Piece {
        let pieces = self.row.div_ceil(self.items.length);
        let (row, column) = (i / pieces, i % pieces * self.items.length);
        let n = self.items.length.min(self.row - column);
        // SAFETY: the row is one of the whole ones, and the caller holds no other piece of this number.
        let piece = unsafe { self.items.range(row * self.row + column, n) };
        (row, column, piece)
    }
}

macro_rules! together {
    ($($part:ident . $place:tt),+) => {
        // SAFETY: each part keeps the promise.
        unsafe impl<$($part: Pieces),+> Pieces for ($($part,)+) {
            type Piece = ($($part::Piece,)+);

            fn count(&self) -> usize {
                [$(self.$place.count()),+].into_iter().min().unwrap_or(0)
            }

            unsafe fn piece(&self, i: usize) -> Self::Piece {
                // SAFETY: `i` is less than the least count.
                unsafe { ($(self.$place.piece(i),)+) }
            }
        }
    };
}

together!(A.0, B.1);
together!(A.0, B.1, C.2);
together!(A.0, B.1, C.2, D.3);
together!(A.0, B.1, C.2, D.3, E.4);

// SAFETY: each part keeps the promise.
unsafe impl<P: Pieces, const N: usize> Pieces for [P; N] {
    type Piece = [P::Piece; N];

    fn count(&self) -> usize {
        self.iter().map(P::count).min().unwrap_or(0)
    }

    unsafe fn piece(&self, i: usize) -> Self::Piece {
        // SAFETY: `i` is less than the least count.
        self.each_ref().map(|part| unsafe { part.piece(i) })
    }
}

/// Calls `body` with the number and the piece of each number below the least count.
pub fn for_each<P: Pieces>(pieces: P, body: impl Fn(usize, P::Piece) + Sync) {
    // SAFETY: each number below the count comes once.
    times(pieces.count(), |i| body(i, unsafe { pieces.piece(i) }));
}

/// Calls `body` with each of `tasks`.
pub fn each<T: Send>(tasks: &mut [T], body: impl Fn(&mut T) + Sync) {
    for_each(write(tasks, 1), |_, task| body(&mut task[0]));
}

/// Calls `body` with each number below `count`.
pub fn times(count: usize, body: impl Fn(usize) + Sync) {
    loop_of(count, &body);
}

fn loop_of(count: usize, body: &(dyn Fn(usize) + Sync)) {
    if cpu::is_alone() {
        return (0..count).for_each(body);
    }
    (0..count).into_par_iter().for_each(body);
}

/// What `body` returns for each number below `count`, in order.
pub fn map<R: Send>(count: usize, body: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let mut results: Vec<Option<R>> = Vec::new();
    results.resize_with(count, || None);
    for_each(write(&mut results, 1), |i, place| place[0] = Some(body(i)));
    results.into_iter().flatten().collect()
}

/// Sorts keys by all threads.
pub fn sort(keys: &mut [u64]) {
    if cpu::is_alone() {
        return keys.sort_unstable();
    }
    keys.par_sort_unstable();
}

/// A line of the cache.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Calls `body` with `len` elements of this thread's memory, which begin on a line of the cache and hold what an earlier call
/// has left.
pub fn scratch<T: Pod, R>(len: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    thread_local! {
        /// Taken out while in use.
        static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    }
    let mut lines = SCRATCH.take();
    let needed = (len * size_of::<T>()).div_ceil(size_of::<Line>());
    if lines.len() < needed {
        lines.resize(needed, Line([0; 64]));
    }
    let result = body(&mut cast_slice_mut(&mut lines[..needed])[..len]);
    SCRATCH.set(lines);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_met_once_with_its_number() {
        let (x, mut y, mut z) = ([1, 2, 3, 4, 5, 6, 7], [0; 7], [0; 4]);
        for_each(
            (read(&x, 2), write(&mut y, 2), write(&mut z, 1)),
            |i, (x, y, z)| {
                y.copy_from_slice(x);
                z[0] = i + 10;
            },
        );
        assert_eq!((x, z), (y, [10, 11, 12, 13]));
        each(&mut y, |y| *y *= 2);
        assert_eq!(map(7, |i| y[i]), x.map(|x| 2 * x));
    }

    #[test]
    fn the_shortest_part_ends_the_loop() {
        let (x, mut y) = ([1; 3], [0; 5]);
        for_each((read(&x, 1), write(&mut y, 0)), |_, (x, y)| y[0] = x[0]);
        assert_eq!(y, [1, 1, 1, 0, 0]);
        for_each(read::<u32>(&[], 3), |_, _| unreachable!());
        for_each(tiles::<u32>(&mut [], 0, 3), |_, _| unreachable!());
    }

    #[test]
    fn tiles_stay_in_their_row() {
        let mut x = [0; 10];
        for_each(tiles(&mut x, 5, 3), |i, (row, column, tile)| {
            assert_eq!((i, tile.len()), (2 * row + column / 3, 3 - column / 3));
            tile.fill(100 * row + column + 1);
        });
        assert_eq!(x, [1, 1, 1, 4, 4, 101, 101, 101, 104, 104]);
    }
}
