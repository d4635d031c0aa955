//! CIFAR-10's binary files: records of a label and 32 by 32 pixels, the red ones first, then green, then blue
//! (<https://www.cs.toronto.edu/~kriz/cifar.html>, "binary version").

use std::path::Path;

use hlx_core::files;

use crate::digits::SIZE;
use crate::random::{COLOUR, words};
use crate::{DataError, ImageSet, Result};

/// Height and width of an image.
const SIDE: usize = 32;
/// Bytes of a colour of an image.
const PLANE: usize = SIDE * SIDE;
/// Bytes of a record.
const RECORD: usize = 1 + 3 * PLANE;
const CLASSES: usize = 10;
/// The files of the training images, in their order.
const TRAINING: [&str; 5] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
];
const TEST: &str = "test_batch.bin";

impl ImageSet {
    /// Reads CIFAR-10's binary files of a folder, images of 3 x 32 x 32 of 10 classes: of the part `train` those of
    /// `data_batch_1.bin` to `data_batch_5.bin` that are there, of `test` those of `test_batch.bin`.
    ///
    /// # Errors
    /// [`DataError::File`] for a folder without such a file, a file whose length is not that of whole records, and a
    /// label above 9; [`DataError::Argument`] for another part.
    pub fn from_cifar10_folder(folder: &Path, part: &str) -> Result<Self> {
        let names: &[&str] = match part {
            "train" => &TRAINING,
            "test" => &[TEST],
            _ => {
                let reason = format!("part is {part:?}, expected train or test");
                return Err(DataError::argument("cifar10", reason));
            }
        };
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for path in names.iter().map(|name| folder.join(name)) {
            // A link to nowhere is there, too, and is not left out silently.
            if path.symlink_metadata().is_ok() {
                read_file(&path, &mut pixels, &mut labels)?;
            }
        }
        if labels.is_empty() {
            let last = names.last().unwrap_or(&TEST);
            let reason = match names.len() {
                1 => format!("holds no {last}"),
                _ => format!("holds none of {} to {last}", names[0]),
            };
            return Err(DataError::folder(folder, reason));
        }
        Self::new([3, SIDE, SIDE], CLASSES, pixels, labels)
            .map_err(|error| DataError::file(folder, error))
    }

    /// Draws `n` digits in colours on grounds of colours, 3 x 32 x 32 as CIFAR-10's images: for runs and tests without
    /// data. Image i shows the digit `i % 10` and depends on the seed and i alone.
    ///
    /// # Errors
    /// As [`ImageSet::drawn_digits`].
    pub fn drawn_coloured_digits(n: usize, seed: u64) -> Result<Self> {
        let digits = Self::drawn_digits(n, seed)?;
        let mut pixels = Vec::with_capacity(n * 3 * PLANE);
        for (index, digit) in digits.all_pixels().chunks_exact(SIZE * SIZE).enumerate() {
            let [ink, ground, ..] = words(seed, COLOUR, 0, index as u32);
            for channel in 0..3 {
                let colour = |word: u32| (word >> (8 * channel)) & 127;
                // The ink is brighter than the ground in every colour, so that a digit can be seen.
                let (low, high) = (colour(ground), colour(ink) + 128);
                pixels.extend((0..PLANE).map(|at| {
                    let grey = u32::from(grey_at(digit, at / SIDE, at % SIDE));
                    ((low * (255 - grey) + high * grey) / 255) as u8
                }));
            }
        }
        Self::new([3, SIDE, SIDE], CLASSES, pixels, digits.labels().to_vec())
    }
}

/// The pixel of a digit that lies in the middle of a larger, black image.
fn grey_at(digit: &[u8], row: usize, column: usize) -> u8 {
    let border = (SIDE - SIZE) / 2;
    let within = |at: usize| at.checked_sub(border).filter(|&at| at < SIZE);
    match (within(row), within(column)) {
        (Some(row), Some(column)) => digit[row * SIZE + column],
        _ => 0,
    }
}

fn read_file(path: &Path, pixels: &mut Vec<u8>, labels: &mut Vec<u32>) -> Result<()> {
    let bytes = files::read(path).map_err(|error| DataError::file(path, error))?;
    let (records, rest) = bytes.as_chunks::<RECORD>();
    if records.is_empty() || !rest.is_empty() {
        let n = bytes.len();
        let reason = format!("has {n} bytes, expected one or more records of {RECORD}");
        return Err(DataError::file(path, reason));
    }
    for (index, record) in records.iter().enumerate() {
        let label = record[0];
        if usize::from(label) >= CLASSES {
            let reason = format!("image {index} has the label {label}, expected 0 to 9");
            return Err(DataError::file(path, reason));
        }
        labels.push(label.into());
        pixels.extend_from_slice(&record[1..]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn records(set: &ImageSet, range: std::ops::Range<usize>) -> Vec<u8> {
        let record = |at: usize| {
            let label = [set.labels()[at] as u8];
            [&label[..], set.pixels(at).expect("an image")].concat()
        };
        range.flat_map(record).collect()
    }

    #[test]
    fn files_are_read_in_their_order_and_wrong_ones_have_a_line() -> Result<(), crate::BoxError> {
        let folder = std::env::temp_dir().join(format!("hlx-cifar-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let drawn = ImageSet::drawn_coloured_digits(12, 3)?;
        assert_eq!(drawn.shape(), [3, 32, 32]);
        fs::write(folder.join(TRAINING[0]), records(&drawn, 0..5))?;
        fs::write(folder.join(TRAINING[1]), records(&drawn, 5..12))?;
        fs::write(folder.join(TEST), records(&drawn, 0..12))?;
        for part in ["train", "test"] {
            let read = ImageSet::from_cifar10_folder(&folder, part)?;
            assert_eq!(read, drawn, "{part}");
        }
        let error = |part: &str| {
            let error = ImageSet::from_cifar10_folder(&folder, part).expect_err("is refused");
            error
                .to_string()
                .replace(&folder.display().to_string(), "DIR")
        };
        assert_eq!(
            error("t10k"),
            "cifar10: part is \"t10k\", expected train or test"
        );
        let whole = records(&drawn, 0..2);
        for (bytes, reason) in [
            (
                &whole[..RECORD + 1],
                "has 3074 bytes, expected one or more records of 3073",
            ),
            (&[], "has 0 bytes, expected one or more records of 3073"),
        ] {
            fs::write(folder.join(TEST), bytes)?;
            assert_eq!(error("test"), format!("DIR/test_batch.bin: {reason}"));
        }
        let mut wrong = whole;
        wrong[RECORD] = 10;
        fs::write(folder.join(TEST), wrong)?;
        let expected = "DIR/test_batch.bin: image 1 has the label 10, expected 0 to 9";
        assert_eq!(error("test"), expected);
        fs::remove_file(folder.join(TEST))?;
        assert_eq!(error("test"), "DIR: holds no test_batch.bin");
        for name in &TRAINING[..2] {
            fs::remove_file(folder.join(name))?;
        }
        let expected = "DIR: holds none of data_batch_1.bin to data_batch_5.bin";
        assert_eq!(error("train"), expected);
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", folder.join(TRAINING[1]))?;
            let found = error("train");
            assert!(found.starts_with("DIR/data_batch_2.bin: "), "{found}");
        }
        fs::remove_dir_all(&folder)?;
        assert_eq!(error("train"), "DIR: is not there");
        fs::write(&folder, [0])?;
        assert_eq!(error("train"), "DIR: is no folder");
        fs::remove_file(&folder)?;
        Ok(())
    }

    #[test]
    fn a_record_is_a_label_then_red_green_and_blue_rows_from_the_top() -> Result<(), crate::BoxError>
    {
        let folder = std::env::temp_dir().join(format!("hlx-cifar-record-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        // Written by hand: a red top left pixel, a green one to its right, a blue one below it, and all at the end.
        let mut record = vec![0_u8; 3073];
        record[0] = 7;
        record[1] = 200;
        record[1 + 1024 + 1] = 150;
        record[1 + 2048 + 32] = 100;
        record[3072] = 255;
        // The third file alone is there.
        fs::write(folder.join("data_batch_3.bin"), &record)?;
        let set = ImageSet::from_cifar10_folder(&folder, "train")?;
        assert_eq!((set.labels(), set.shape()), (&[7][..], [3, 32, 32]));
        let pixels = set.pixels(0).expect("an image");
        let at =
            |channel: usize, row: usize, column: usize| pixels[(channel * 32 + row) * 32 + column];
        assert_eq!([0, 1, 2].map(|channel| at(channel, 0, 0)), [200, 0, 0]);
        assert_eq!([0, 1, 2].map(|channel| at(channel, 0, 1)), [0, 150, 0]);
        assert_eq!([0, 1, 2].map(|channel| at(channel, 1, 0)), [0, 0, 100]);
        assert_eq!(at(2, 31, 31), 255);
        assert_eq!(pixels.iter().filter(|&&pixel| pixel != 0).count(), 4);
        // What looks like a file and is none has a line.
        fs::create_dir(folder.join(TEST))?;
        let error = ImageSet::from_cifar10_folder(&folder, "test").expect_err("is refused");
        let error = error.to_string();
        assert!(
            error.contains("test_batch.bin") && error.lines().count() == 1,
            "{error}"
        );
        fs::remove_dir_all(&folder)?;
        Ok(())
    }

    #[test]
    fn coloured_digits_depend_on_their_number_and_show_what_was_drawn() -> Result<()> {
        let (few, many) = (
            ImageSet::drawn_coloured_digits(3, 5)?,
            ImageSet::drawn_coloured_digits(20, 5)?,
        );
        let grey = ImageSet::drawn_digits(3, 5)?;
        for at in 0..3 {
            assert_eq!(few.pixels(at), many.pixels(at));
            let (colours, digit) = (few.pixels(at).expect("one"), grey.pixels(at).expect("one"));
            let brightest = |pixels: &[u8]| pixels.iter().max().copied().unwrap_or(0);
            let (low, high) = (colours[0], brightest(&colours[..PLANE]));
            assert!(high > low, "{low} {high}");
            // The corner is ground, and where the digit is white the image is brightest.
            let white = digit
                .iter()
                .position(|&pixel| pixel == brightest(digit))
                .expect("one");
            let place = (white / SIZE + 2) * SIDE + white % SIZE + 2;
            assert_eq!(colours[place], high);
        }
        Ok(())
    }
}
