//! Rectangles of the results of products, of which a thread of the CPU device computes one at a time.

use std::ops::Range;

/// A rectangle of one of the matrices of C.
#[derive(Clone, Debug)]
pub(super) struct Rectangle {
    pub matrix: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Rectangle {
    /// Those of all matrices, \[batch, m, n\], of at most `rows` rows and `columns` columns.
    pub fn all([batch, m, n]: [usize; 3], [rows, columns]: [usize; 2]) -> Vec<Self> {
        let mut all = Vec::new();
        for matrix in 0..batch {
            for columns in parts(&(0..n), columns) {
                all.extend(parts(&(0..m), rows).map(|rows| Self {
                    matrix,
                    rows,
                    columns: columns.clone(),
                }));
            }
        }
        all
    }
}

/// The parts of a range, each of at most `most`.
pub(super) fn parts(
    whole: &Range<usize>,
    most: usize,
) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
    let end = whole.end;
    let firsts = whole.clone().step_by(most);
    firsts.map(move |first| first..end.min(first + most))
}

/// C, shared among tasks that write disjoint rectangles.
#[derive(Clone, Copy)]
pub(super) struct Target {
    c: *mut f32,
    len: usize,
}

// SAFETY: the pointer comes from one `&mut [f32]` that outlives every task, and the tasks'
// rectangles are disjoint.
unsafe impl Send for Target {}
// SAFETY: as for `Send`.
unsafe impl Sync for Target {}

impl Target {
    pub fn new(c: &mut [f32]) -> Self {
        let len = c.len();
        Self {
            c: c.as_mut_ptr(),
            len,
        }
    }

    /// The element at a place, from which on `len` elements are part of C.
    pub fn at(self, at: usize, len: usize) -> *mut f32 {
        assert!(at + len <= self.len);
        // SAFETY: the assertion keeps the offset inside C.
        unsafe { self.c.add(at) }
    }
}
