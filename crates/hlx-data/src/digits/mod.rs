//! Digits drawn by the project itself: strokes moved by random numbers, with integers alone.
//!
//! A digit is a few strokes ([`shapes`]). Each drawing moves their points, rotates, slants, scales and
//! shifts them, chooses a thickness and an ink, and fills pixels by their distance from the strokes
//! ([`raster`]). Lengths are in 1/256 of a pixel.

mod raster;
mod shapes;

use std::num::NonZero;
use std::thread::{self, available_parallelism};

use self::raster::{Canvas, PIXEL, Point};
use self::shapes::{HEIGHT, Stroke, variants};
use crate::random::{DIGIT, below, words};

/// Digits.
pub(crate) const CLASSES: usize = 10;
/// Width and height of a drawing in pixels.
pub(crate) const SIZE: usize = 28;

/// Fractional bits of the linear map of strokes.
const MAP_BITS: i32 = 10;

/// How one drawing differs from the next.
struct Style {
    /// The linear map of a stroke's units to 1/256 pixel, with [`MAP_BITS`] fractional bits: x to x,
    /// y to x, x to y, y to y.
    map: [i32; 4],
    /// Where the middle of the digit lies.
    centre: Point,
    /// Half the width of a stroke.
    radius: i32,
    /// The brightest pixel.
    ink: u8,
}

/// Draws `n` digits: the pixels of all and the labels. Image i depends on seed and i alone.
pub(crate) fn draw_digits(n: usize, seed: u64) -> (Vec<u8>, Vec<u32>) {
    let mut pixels = vec![0; n * SIZE * SIZE];
    let cores = available_parallelism().map_or(1, NonZero::get);
    let each = n.div_ceil(cores).max(1);
    thread::scope(|scope| {
        for (part_idx, part) in pixels.chunks_mut(each * SIZE * SIZE).enumerate() {
            scope.spawn(move || {
                for (at, image) in part.chunks_mut(SIZE * SIZE).enumerate() {
                    draw(seed, part_idx * each + at, image);
                }
            });
        }
    });
    let labels = (0..n).map(|index| (index % CLASSES) as u32).collect();
    (pixels, labels)
}

/// Draws digit `index % 10` in the way that the seed and the index choose.
fn draw(seed: u64, index: usize, image: &mut [u8]) {
    let mut draws = Draws {
        seed,
        image: index as u32,
        next: 0,
    };
    let variants = variants(index % CLASSES);
    let strokes = variants[draws.between(0, variants.len() as i32 - 1) as usize];
    let style = Style::drawn(&mut draws);
    let mut canvas = Canvas::new(SIZE, SIZE);
    for stroke in strokes {
        let moved = stroke.points.iter().map(|&(x, y)| {
            // In sixteenths, so that small movements differ.
            let (dx, dy) = (draws.between(-96, 96), draws.between(-96, 96));
            style.place(16 * i32::from(x) + dx, 16 * i32::from(y) + dy)
        });
        canvas.stroke(&moved.collect::<Vec<_>>(), stroke.closed);
    }
    canvas.fill(style.radius, style.ink, image);
}

/// Draws a digit as it stands in a text, `height` pixels high and `width` wide: captions.
pub(crate) fn plain_digit(digit: usize, width: usize, height: usize) -> Vec<u8> {
    // A margin of an eighth above and below.
    let scale = (height as i32 * PIXEL * 3 / 4) * (1 << MAP_BITS) / (16 * HEIGHT);
    let style = Style {
        map: [scale, 0, 0, scale],
        centre: (width as i32 * PIXEL / 2, height as i32 * PIXEL / 2),
        radius: height as i32 * PIXEL / 20,
        ink: 255,
    };
    let mut canvas = Canvas::new(width, height);
    let strokes: &[Stroke] = variants(digit)[0];
    for stroke in strokes {
        let points = stroke.points.iter();
        let placed = points.map(|&(x, y)| style.place(16 * i32::from(x), 16 * i32::from(y)));
        canvas.stroke(&placed.collect::<Vec<_>>(), stroke.closed);
    }
    let mut image = vec![0; width * height];
    canvas.fill(style.radius, style.ink, &mut image);
    image
}

impl Style {
    /// Turns by up to 12 degrees, slants, scales by 0.76 to 1.02, narrows, shifts by up to 1.5 pixels.
    fn drawn(draws: &mut Draws) -> Self {
        // A digit of full size is 20 pixels high, as MNIST's are.
        let full = (20 * PIXEL) * (1 << MAP_BITS) / (16 * HEIGHT);
        let scale = full * draws.between(76, 102) / 100;
        let width_scale = scale * draws.between(70, 105) / 100;
        let rotation = draws.between(-210, 210);
        let slant = draws.between(-150, 350);
        let middle = SIZE as i32 * PIXEL / 2;
        Self {
            map: [
                width_scale,
                -(scale * (rotation + slant)) / 1000,
                width_scale * rotation / 1000,
                scale,
            ],
            centre: (
                middle + draws.between(-PIXEL * 3 / 2, PIXEL * 3 / 2),
                middle + draws.between(-PIXEL * 3 / 2, PIXEL * 3 / 2),
            ),
            radius: draws.between(PIXEL * 7 / 10, PIXEL * 8 / 5),
            ink: draws.between(180, 255) as u8,
        }
    }

    /// A point of a stroke, in sixteenths of its unit, on the canvas.
    fn place(&self, x: i32, y: i32) -> Point {
        let [xx, xy, yx, yy] = self.map;
        let (cx, cy) = self.centre;
        let (dx, dy) = (xx * x + xy * y, yx * x + yy * y);
        (cx + (dx >> MAP_BITS), cy + (dy >> MAP_BITS))
    }
}

/// The random numbers of one drawing, in order.
struct Draws {
    seed: u64,
    image: u32,
    next: u32,
}

impl Draws {
    /// A whole number from `low` to `high`, both included.
    fn between(&mut self, low: i32, high: i32) -> i32 {
        let [word, ..] = words(self.seed, DIGIT, self.image, self.next);
        self.next += 1;
        low + below(word, (high - low + 1) as u32) as i32
    }
}

#[cfg(test)]
mod tests {
    use hlx_core::digest::sha256_hex;

    use super::*;

    #[test]
    fn an_image_depends_on_seed_and_index_alone() {
        let (all, labels) = draw_digits(64, 9);
        let (few, _) = draw_digits(11, 9);
        assert_eq!(all[..few.len()], few);
        assert_eq!(labels[..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
        let image = |index: usize| &all[index * SIZE * SIZE..][..SIZE * SIZE];
        assert_ne!(image(0), image(10));
        assert_ne!(draw_digits(11, 10).0, few);
    }

    #[test]
    fn the_bits_are_those_of_every_machine() {
        let digest = sha256_hex(&draw_digits(1000, 1).0);
        assert_eq!(
            digest,
            "b9261dfb43054489aa92e9973d06f73f6bd2b51fe3983e95d7f74efef0fd13e0"
        );
    }

    #[test]
    fn every_image_has_ink_within_its_frame() {
        let (pixels, _) = draw_digits(2000, 4);
        for (index, image) in pixels.chunks(SIZE * SIZE).enumerate() {
            let ink: u32 = image.iter().map(|&pixel| u32::from(pixel)).sum();
            assert!((5_000..90_000).contains(&ink), "image {index} has {ink}");
            let edge = (0..SIZE).map(|at| image[at].max(image[at + SIZE * (SIZE - 1)]));
            assert!(edge.max().unwrap_or(0) < 255, "image {index} is cut");
        }
    }
}
