//! The confusion matrix: how often an image of one class was read as another.

use std::fmt;

use crate::{DataError, Result};

/// Counts of classes read, by true class. `Display` gives a table with the recall of each class, the
/// precision of each, and the accuracy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfusionMatrix {
    n_classes: usize,
    /// Row: the true class; column: the class read.
    counts: Vec<u64>,
}

impl ConfusionMatrix {
    /// Starts with zeros.
    pub fn new(n_classes: usize) -> Self {
        Self {
            n_classes,
            counts: vec![0; n_classes * n_classes],
        }
    }

    /// Counts one sample.
    ///
    /// # Errors
    /// [`DataError::Argument`] for a class that there is not.
    pub fn add(&mut self, truth: u32, read: u32) -> Result<()> {
        let n = self.n_classes;
        for (what, class) in [("true", truth), ("read", read)] {
            if class as usize >= n {
                let reason = format!("the {what} class is {class}, expected below {n}");
                return Err(DataError::argument("confusion_matrix", reason));
            }
        }
        self.counts[truth as usize * n + read as usize] += 1;
        Ok(())
    }

    /// The number of classes.
    pub fn n_classes(&self) -> usize {
        self.n_classes
    }

    /// How often `truth` was read as `read`; 0 for classes that there are not.
    pub fn count(&self, truth: u32, read: u32) -> u64 {
        let (truth, read, n) = (truth as usize, read as usize, self.n_classes);
        match truth < n && read < n {
            true => self.counts[truth * n + read],
            false => 0,
        }
    }

    /// Samples counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Samples read as what they are.
    pub fn correct(&self) -> u64 {
        (0..self.n_classes)
            .map(|class| self.counts[class * (self.n_classes + 1)])
            .sum()
    }

    /// The part of the samples that was read right; 0 of none.
    pub fn accuracy(&self) -> f64 {
        share(self.correct(), self.total()).unwrap_or(0.0)
    }

    /// The part of a class's samples that was read right; `None` of none.
    fn recall(&self, class: usize) -> Option<f64> {
        let n = self.n_classes;
        let row = &self.counts[class * n..][..n];
        share(row[class], row.iter().sum())
    }

    /// The part right of what was read as a class; `None` of none.
    fn precision(&self, class: usize) -> Option<f64> {
        let column = || self.counts.iter().skip(class).step_by(self.n_classes);
        share(*column().nth(class)?, column().sum())
    }
}

impl fmt::Display for ConfusionMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.n_classes;
        let largest = self.counts.iter().max().copied().unwrap_or(0);
        let width = largest.max(n as u64).to_string().len().max(5) + 1;
        let line = |f: &mut fmt::Formatter<'_>, name: &str, cells: &[String], last: &str| {
            let cells: String = cells.iter().map(|cell| format!("{cell:>width$}")).collect();
            let line = format!("{name:>9} |{cells} |{last:>7}");
            writeln!(f, "{}", line.trim_end())
        };
        let classes: Vec<String> = (0..n).map(|class| class.to_string()).collect();
        line(f, "true/read", &classes, "recall")?;
        for (class, row) in self.counts.chunks(n.max(1)).enumerate() {
            let cells: Vec<String> = row.iter().map(u64::to_string).collect();
            line(f, &class.to_string(), &cells, &percent(self.recall(class)))?;
        }
        let cells: Vec<String> = (0..n).map(|class| percent(self.precision(class))).collect();
        line(f, "precision", &cells, "")?;
        let (correct, total) = (self.correct(), self.total());
        let accuracy = 100.0 * self.accuracy();
        writeln!(f, "accuracy {accuracy:.2}%: {correct} of {total}")
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Per cent with one decimal, or a dash.
fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_counts_recall_precision_and_accuracy() -> Result<()> {
        let mut matrix = ConfusionMatrix::new(3);
        let read = [(0, 0), (0, 0), (0, 1), (1, 1), (1, 1), (1, 1), (1, 0)];
        for (truth, read) in read {
            matrix.add(truth, read)?;
        }
        let expected = "true/read |     0     1     2 | recall\n        \
                        0 |     2     1     0 |   66.7\n        \
                        1 |     1     3     0 |   75.0\n        \
                        2 |     0     0     0 |      -\n\
                        precision |  66.7  75.0     - |\n\
                        accuracy 71.43%: 5 of 7\n";
        assert_eq!(matrix.to_string(), expected);
        assert_eq!((matrix.count(0, 1), matrix.count(1, 1)), (1, 3));
        assert_eq!((matrix.correct(), matrix.total()), (5, 7));
        Ok(())
    }

    #[test]
    fn a_class_that_there_is_not_is_refused() {
        let mut matrix = ConfusionMatrix::new(2);
        let error = matrix.add(0, 2).expect_err("two classes");
        let expected = "confusion_matrix: the read class is 2, expected below 2";
        assert_eq!(error.to_string(), expected);
        assert_eq!(matrix.total(), 0);
        assert_eq!(matrix.accuracy(), 0.0);
    }
}
