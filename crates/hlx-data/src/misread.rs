//! A picture of misread images, each with its true label and the one that was read, as PNG.

use png::{BitDepth, ColorType, Encoder, EncodingError};

use crate::digits::plain_digit;
use crate::{ConfusionMatrix, DataError, ImageSet, Result};

/// An image that was read as another class than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misread {
    /// Its index in the set.
    pub index: usize,
    /// Its class.
    pub truth: u32,
    /// The class that was read.
    pub read: u32,
}

/// What a model made of images: the counts, and which images it misread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReport {
    /// How often an image of one class was read as another.
    pub matrix: ConfusionMatrix,
    /// The images misread, in the order in which they were read.
    pub misread: Vec<Misread>,
}

impl ImageReport {
    /// Compares the classes that were read of some images of a set with their labels.
    ///
    /// # Errors
    /// [`DataError::Argument`] for another number of classes read than of images, an index that the
    /// set does not have, or a class that there is not.
    pub fn new(set: &ImageSet, indices: &[usize], read: &[u32]) -> Result<Self> {
        let wrong = |reason| Err(DataError::argument("image_report", reason));
        if indices.len() != read.len() {
            let (n, found) = (indices.len(), read.len());
            return wrong(format!("{found} classes were read of {n} images"));
        }
        let mut report = Self {
            matrix: ConfusionMatrix::new(set.n_classes()),
            misread: Vec::new(),
        };
        for (&index, &read) in indices.iter().zip(read) {
            let Some(&truth) = set.labels().get(index) else {
                let n = set.len();
                let reason = format!("the index {index} is out of range: the set has {n} images");
                return wrong(reason);
            };
            report.matrix.add(truth, read)?;
            if truth != read {
                report.misread.push(Misread { index, truth, read });
            }
        }
        Ok(report)
    }
}

/// Images in a row.
const COLUMNS: usize = 12;
/// Small images are enlarged to at least this height.
const LEAST_HEIGHT: usize = 56;
/// The height of a label, and the width of one of its digits.
const LABEL: (usize, usize) = (20, 14);
/// Pixels between cells.
const GAP: usize = 8;

/// Red, green, blue.
type Colour = [u8; 3];
const PAPER: Colour = [255; 3];
const TRUE_COLOUR: Colour = [22, 128, 61];
const READ_COLOUR: Colour = [200, 30, 30];

/// Draws the images in rows of 12. Below each stand its true label on the left, in green, and the
/// label that was read on the right, in red. Sets of one channel are shown grey, of three in colour.
/// Without images the picture is an empty row.
///
/// # Errors
/// [`DataError::Argument`] for an index that the set does not have, or for other numbers of channels.
pub fn misread_png(set: &ImageSet, misread: &[Misread]) -> Result<Vec<u8>> {
    let wrong = |reason| Err(DataError::argument("misread_png", reason));
    let [channels, height, width] = set.shape();
    if channels != 1 && channels != 3 {
        return wrong(format!("images have {channels} channels, expected 1 or 3"));
    }
    let scale = LEAST_HEIGHT.div_ceil(height);
    let cell = (scale * width + GAP, scale * height + LABEL.0 + GAP);
    let n_rows = misread.len().div_ceil(COLUMNS).max(1);
    let mut picture = Picture::new(COLUMNS * cell.0 + GAP, n_rows * cell.1 + GAP);
    for (at, image) in misread.iter().enumerate() {
        let (x, y) = (GAP + at % COLUMNS * cell.0, GAP + at / COLUMNS * cell.1);
        let Some(pixels) = set.pixels(image.index) else {
            let n = set.len();
            return wrong(format!(
                "the index {} is out of range: the set has {n} images",
                image.index
            ));
        };
        picture.image((x, y), pixels, (width, height), scale);
        let below = y + scale * height;
        picture.number(x, below, image.truth, TRUE_COLOUR);
        let digits = image.read.to_string().len();
        let right = (x + scale * width).saturating_sub(digits * LABEL.1);
        picture.number(right, below, image.read, READ_COLOUR);
    }
    let encoded = picture.encode();
    encoded.or_else(|error| wrong(format!("the picture cannot be encoded: {error}")))
}

/// An RGB picture.
struct Picture {
    width: usize,
    pixels: Vec<Colour>,
}

impl Picture {
    fn new(width: usize, height: usize) -> Self {
        let pixels = vec![PAPER; width * height];
        Self { width, pixels }
    }

    /// Sets a pixel; what lies outside is left out.
    fn set(&mut self, x: usize, y: usize, colour: Colour) {
        if x < self.width
            && let Some(pixel) = self.pixels.get_mut(y * self.width + x)
        {
            *pixel = colour;
        }
    }

    /// Puts an image \[C, H, W\] with its upper left corner at a place.
    fn image(
        &mut self,
        (left, top): (usize, usize),
        pixels: &[u8],
        (width, height): (usize, usize),
        scale: usize,
    ) {
        let plane = width * height;
        for y in 0..scale * height {
            for x in 0..scale * width {
                let at = y / scale * width + x / scale;
                let channel = |channel: usize| pixels[(channel * plane + at) % pixels.len()];
                let colour = [channel(0), channel(1), channel(2)];
                self.set(left + x, top + y, colour);
            }
        }
    }

    /// Writes a number.
    fn number(&mut self, left: usize, top: usize, number: u32, colour: Colour) {
        let (height, width) = LABEL;
        for (place, digit) in number.to_string().bytes().enumerate() {
            let cover = plain_digit(usize::from(digit - b'0'), width, height);
            for (at, &cover) in cover.iter().enumerate() {
                let mix = |paper: u8, ink: u8| {
                    let (paper, ink, cover) = (u32::from(paper), u32::from(ink), u32::from(cover));
                    ((paper * (255 - cover) + ink * cover) / 255) as u8
                };
                let mixed = std::array::from_fn(|channel| mix(PAPER[channel], colour[channel]));
                let x = left + place * width + at % width;
                self.set(x, top + at / width, mixed);
            }
        }
    }

    fn encode(&self) -> Result<Vec<u8>, EncodingError> {
        let (width, height) = (self.width as u32, (self.pixels.len() / self.width) as u32);
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, width, height);
        encoder.set_color(ColorType::Rgb);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(self.pixels.as_flattened())?;
        writer.finish()?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size and the RGB bytes of a PNG.
    fn decode(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
        let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        let mut reader = decoder.read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut pixels).expect("pixels");
        (info.width as usize, info.height as usize, pixels)
    }

    #[test]
    fn images_stand_over_their_labels() -> Result<()> {
        let set = ImageSet::drawn_digits(30, 2)?;
        let misread: Vec<Misread> = (0..13)
            .map(|index| Misread {
                index,
                truth: (index % 10) as u32,
                read: 7,
            })
            .collect();
        let (width, height, pixels) = decode(&misread_png(&set, &misread)?);
        assert_eq!((width, height), (12 * 64 + 8, 2 * 84 + 8));
        let at = |x: usize, y: usize| &pixels[3 * (y * width + x)..][..3];
        let fourth = set.pixels(3).expect("an image");
        for (place, &grey) in fourth.iter().enumerate() {
            let (x, y) = (8 + 3 * 64 + 2 * (place % 28), 8 + 2 * (place / 28));
            assert_eq!(at(x, y), [grey; 3]);
        }
        // A label's digit: green on the left, red on the right.
        let inked = |left: usize, colour: Colour| {
            let places = (0..14).flat_map(|x| (0..20).map(move |y| (left + x, 8 + 56 + y)));
            places
                .into_iter()
                .filter(|&(x, y)| at(x, y) == colour)
                .count()
        };
        assert!(inked(8, TRUE_COLOUR) > 5 && inked(8, READ_COLOUR) == 0);
        assert!(inked(8 + 42, READ_COLOUR) > 5 && inked(8 + 42, TRUE_COLOUR) == 0);
        Ok(())
    }

    #[test]
    fn a_report_counts_and_names_the_misread() -> Result<()> {
        let set = ImageSet::drawn_digits(20, 1)?;
        let report = ImageReport::new(&set, &[3, 14, 5], &[3, 9, 5])?;
        let expected = Misread {
            index: 14,
            truth: 4,
            read: 9,
        };
        assert_eq!(report.misread, [expected]);
        assert_eq!((report.matrix.correct(), report.matrix.count(4, 9)), (2, 1));
        let message = |indices: &[usize], read: &[u32]| {
            let report = ImageReport::new(&set, indices, read);
            report.expect_err("does not fit").to_string()
        };
        assert_eq!(
            message(&[1], &[]),
            "image_report: 0 classes were read of 1 images"
        );
        let expected = "image_report: the index 20 is out of range: the set has 20 images";
        assert_eq!(message(&[20], &[0]), expected);
        let expected = "confusion_matrix: the read class is 10, expected below 10";
        assert_eq!(message(&[1], &[10]), expected);
        Ok(())
    }

    #[test]
    fn colours_are_shown_and_other_channels_refused() -> Result<()> {
        let pixels = [vec![10; 16], vec![20; 16], vec![30; 16]].concat();
        let set = ImageSet::new([3, 4, 4], 1, pixels, vec![0])?;
        let one = Misread {
            index: 0,
            truth: 0,
            read: 12,
        };
        let (width, _, found) = decode(&misread_png(&set, &[one])?);
        assert_eq!(found[3 * (8 * width + 8)..][..3], [10, 20, 30]);
        let beyond = Misread { index: 1, ..one };
        let error = misread_png(&set, &[beyond]).expect_err("one image");
        let expected = "misread_png: the index 1 is out of range: the set has 1 images";
        assert_eq!(error.to_string(), expected);
        let two = ImageSet::new([2, 1, 1], 1, vec![0; 2], vec![0])?;
        let error = misread_png(&two, &[one]).expect_err("two channels");
        assert_eq!(
            error.to_string(),
            "misread_png: images have 2 channels, expected 1 or 3"
        );
        assert!(decode(&misread_png(&set, &[])?).1 > 0);
        Ok(())
    }
}
