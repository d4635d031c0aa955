//! Images of bytes to normalised floats, with a random crop, flip and noise.

use hlx_core::arith::{add, div, sub, uniform};
use hlx_core::cpu::with_flush;
use hlx_kernels::draw::draw_normal;

use crate::random::{AUGMENT, NOISE, below};
use crate::{BoxError, DataError, HostArray, Result, SampleKey, Transform};

/// How images of a training set are varied. Each epoch varies a sample anew, as seed, epoch and
/// sample say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Augment {
    /// Zeros put on every side, of which the image's own size is cropped at a drawn place: a shift by
    /// up to as many pixels. As `torchvision.transforms.RandomCrop(size, padding)`.
    pub crop_padding: usize,
    /// The probability that the image is flipped left to right, as `RandomHorizontalFlip(p)`.
    pub flip: f32,
    /// The standard deviation of the normal noise that is added to each normalised value.
    pub noise: f32,
}

/// Normalises images: `(x / 255 - mean) / std` by channel, each step rounded, as torchvision's
/// `ToTensor` and `Normalize`; and varies them ([`Augment`]): crop, flip, normalise, noise.
///
/// Takes samples `(HostArray<u8> [C, H, W], label)` and gives `(HostArray<f32> [C, H, W], label)`.
#[derive(Clone, Debug)]
pub struct ImageTransform {
    /// The value of each byte, by channel.
    tables: Vec<[f32; 256]>,
    augment: Augment,
}

impl ImageTransform {
    /// Normalises by these means and standard deviations, one of each a channel.
    ///
    /// # Errors
    /// [`DataError::Argument`] unless there are as many means as deviations, at least one, all finite,
    /// and no deviation is 0.
    pub fn new(mean: &[f32], std: &[f32]) -> Result<Self> {
        let finite = mean.iter().chain(std).all(|value| value.is_finite());
        let usable = finite && !mean.is_empty() && std.iter().all(|&std| std != 0.0);
        if mean.len() != std.len() || !usable {
            let reason =
                format!("mean is {mean:?} and std {std:?}, expected finite values of each");
            let reason = format!("{reason} channel, and no std of 0");
            return Err(DataError::argument("image_transform", reason));
        }
        let channels = mean.iter().zip(std);
        let tables = channels.map(|(&mean, &std)| table(mean, std)).collect();
        Ok(Self {
            tables,
            augment: Augment::default(),
        })
    }

    /// The same with augmentation.
    ///
    /// # Errors
    /// [`DataError::Argument`] for a probability outside of [0, 1] or a noise below 0.
    pub fn with_augment(mut self, augment: Augment) -> Result<Self> {
        let wrong = |reason| Err(DataError::argument("augment", reason));
        if !(0.0..=1.0).contains(&augment.flip) {
            return wrong(format!("flip is {}, expected from 0 to 1", augment.flip));
        }
        if !(augment.noise >= 0.0 && augment.noise.is_finite()) {
            return wrong(format!("noise is {}, expected at least 0", augment.noise));
        }
        if augment.crop_padding > 1 << 16 {
            let padding = augment.crop_padding;
            return wrong(format!("crop_padding is {padding}, expected at most 65536"));
        }
        self.augment = augment;
        Ok(self)
    }

    /// The values of an image, cropped and flipped as drawn.
    fn values(&self, shape: [usize; 3], pixels: &[u8], view: View) -> Vec<f32> {
        let [_, height, width] = shape;
        let mut values = Vec::with_capacity(pixels.len());
        for (table, plane) in self.tables.iter().zip(pixels.chunks_exact(height * width)) {
            for y in 0..height {
                let row = view.source(y, view.down, height);
                let row = row.map(|row| &plane[row * width..][..width]);
                values.extend((0..width).map(|x| {
                    let x = if view.flipped { width - 1 - x } else { x };
                    let column = view.source(x, view.right, width);
                    let pixel = row.zip(column).map_or(0, |(row, column)| row[column]);
                    table[usize::from(pixel)]
                }));
            }
        }
        values
    }

    fn add_noise(&self, values: &mut [f32], key: SampleKey) {
        let [first, second, ..] = key.words(NOISE, 0);
        let mut noise = vec![0.0; values.len()];
        with_flush(|| {
            draw_normal([first, second], NOISE, self.augment.noise, 0, &mut noise);
            for (value, noise) in values.iter_mut().zip(&noise) {
                *value = add(*value, *noise);
            }
        });
    }
}

/// Which part of a padded image is taken, and whether it is flipped.
#[derive(Clone, Copy)]
struct View {
    padding: usize,
    /// Where the crop begins in the padded image.
    down: usize,
    right: usize,
    flipped: bool,
}

impl View {
    fn drawn(augment: &Augment, key: SampleKey) -> Self {
        let [down, right, flipped, _] = key.words(AUGMENT, 0);
        let places = 2 * augment.crop_padding as u32 + 1;
        Self {
            padding: augment.crop_padding,
            down: below(down, places) as usize,
            right: below(right, places) as usize,
            flipped: uniform(flipped) < augment.flip,
        }
    }

    /// The place in the image that a place of the crop has; `None` in the padding.
    fn source(&self, place: usize, start: usize, extent: usize) -> Option<usize> {
        let source = (place + start).checked_sub(self.padding);
        source.filter(|&source| source < extent)
    }
}

impl Transform<(HostArray<u8>, u32)> for ImageTransform {
    type Output = (HostArray<f32>, u32);

    fn apply(
        &self,
        sample: (HostArray<u8>, u32),
        key: SampleKey,
    ) -> Result<Self::Output, BoxError> {
        let (image, label) = sample;
        let n_channels = self.tables.len();
        let [channels, height, width] = *image.shape() else {
            let found = image.shape();
            return Err(format!("the image has shape {found:?}, expected [C, H, W]").into());
        };
        if channels != n_channels {
            let found = format!("the image has {channels} channels");
            return Err(format!("{found}, expected {n_channels}, one a mean").into());
        }
        let shape = [channels, height, width];
        let view = View::drawn(&self.augment, key);
        let mut values = self.values(shape, image.values(), view);
        if self.augment.noise > 0.0 {
            self.add_noise(&mut values, key);
        }
        Ok((HostArray::new(&shape, values)?, label))
    }
}

/// `(x / 255 - mean) / std` of every byte.
fn table(mean: f32, std: f32) -> [f32; 256] {
    with_flush(|| std::array::from_fn(|byte| div(sub(div(byte as f32, 255.0), mean), std)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SampleKey = SampleKey {
        seed: 1,
        epoch: 0,
        sample: 5,
    };

    fn image(shape: [usize; 3]) -> (HostArray<u8>, u32) {
        let n = shape.iter().product::<usize>();
        let pixels = (0..n).map(|at| (at * 37 + 11) as u8).collect();
        (HostArray::new(&shape, pixels).expect("fits"), 4)
    }

    fn augmented(augment: Augment) -> ImageTransform {
        let plain = ImageTransform::new(&[0.5], &[0.25]).expect("usable");
        plain.with_augment(augment).expect("usable")
    }

    #[test]
    fn channels_are_normalised_by_their_own_mean_and_deviation() -> Result<(), BoxError> {
        let (mean, std) = ([0.1307, 0.5], [0.3081, 2.0]);
        let transform = ImageTransform::new(&mean, &std)?;
        let given = image([2, 3, 4]);
        let (values, label) = transform.apply(given.clone(), KEY)?;
        assert_eq!((values.shape(), label), (&[2, 3, 4][..], 4));
        for (at, (value, byte)) in values.values().iter().zip(given.0.values()).enumerate() {
            let expected = (f32::from(*byte) / 255.0 - mean[at / 12]) / std[at / 12];
            assert_eq!(value.to_bits(), expected.to_bits());
        }
        Ok(())
    }

    #[test]
    fn crops_take_every_shift_and_fill_with_black() -> Result<(), BoxError> {
        let transform = augmented(Augment {
            crop_padding: 2,
            ..Augment::default()
        });
        let black = transform.tables[0][0];
        let given = image([1, 5, 6]);
        let value = |y: i32, x: i32| match (0..5).contains(&y) && (0..6).contains(&x) {
            true => transform.tables[0][usize::from(given.0.values()[(6 * y + x) as usize])],
            false => black,
        };
        let mut seen = std::collections::BTreeSet::new();
        for sample in 0..300 {
            let (found, _) = transform.apply(given.clone(), SampleKey { sample, ..KEY })?;
            let shifts = (-2..=2).flat_map(|down| (-2..=2).map(move |right| (down, right)));
            let shift = shifts.into_iter().find(|(down, right)| {
                let places = (0..5).flat_map(|y| (0..6).map(move |x| (y, x)));
                let expected = places.map(|(y, x)| value(y + down, x + right));
                found.values().iter().copied().eq(expected)
            });
            seen.insert(shift.ok_or("no shift of the image")?);
        }
        assert_eq!(seen.len(), 25);
        Ok(())
    }

    #[test]
    fn flips_come_as_often_as_stated() -> Result<(), BoxError> {
        let plain = augmented(Augment::default())
            .apply(image([1, 2, 5]), KEY)?
            .0;
        let rows = plain.values().chunks(5);
        let mirrored: Vec<f32> = rows.flat_map(|row| row.iter().rev().copied()).collect();
        let transform = augmented(Augment {
            flip: 0.25,
            ..Augment::default()
        });
        let mut flips = 0;
        for epoch in 0..2000 {
            let found = transform
                .apply(image([1, 2, 5]), SampleKey { epoch, ..KEY })?
                .0;
            assert!(found == plain || found.values() == mirrored);
            flips += u32::from(found.values() == mirrored);
        }
        assert!((430..570).contains(&flips), "{flips} of 2,000");
        Ok(())
    }

    #[test]
    fn noise_is_normal_and_keyed_by_the_sample() -> Result<(), BoxError> {
        let transform = augmented(Augment {
            noise: 0.5,
            ..Augment::default()
        });
        let plain = augmented(Augment::default())
            .apply(image([1, 100, 100]), KEY)?
            .0;
        let noisy = transform.apply(image([1, 100, 100]), KEY)?.0;
        assert_eq!(noisy, transform.apply(image([1, 100, 100]), KEY)?.0);
        let other = transform.apply(image([1, 100, 100]), SampleKey { epoch: 1, ..KEY })?;
        assert_ne!(noisy, other.0);
        let pairs = noisy.values().iter().zip(plain.values());
        let noise: Vec<f64> = pairs.map(|(a, b)| f64::from(a - b)).collect();
        let mean = noise.iter().sum::<f64>() / 1e4;
        let deviation = (noise.iter().map(|x| x * x).sum::<f64>() / 1e4).sqrt();
        assert!(
            mean.abs() < 0.02 && (deviation - 0.5).abs() < 0.02,
            "{mean} {deviation}"
        );
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let message = |result: Result<ImageTransform>| result.expect_err("unusable").to_string();
        let uneven = message(ImageTransform::new(&[0.5, 0.5], &[0.25]));
        assert!(uneven.starts_with("image_transform: mean is [0.5, 0.5] and std [0.25]"));
        assert!(message(ImageTransform::new(&[0.5], &[0.0])).ends_with("no std of 0"));
        let plain = || ImageTransform::new(&[0.5], &[1.0]).expect("usable");
        let flip = Augment {
            flip: 1.5,
            ..Augment::default()
        };
        let found = message(plain().with_augment(flip));
        assert_eq!(found, "augment: flip is 1.5, expected from 0 to 1");
        let noise = Augment {
            noise: f32::NAN,
            ..Augment::default()
        };
        let found = message(plain().with_augment(noise));
        assert_eq!(found, "augment: noise is NaN, expected at least 0");
        let error = plain().apply(image([3, 2, 2]), KEY).expect_err("colours");
        assert_eq!(
            error.to_string(),
            "the image has 3 channels, expected 1, one a mean"
        );
    }
}
