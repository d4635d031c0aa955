//! Where the elements of patches lie in images: the CPU's side of `shaders/conv2d/images.glsl`.

mod cpu;
mod cpu_weight;
mod halves;
mod phases;
mod product;
mod quantised;
mod staged;
mod stored;

use crate::product::floats::pack::Panel;
pub(crate) use product::Product;
#[cfg(test)]
pub(crate) use quantised::Cut;

/// The patches of a batch of images: an element a tap of a channel and a pixel of the result.
///
/// Tap k of pixel p is the image's element `(p scale + first + k step) / divide` along each axis,
/// where that is whole and inside of the image, otherwise zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patches {
    /// Extents of the planes that the product's results (for the weight: its terms) run over.
    pub pixels: [usize; 2],
    pub taps: [usize; 2],
    /// Extents of the images' planes.
    pub image: [usize; 2],
    /// Planes of a sample.
    pub channels: usize,
    pub groups: usize,
    pub scale: [isize; 2],
    pub first: [isize; 2],
    pub step: [isize; 2],
    pub divide: [usize; 2],
}

/// How the terms of a weight's gradient, a sample's pixels, are cut into runs: each run is a chain of
/// its own, and a shard's runs are added in order. Planes of fewer pixels are not cut, and a shard's
/// samples are one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Pixels of a run; the last of a sample may have fewer.
    pub length: usize,
    /// Runs of a sample.
    pub of_sample: usize,
}

impl Runs {
    /// The runs of planes of this many pixels, `None` where samples are not cut apart.
    pub fn of(pixels: usize) -> Option<Self> {
        /// Shorter runs cost more in additions than they bring in parallel work.
        const SHORTEST: usize = 512;
        const LONGEST: usize = 1024;
        if pixels < SHORTEST {
            return None;
        }
        // Whole vectors of four.
        let length = pixels
            .div_ceil(pixels.div_ceil(LONGEST))
            .next_multiple_of(4);
        let of_sample = pixels.div_ceil(length);
        Some(Self { length, of_sample })
    }
}

/// A tap: its channel in the group, and its place (ky, kx) in the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tap {
    pub channel: usize,
    pub at: [usize; 2],
}

impl Patches {
    /// Pixels of a plane of the results.
    pub fn n_pixels(&self) -> usize {
        self.pixels[0] * self.pixels[1]
    }

    /// Taps of a channel.
    pub fn n_taps(&self) -> usize {
        self.taps[0] * self.taps[1]
    }

    /// Elements of an image's plane.
    fn plane(&self) -> usize {
        self.image[0] * self.image[1]
    }

    /// A tap by its number.
    pub fn tap(&self, index: usize) -> Tap {
        let (channel, tap) = (index / self.n_taps(), index % self.n_taps());
        Tap {
            channel,
            at: [tap / self.taps[1], tap % self.taps[1]],
        }
    }

    /// The tap after this one; a division would take longer than gathering a few pixels.
    pub fn tap_after(&self, mut tap: Tap) -> Tap {
        tap.at[1] += 1;
        if tap.at[1] == self.taps[1] {
            tap.at = [tap.at[0] + 1, 0];
            if tap.at[0] == self.taps[0] {
                tap.at[0] = 0;
                tap.channel += 1;
            }
        }
        tap
    }

    /// A pixel by its number.
    pub fn pixel(&self, index: usize) -> [usize; 2] {
        [index / self.pixels[1], index % self.pixels[1]]
    }

    /// The first plane that a group of a sample sees.
    pub fn first_plane(&self, sample_idx: usize, group_idx: usize) -> usize {
        sample_idx * self.channels + group_idx * (self.channels / self.groups)
    }

    /// Gathers a panel of patches, vectors of taps, as `[tap][width]` into the front of `to`. The matrix is that of a group
    /// of a sample.
    pub fn gather_panel(&self, images: &[f32], batch_idx: usize, panel: Panel, to: &mut [f32]) {
        let first_plane = self.first_plane(batch_idx / self.groups, batch_idx % self.groups);
        let pixel = self.pixel(panel.first);
        let mut tap = self.tap(panel.k_first);
        for row in to.chunks_exact_mut(panel.width).take(panel.k_count) {
            let (row, rest) = row.split_at_mut(panel.count);
            rest.fill(0.0);
            self.gather(images, first_plane, tap, pixel, row);
            tap = self.tap_after(tap);
        }
    }

    /// Gathers a tap of the pixels from one on, in the planes from `first_plane` on.
    pub fn gather(
        &self,
        images: &[f32],
        first_plane: usize,
        tap: Tap,
        [mut y, mut x]: [usize; 2],
        out: &mut [f32],
    ) {
        let plane = &images[(first_plane + tap.channel) * self.plane()..][..self.plane()];
        let [ky, kx] = tap.at;
        let [_, width] = self.pixels;
        let mut rest = out;
        while !rest.is_empty() {
            let (run, after) = rest.split_at_mut(rest.len().min(width - x));
            match self.place(0, y, ky) {
                Some(row) => {
                    let row = &plane[row * self.image[1]..][..self.image[1]];
                    self.gather_row(row, x, kx, run);
                }
                None => run.fill(0.0),
            }
            (rest, x, y) = (after, 0, y + 1);
        }
    }

    /// The place along an axis of a pixel's tap, if it is inside.
    fn place(&self, axis: usize, pixel: usize, tap: usize) -> Option<usize> {
        let at = usize::try_from(self.unbounded(axis, pixel, tap)).ok()?;
        let (place, rest) = match self.divide[axis] {
            1 => (at, 0),
            divide => (at / divide, at % divide),
        };
        (rest == 0 && place < self.image[axis]).then_some(place)
    }

    /// That place times the divisor, before anything is tested.
    fn unbounded(&self, axis: usize, pixel: usize, tap: usize) -> isize {
        pixel as isize * self.scale[axis] + self.first[axis] + tap as isize * self.step[axis]
    }

    /// Gathers one row of pixels from `x` on out of one row of the image.
    fn gather_row(&self, image: &[f32], x: usize, kx: usize, out: &mut [f32]) {
        if self.divide[1] != 1 {
            for (i, out) in out.iter_mut().enumerate() {
                *out = self.place(1, x + i, kx).map_or(0.0, |at| image[at]);
            }
            return;
        }
        // Pixel x + i is at `at + i scale`; those from `begin` to `end` are inside.
        let (at, scale) = (self.unbounded(1, x, kx), self.scale[1]);
        let reach = |place: usize| -> usize {
            let ahead = (place as isize - at).max(0);
            let pixels = match scale {
                1 => ahead,
                _ => (ahead + scale - 1) / scale,
            };
            out.len().min(pixels as usize)
        };
        let (begin, end) = (reach(0), reach(image.len()));
        // Most runs are inside from end to end; filling nothing takes as long as copying a run.
        if begin > 0 {
            out[..begin].fill(0.0);
        }
        if end < out.len() {
            out[end..].fill(0.0);
        }
        if begin == end {
            return;
        }
        let image = &image[(at + begin as isize * scale) as usize..];
        let out = &mut out[begin..end];
        if scale == 1 {
            out.copy_from_slice(&image[..out.len()]);
        } else {
            for (out, x) in out.iter_mut().zip(image.iter().step_by(scale as usize)) {
                *out = *x;
            }
        }
    }
}
