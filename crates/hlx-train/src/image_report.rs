//! What a classifier makes of images at the end of a run: the confusion matrix as a text, and the
//! misread images as a picture.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::files::write_atomically;
use hlx_data::{ImageReport, misread_png};

use crate::data::Split;
use crate::task::ImageTask;

/// The confusion matrix's file in a run folder.
pub const CONFUSION_FILE: &str = "confusion.txt";
/// The picture's file in a run folder.
pub const MISREAD_FILE: &str = "misread.png";

/// Images read at a time; no bit depends on it.
const BATCH: usize = 64;
/// Images in the picture at most: twenty rows.
const MAX_SHOWN: usize = 240;

/// The images that a report is of: those held out, or, where none is, those trained on.
pub fn reported(split: &Split) -> &[usize] {
    match split.eval.is_empty() {
        true => &split.train,
        false => &split.eval,
    }
}

/// Classifies images and compares the classes with their labels.
///
/// # Errors
/// What the device reports.
pub fn report_images(task: &ImageTask, samples: &[usize]) -> Result<ImageReport> {
    let readings = task.read(samples, BATCH)?;
    let read: Vec<u32> = readings.iter().map(|reading| reading.read).collect();
    Ok(ImageReport::new(&task.data.set, samples, &read)?)
}

/// Writes the matrix and the picture into a folder, and returns their paths. Of more than 240 misread
/// images the first 240 are shown.
///
/// # Errors
/// The system's message with the file.
pub fn write_report(folder: &Path, task: &ImageTask, report: &ImageReport) -> Result<[PathBuf; 2]> {
    let matrix = folder.join(CONFUSION_FILE);
    write(&matrix, report.matrix.to_string().as_bytes())?;
    let picture = folder.join(MISREAD_FILE);
    write_picture(&picture, task, report)?;
    Ok([matrix, picture])
}

/// Writes the picture alone.
///
/// # Errors
/// The system's message with the file.
pub fn write_picture(path: &Path, task: &ImageTask, report: &ImageReport) -> Result<()> {
    let shown = &report.misread[..report.misread.len().min(MAX_SHOWN)];
    write(path, &misread_png(&task.data.set, shown)?)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, bytes).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use hlx_data::ImageSet;
    use hlx_nn::{Classifier, Model};

    use super::*;
    use crate::config::Config;

    const CONFIG: &str = "[model]\nkind = \"mlp\"\nhidden = [8]\n\
                          [data]\nformat = \"digits\"\ncount = 50\n[train]\nepochs = 1\n";

    #[test]
    fn a_report_is_of_every_image_and_lies_in_the_folder() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let config = Config::parse(CONFIG, "test", &[])?;
        let set = ImageSet::drawn_digits(50, 3)?;
        let sizes = config.classifier(set.shape(), set.n_classes())?;
        let model = Model::new(&device, 1, |b| Classifier::new(b, &sizes))?;
        let task = ImageTask::new(model, set.into(), &config)?;
        let samples: Vec<usize> = (10..50).collect();
        let report = report_images(&task, &samples)?;
        assert_eq!(report.matrix.total(), 40);
        assert_eq!(report.matrix.correct() + report.misread.len() as u64, 40);
        assert!(
            report
                .misread
                .iter()
                .all(|one| samples.contains(&one.index))
        );
        let folder = std::env::temp_dir().join(format!("hlx-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let [matrix, picture] = write_report(&folder, &task, &report)?;
        assert_eq!(std::fs::read_to_string(matrix)?, report.matrix.to_string());
        assert!(std::fs::read(picture)?.starts_with(b"\x89PNG"));
        Ok(std::fs::remove_dir_all(&folder)?)
    }

    #[test]
    fn the_images_held_out_are_reported_or_else_those_trained_on() {
        let mut split = Split {
            train: vec![0, 1],
            eval: vec![2],
        };
        assert_eq!(reported(&split), [2]);
        split.eval.clear();
        assert_eq!(reported(&split), [0, 1]);
    }
}
