//! The gradient of a weight as a plain product, of patches that are stored first.
//!
//! Images of few pixels are read slowly by the product itself: their rows are no whole vectors, and each
//! element needs its own test. Stored once, patches are rows like any other. The chains are the same, and
//! so are the bits: terms that fill up the last step are zeros, which change no sum but the sign of a zero.

use hlx_core::{Buffer, Device};

use super::Product;
use super::Runs;
use crate::Result;
use crate::kernel::Kernel;
use crate::map::MAX_GROUPS;
use crate::product::floats::matmul;
use crate::product::shape::MatMul;

shader!(conv2d::{patch_rows, gradient_rows});

/// Seconds of a product at the device's peak from which it gains more than two launches take.
const FROM_SECONDS: f64 = 2e-5;

/// The part of a device's memory that patches may take.
const MEMORY_PART: u64 = 64;

/// Terms of a chain are filled up to a multiple of two steps of every tile but one.
const WHOLE_TERMS: usize = 16;

/// Rows of which a thread of the shaders stores an element.
const ROWS_A_THREAD: usize = 8;

/// Threads of a workgroup.
const GROUP: usize = 256;

impl Product {
    /// The product of a weight's gradient over stored rows; none where patches are better read by the
    /// product.
    pub(super) fn stored_shape(&self, device: &Device, shards: usize) -> Option<MatMul> {
        let (pixels, z) = (self.patches.n_pixels(), shards * self.patches.groups);
        let terms = self.batch / shards * pixels;
        let shape = MatMul {
            batch: z,
            ..MatMul::new(self.rows, self.terms, terms.next_multiple_of(WHOLE_TERMS))
        };
        let seconds =
            2.0 * (z * shape.m * shape.n) as f64 * terms as f64 / device.tuning().flops_per_second;
        let words = z * shape.k * shape.n.max(shape.m);
        let fits = words <= device.max_binding_words()
            && 8 * words as u64 <= device.info().memory_bytes / MEMORY_PART;
        let grid = [shape.n, shape.m, shape.k].map(|extent| extent.div_ceil(ROWS_A_THREAD));
        let in_grid = grid.iter().chain([&z]).all(|&groups| groups <= MAX_GROUPS);
        let gains = Runs::of(pixels).is_none() && seconds >= FROM_SECONDS;
        (!device.is_cpu() && gains && fits && in_grid).then_some(shape)
    }

    /// Computes `dweight` of shape `[s, g, M, N]` with a shape from [`Product::stored_shape`].
    pub(super) fn launch_stored(
        &self,
        device: &Device,
        shape: MatMul,
        [dy, images]: [&Buffer; 2],
        dweight: &Buffer,
        accumulate: bool,
        shards: usize,
    ) -> Result<()> {
        let MatMul { batch, m, n, k, .. } = shape;
        let terms = self.batch / shards * self.patches.n_pixels();
        let gradient = device.alloc_shape(&[batch, m, k])?;
        let patches = device.alloc_shape(&[batch, k, n])?;
        // The shaders' m is the number of stored terms, n that of the other side, k that of real terms.
        // Neighbouring threads store neighbours of a row: terms of the gradient, taps of the patches.
        let store = |shader, [from, to]: [&Buffer; 2], n, [along, across]: [usize; 2]| {
            let groups = [along.div_ceil(GROUP), across.div_ceil(ROWS_A_THREAD), batch];
            let push = self.push([k, n, terms], [1, 1], [0, 0], [0, 0]);
            let kernel = Kernel::new(self.name, shader).reads([from]).writes([to]);
            kernel.launch_on_gpu(device, push, groups.map(|groups| groups as u32))
        };
        store(&gradient_rows::SHADER, [dy, &gradient], m, [k, m])?;
        store(&patch_rows::SHADER, [images, &patches], n, [n, k])?;
        let shape = MatMul {
            accumulate,
            ..shape
        };
        matmul(device, &gradient, &patches, None, dweight, &shape)
    }
}
