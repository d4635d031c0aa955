//! Labelled images of 8 bits in memory: MNIST and its kin, or drawn digits.

use std::path::{Path, PathBuf};

use hlx_core::digest::sha256_hex;
use hlx_core::sizes;

use crate::digits::{CLASSES, SIZE, draw_digits};
use crate::idx::{IdxValues, read_idx};
use crate::{BoxError, DataError, Dataset, HostArray, Result};

/// The most digits that are drawn: 3 GB of pixels.
const MOST_DIGITS: usize = 1 << 22;

/// Images of one size, each with the number of its class. A sample is the pixels \[C, H, W\] and the
/// label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    /// Channels, height, width.
    shape: [usize; 3],
    n_classes: usize,
    pixels: Vec<u8>,
    labels: Vec<u32>,
}

impl ImageSet {
    /// Takes pixels \[N, C, H, W\] in row-major order and N labels below `n_classes`.
    ///
    /// # Errors
    /// [`DataError::Argument`] if the numbers do not fit, or an image has no pixel.
    pub fn new(
        shape: [usize; 3],
        n_classes: usize,
        pixels: Vec<u8>,
        labels: Vec<u32>,
    ) -> Result<Self> {
        let wrong = |reason| Err(DataError::argument("image_set", reason));
        let Some(size) = sizes::checked_elements(&shape) else {
            return wrong(format!(
                "images have shape {shape:?}, which no memory holds"
            ));
        };
        if size == 0 {
            return wrong(format!(
                "images have shape {shape:?}, expected at least one pixel"
            ));
        }
        if Some(pixels.len()) != sizes::checked_product([labels.len(), size]) {
            let (n_pixels, n) = (pixels.len(), labels.len());
            return wrong(format!(
                "{n_pixels} pixels are not those of {n} images {shape:?}"
            ));
        }
        if let Some(index) = labels.iter().position(|&label| label as usize >= n_classes) {
            let label = labels[index];
            return wrong(format!(
                "image {index} has the label {label} of {n_classes} classes"
            ));
        }
        Ok(Self {
            shape,
            n_classes,
            pixels,
            labels,
        })
    }

    /// Draws `n` digits, 28 by 28, white on black: for runs and tests without data. Image i shows the
    /// digit `i % 10` and depends on the seed and i alone. They are drawn with integers, so that their
    /// bits are the same on every machine.
    ///
    /// # Errors
    /// [`DataError::Argument`] for more than 4 million images.
    pub fn drawn_digits(n: usize, seed: u64) -> Result<Self> {
        if n > MOST_DIGITS {
            let reason = format!("{n} images, expected at most {MOST_DIGITS}");
            return Err(DataError::argument("drawn_digits", reason));
        }
        let (pixels, labels) = draw_digits(n, seed);
        Self::new([1, SIZE, SIZE], CLASSES, pixels, labels)
    }

    /// Reads an IDX file of images (u8; \[N, H, W\] or \[N, C, H, W\]) and one of labels (u8, \[N\]). There
    /// are as many classes as the largest label says.
    ///
    /// # Errors
    /// [`DataError::File`] if a file cannot be read or does not fit the other.
    pub fn from_idx(images: &Path, labels: &Path) -> Result<Self> {
        let (pixels, labels_found) = (read_idx(images)?, read_idx(labels)?);
        let shape = match *pixels.shape() {
            [_, height, width] => [1, height, width],
            [_, channels, height, width] => [channels, height, width],
            ref other => {
                let reason = format!("has shape {other:?}, expected [N, H, W] or [N, C, H, W]");
                return Err(DataError::file(images, reason));
            }
        };
        let n = pixels.shape()[0];
        if *labels_found.shape() != [n] {
            let found = labels_found.shape();
            let of = images.display();
            let reason = format!("has shape {found:?}, expected [{n}], as {of} has {n} images");
            return Err(DataError::file(labels, reason));
        }
        let pixels = bytes(pixels.into_values(), images)?;
        let labels_found = bytes(labels_found.into_values(), labels)?;
        let n_classes = labels_found
            .iter()
            .max()
            .map_or(0, |&last| usize::from(last) + 1);
        let found = labels_found.into_iter().map(u32::from).collect();
        Self::new(shape, n_classes, pixels, found).map_err(|error| DataError::file(images, error))
    }

    /// Reads MNIST's files of a folder: `PART-images-idx3-ubyte` and `PART-labels-idx1-ubyte`, each
    /// plain or with the ending `.gz`; the parts of MNIST are `train` and `t10k`.
    ///
    /// # Errors
    /// As [`ImageSet::from_idx`].
    pub fn from_idx_folder(folder: &Path, part: &str) -> Result<Self> {
        let images = idx_file(folder, &format!("{part}-images-idx3-ubyte"))?;
        let labels = idx_file(folder, &format!("{part}-labels-idx1-ubyte"))?;
        Self::from_idx(&images, &labels)
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Channels, height, width.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// The number of classes.
    pub fn n_classes(&self) -> usize {
        self.n_classes
    }

    /// The labels in order.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// All pixels, \[N, C, H, W\].
    pub fn all_pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The pixels of an image, \[C, H, W\]; `None` after the last one.
    pub fn pixels(&self, index: usize) -> Option<&[u8]> {
        let size: usize = self.shape.iter().product();
        self.pixels.chunks_exact(size).nth(index)
    }

    /// SHA-256 over shape, labels and pixels: of the content, however the files are packed.
    pub fn digest(&self) -> String {
        let [channels, height, width] = self.shape;
        let n = self.len();
        let mut bytes = format!("HLX images: {n} {channels} {height} {width}\n").into_bytes();
        bytes.extend(self.labels.iter().flat_map(|label| label.to_le_bytes()));
        bytes.extend(&self.pixels);
        sha256_hex(&bytes)
    }
}

impl Dataset for ImageSet {
    type Item = (HostArray<u8>, u32);

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn get(&self, index: usize) -> Result<Self::Item, BoxError> {
        let Some(pixels) = self.pixels(index) else {
            return Err(format!("the set has {} images", self.labels.len()).into());
        };
        let image = HostArray::new(&self.shape, pixels.to_vec())?;
        Ok((image, self.labels[index]))
    }
}

fn bytes(values: IdxValues, path: &Path) -> Result<Vec<u8>> {
    match values {
        IdxValues::U8(bytes) => Ok(bytes),
        other => {
            let reason = format!("has elements of {}, expected u8", other.type_name());
            Err(DataError::file(path, reason))
        }
    }
}

/// The file of this name, or of this name with the ending `.gz`.
fn idx_file(folder: &Path, name: &str) -> Result<PathBuf> {
    let names = [name.to_owned(), format!("{name}.gz")];
    let mut paths = names.map(|name| folder.join(name)).into_iter();
    paths.find(|path| path.is_file()).ok_or_else(|| {
        let reason = format!("holds neither {name} nor {name}.gz");
        DataError::folder(folder, reason)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{IdxArray, write_idx};

    #[test]
    fn images_whose_pixels_wrap_are_refused() {
        // 3 x 0xaaaa_aaaa_aaaa_aaab is 1 in 64 bits, and 2^32 x 2^32 is 0.
        for shape in [[3, 0xaaaa_aaaa_aaaa_aaab, 1], [1 << 32, 1 << 32, 1]] {
            let set = ImageSet::new(shape, 10, vec![7], vec![0]);
            let line = set.expect_err("no memory holds it").to_string();
            assert!(line.ends_with("which no memory holds"), "{line}");
        }
    }

    #[test]
    fn a_folder_of_idx_files_is_a_set() -> Result<(), BoxError> {
        let folder = std::env::temp_dir().join(format!("hlx-data-set-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let drawn = ImageSet::drawn_digits(20, 3)?;
        let images = IdxValues::U8(drawn.all_pixels().to_vec());
        let images = IdxArray::new(&[20, 28, 28], images)?;
        let labels: Vec<u8> = drawn.labels().iter().map(|&label| label as u8).collect();
        write_idx(&folder.join("train-images-idx3-ubyte.gz"), &images)?;
        let path = folder.join("train-labels-idx1-ubyte");
        write_idx(&path, &IdxArray::new(&[20], IdxValues::U8(labels.clone()))?)?;
        let read = ImageSet::from_idx_folder(&folder, "train")?;
        assert_eq!(read, drawn);
        assert_eq!(read.digest(), drawn.digest());
        let (image, label) = read.get(13)?;
        assert_eq!((image.shape(), label), (&[1, 28, 28][..], 3));
        assert_eq!(Some(image.values()), drawn.pixels(13));
        let of = |error: DataError| {
            error
                .to_string()
                .replace(&folder.display().to_string(), "DIR")
        };
        write_idx(
            &path,
            &IdxArray::new(&[19], IdxValues::U8(labels[1..].to_vec()))?,
        )?;
        let error = of(ImageSet::from_idx_folder(&folder, "train").expect_err("19 labels"));
        let expected = "DIR/train-labels-idx1-ubyte: has shape [19], expected [20], as \
                        DIR/train-images-idx3-ubyte.gz has 20 images";
        assert_eq!(error, expected);
        write_idx(&path, &IdxArray::new(&[20], IdxValues::I16(vec![0; 20]))?)?;
        let error = of(ImageSet::from_idx_folder(&folder, "train").expect_err("i16"));
        assert_eq!(
            error,
            "DIR/train-labels-idx1-ubyte: has elements of i16, expected u8"
        );
        let error = of(ImageSet::from_idx_folder(&folder, "t10k").expect_err("no file"));
        let expected = "DIR: holds neither t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte.gz";
        assert_eq!(error, expected);
        fs::remove_dir_all(&folder)?;
        Ok(())
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let message = |shape, n_classes, n_pixels, labels| {
            let set = ImageSet::new(shape, n_classes, vec![0; n_pixels], labels);
            set.expect_err("does not fit").to_string()
        };
        assert_eq!(
            message([1, 2, 2], 3, 7, vec![0, 1]),
            "image_set: 7 pixels are not those of 2 images [1, 2, 2]"
        );
        assert_eq!(
            message([1, 2, 2], 3, 8, vec![0, 3]),
            "image_set: image 1 has the label 3 of 3 classes"
        );
        assert_eq!(
            message([1, 0, 2], 3, 0, vec![]),
            "image_set: images have shape [1, 0, 2], expected at least one pixel"
        );
    }

    #[test]
    fn the_digest_depends_on_every_part() -> Result<()> {
        let set = |shape, pixels, labels| ImageSet::new(shape, 2, pixels, labels);
        let first = set([1, 2, 1], vec![1, 2, 3, 4], vec![0, 1])?.digest();
        let others = [
            set([1, 1, 2], vec![1, 2, 3, 4], vec![0, 1])?,
            set([1, 2, 1], vec![1, 2, 3, 5], vec![0, 1])?,
            set([1, 2, 1], vec![1, 2, 3, 4], vec![1, 1])?,
        ];
        assert!(others.iter().all(|other| other.digest() != first));
        Ok(())
    }
}
