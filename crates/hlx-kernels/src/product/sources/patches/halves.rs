//! Convolutions of operands rounded to 16 bits, by the specification of [`crate::product::halves`]: products of patches that are
//! stored, as many at a time as fit in bounded memory. How many changes no bit. On the CPU device the images and the weight are
//! rounded, and the chains are those of `portable`.

use hlx_core::{Buffer, Device, Half};

use super::Product;
use super::quantised::{Cut, at_once, most_bytes};
use crate::elementwise::{add_assign, copy_strided};
use crate::error::check_indexable;
use crate::kernel::Kernel;
use crate::layout::{Layout, Operand};
use crate::product::halves::{HalfProduct, Halves, rounded_floats};
use crate::product::operand::of_floats;
use crate::product::role::Role;
use crate::product::shape::MatMul;
use crate::{KernelError, Result};

shader!(patches_shader, conv2d::round_patches);

/// Units of 16 bytes of a workgroup.
const GROUP: usize = 256;

/// Some lines of patches: of some z, which are the groups of samples or of shards, some pixels.
#[derive(Clone, Copy)]
struct Lines {
    /// The first z, and how many.
    z: [usize; 2],
    /// The first pixel of each, and how many.
    pixels: [usize; 2],
    /// Pixels of a z.
    of_z: usize,
}

impl Product {
    /// Computes `y[s, g, m, p]`, the products of a group's weights with the patches.
    pub(super) fn launch_halves(
        &self,
        device: &Device,
        half: Half,
        [weight, images]: [&Buffer; 2],
        bias: Option<&Buffer>,
        y: &Buffer,
    ) -> Result<()> {
        if device.is_cpu() {
            let [weight, images] = rounded_floats(device, half, [weight, images])?;
            return self.launch(&of_floats(device), &weight, &images, bias, y);
        }
        let Self { rows, terms, .. } = *self;
        let (groups, pixels) = (self.patches.groups, self.patches.n_pixels());
        if let Some(bias) = bias {
            // Sums are added to the bias of their channel.
            let planes = Layout::contiguous(&[groups * rows, 1])?;
            let planes = planes
                .expand(&[self.batch, groups * rows, pixels])
                .map_err(KernelError::argument(self.name))?;
            copy_strided(device, Operand::new(bias, &planes), y)?;
        }
        let weight = Halves::new(device, half, weight.into(), [groups * rows, terms])?;
        let (line_bytes, most) = (2 * weight.line(), most_bytes(device));
        let samples = at_once(self.batch, groups * pixels * line_bytes, most, 1);
        let pixels_at_once = at_once(pixels, groups * line_bytes, most, 64);
        for first in (0..self.batch).step_by(samples) {
            let count = samples.min(self.batch - first);
            for pixel in (0..pixels).step_by(pixels_at_once) {
                let lines = Lines {
                    z: [first * groups, count * groups],
                    pixels: [pixel, pixels_at_once.min(pixels - pixel)],
                    of_z: pixels,
                };
                let patches = self.rounded_patches(device, half, images, lines)?;
                let shape = MatMul {
                    batch: lines.z[1],
                    trans_b: true,
                    accumulate: bias.is_some(),
                    ..MatMul::new(rows, lines.pixels[1], terms)
                };
                HalfProduct {
                    groups: Some(groups),
                    place: Some([first * groups * rows * pixels + pixel, pixels]),
                    ..HalfProduct::new([&weight, &patches], y, shape)
                }
                .run(device)?;
            }
        }
        Ok(())
    }

    /// Computes `dweight[s, g, m, k]`, the products of dy with the patches of a shard, in pieces of its pixels that follow from
    /// its extents alone; with `accumulate` they are added to what is stored.
    pub(super) fn launch_weight_halves(
        &self,
        device: &Device,
        half: Half,
        [dy, images]: [&Buffer; 2],
        dweight: &Buffer,
        accumulate: bool,
        shards: usize,
    ) -> Result<()> {
        if device.is_cpu() {
            let rounded = rounded_floats(device, half, [dy, images])?;
            let roles = [Role::Gradient, Role::Saved];
            let operands = [&rounded[0], &rounded[1]];
            let floats = of_floats(device);
            return self.launch_weight(&floats, operands, roles, dweight, accumulate, shards);
        }
        let samples = self.batch / shards;
        let of_z = samples * self.patches.n_pixels();
        let cut = Cut::of(samples, self.patches.n_pixels());
        if accumulate && cut.pieces > 1 {
            let sums = device.alloc(dweight.len())?;
            self.launch_weight_halves(device, half, [dy, images], &sums, false, shards)?;
            return add_assign(device, dweight, &sums);
        }
        let (rows, terms, groups) = (self.rows, self.terms, self.patches.groups);
        let line_bytes = 2 * (rows + terms);
        let n_shards = at_once(
            shards,
            groups * cut.terms * line_bytes,
            most_bytes(device),
            1,
        );
        let of_dy = self.of_gradient();
        for shard in (0..shards).step_by(n_shards) {
            let z = [shard * groups, n_shards.min(shards - shard) * groups];
            // (A window of the gradient would begin at no place that a binding may.)
            let place = Some([z[0] * rows * terms, terms]);
            for piece in 0..cut.pieces {
                let first = piece / cut.runs * cut.samples * self.patches.n_pixels()
                    + piece % cut.runs * cut.terms;
                // The last piece of a sample, or of a shard, may be shorter.
                let end = match cut.runs {
                    1 => of_z,
                    runs => (piece / runs + 1) * self.patches.n_pixels(),
                };
                let lines = Lines {
                    z,
                    pixels: [first, cut.terms.min(end - first)],
                    of_z,
                };
                let dy = of_dy.rounded_patches(device, half, dy, lines)?;
                let x = self.rounded_patches(device, half, images, lines)?;
                let shape = MatMul {
                    batch: z[1],
                    trans_a: true,
                    accumulate: accumulate || piece > 0,
                    ..MatMul::new(rows, terms, lines.pixels[1])
                };
                HalfProduct {
                    place,
                    ..HalfProduct::new([&dy, &x], dweight, shape)
                }
                .run(device)?;
            }
        }
        Ok(())
    }

    /// The patches of some pixels, a line each.
    fn rounded_patches(
        &self,
        device: &Device,
        half: Half,
        images: &Buffer,
        lines: Lines,
    ) -> Result<Halves> {
        let [pixel, pixels] = lines.pixels;
        let patches = Halves::empty(device, half, [lines.z[1] * pixels, self.terms])?;
        let n_lines = lines.z[1] * pixels;
        let units = patches.units_of_line();
        check_indexable(self.name, "the patches", n_lines * units)?;
        let push = self.push(
            [n_lines, pixels, self.terms],
            [units, lines.of_z],
            [pixel, lines.z[0]],
            [0, 0],
        );
        Kernel::new("round_patches", &patches_shader::SHADER)
            .constants(self.divisors())
            .constants(constants!(6: half.dtype().id()))
            .reads([images])
            .writes([patches.values()])
            .launch_on_gpu(device, push, (n_lines * units).div_ceil(GROUP))?;
        Ok(patches)
    }
}
