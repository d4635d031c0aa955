//! Layouts of one shape stepped through together, with as few dimensions as can be.

use super::Layout;

/// Dimensions that several layouts of one shape step through together, outermost first, with as few
/// dimensions as say the same: extents of 1 are left out, and neighbours are joined where every
/// layout steps from one into the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The extents; none where there is one element.
    pub shape: Vec<usize>,
    /// For each layout its strides.
    pub strides: Vec<Vec<isize>>,
    /// For each layout its first element.
    pub offsets: Vec<usize>,
}

impl Walk {
    /// Joins the dimensions of layouts of one shape.
    pub fn over(layouts: &[&Layout]) -> Self {
        let shape = layouts.first().map_or(&[][..], |layout| layout.shape());
        debug_assert!(layouts.iter().all(|layout| layout.shape() == shape));
        let mut walk = Self {
            shape: Vec::new(),
            strides: vec![Vec::new(); layouts.len()],
            offsets: layouts.iter().map(|layout| layout.offset).collect(),
        };
        for (axis, &extent) in shape.iter().enumerate().filter(|&(_, &extent)| extent != 1) {
            let steps = |layout: &&Layout| layout.strides[axis];
            let joins = !walk.shape.is_empty()
                && layouts.iter().zip(&walk.strides).all(|(layout, strides)| {
                    strides.last() == Some(&(steps(layout) * extent as isize))
                });
            if joins {
                if let Some(last) = walk.shape.last_mut() {
                    *last *= extent;
                }
            } else {
                walk.shape.push(extent);
            }
            for (layout, strides) in layouts.iter().zip(&mut walk.strides) {
                if joins {
                    strides.pop();
                }
                strides.push(steps(layout));
            }
        }
        walk
    }
}
