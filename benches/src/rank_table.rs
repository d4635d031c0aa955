//! Training steps on several devices of one machine, as benches/peers/scaling.py measures them.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::picture::{Chart, Series};
use crate::statistics::median;
use crate::table::{digits, rows_from_csv};

/// The columns of ranks.csv, and how many of the first ones are read.
pub(crate) const COLUMNS: &str =
    "date,device,program,model,batch,mode,ranks,exchange,ms,gradients_ms,hidden,values_ms";
const N_READ: usize = 9;

/// The colours of the picture's lines, and of the line of a perfect gain.
const LINES: [usize; 6] = [0, 1, 3, 4, 5, 6];
const PERFECT: usize = 7;

/// What was measured of one machine.
#[derive(Debug, Default, PartialEq)]
pub struct RankTable {
    /// Facts such as `device: NVIDIA H200`, in order.
    pub facts: Vec<(String, String)>,
    /// The rows.
    pub rows: Vec<RankRow>,
}

/// A program's step of a model.
#[derive(Debug, PartialEq)]
pub struct RankRow {
    work: Work,
    batch: usize,
    ranks: usize,
    ms: f64,
}

/// What is compared on different numbers of devices.
#[derive(Clone, Debug, PartialEq)]
struct Work {
    program: String,
    model: String,
    mode: String,
}

/// What R devices compute.
#[derive(Clone, Copy)]
enum Share {
    /// The batch on R devices.
    Strong,
    /// What one of R devices computes, alone.
    Part,
    /// R batches on R devices.
    Weak,
}

impl Share {
    const ALL: [Self; 3] = [Self::Strong, Self::Part, Self::Weak];

    fn heading(self, count: usize) -> String {
        match self {
            Self::Strong => format!("{count} devices"),
            Self::Part => format!("1/{count} of the batch on one"),
            Self::Weak => format!("{count} times the batch on {count}"),
        }
    }

    /// The samples and devices of a step.
    fn load(self, whole: usize, count: usize) -> (usize, usize) {
        match self {
            Self::Strong => (whole, count),
            Self::Part => (whole / count, 1),
            Self::Weak => (whole * count, count),
        }
    }

    /// The samples per second, as times those of one device with the batch; of a part, those of R devices that
    /// need nothing of each other.
    fn gain(self, one_ms: f64, ms: f64, count: usize) -> f64 {
        match self {
            Self::Strong | Self::Part => one_ms / ms,
            Self::Weak => one_ms / ms * count as f64,
        }
    }
}

impl RankRow {
    fn from_csv(line: &str) -> Result<Self> {
        let cells: Vec<&str> = line.split(',').collect();
        let name = || format!("`{line}`");
        ensure!(cells.len() >= N_READ, "{}: too few columns", name());
        let ms: f64 = cells[8].parse().with_context(name)?;
        let batch = cells[4].parse().with_context(name)?;
        let ranks = cells[6].parse().with_context(name)?;
        ensure!(ms > 0.0 && batch > 0 && ranks > 0, "{}", name());
        let [program, model, mode] = [2, 3, 5].map(|place| cells[place].to_owned());
        let work = Work {
            program,
            model,
            mode,
        };
        Ok(Self {
            work,
            batch,
            ranks,
            ms,
        })
    }
}

impl RankTable {
    /// Reads ranks.csv of a folder; nothing where there is none.
    ///
    /// # Errors
    /// A file that cannot be read, or of other columns.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("ranks.csv");
        if !path.is_file() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(path)?;
        let read = rows_from_csv(&text, COLUMNS, RankRow::from_csv);
        let (facts, rows) = read.context("ranks.csv")?;
        Ok(Self { facts, rows })
    }

    /// The table as Markdown: medians in ms, and in brackets times as fast as one device.
    pub fn to_markdown(&self) -> String {
        let columns = self.columns();
        let mut page = "| training step | one device |".to_owned();
        for (count, share) in &columns {
            let _ = write!(page, " {} |", share.heading(*count));
        }
        let _ = writeln!(page, "\n|---|---{}|", "|---".repeat(columns.len()));
        for work in self.works() {
            let one = self.ms(&work, self.whole(&work), 1);
            let _ = write!(
                page,
                "| {} | {} |",
                work.name(),
                one.map_or("-".to_owned(), digits)
            );
            for &(count, share) in &columns {
                let cell = match self.cell(&work, count, share) {
                    Some((ms, Some(gain))) => format!("{} ({gain:.2})", digits(ms)),
                    Some((ms, None)) => digits(ms),
                    None => "-".to_owned(),
                };
                let _ = write!(page, " {cell} |");
            }
            page.push('\n');
        }
        page.push('\n');
        page
    }

    /// Times as fast as one device by the number of devices: lines of what was measured, dashes of what parts of
    /// the batch allow, and of a perfect gain.
    pub fn picture(&self, device: &str) -> String {
        let counts = self.counts();
        let along = |work: &Work, share: Share| -> Vec<(f64, f64)> {
            let gain = |&count: &usize| Some((count as f64, self.cell(work, count, share)?.1?));
            std::iter::once((1.0, 1.0))
                .chain(counts.iter().filter_map(gain))
                .collect()
        };
        let perfect = std::iter::once(1).chain(counts.iter().copied());
        let perfect = perfect.map(|count| (count as f64, count as f64)).collect();
        let mut series = vec![Series::dashes(PERFECT, perfect)];
        for (place, work) in self.works().iter().enumerate() {
            let colour = LINES[place % LINES.len()];
            series.push(Series::dashes(colour, along(work, Share::Part)));
            let measured = along(work, Share::Strong);
            if measured.len() > 1 {
                series.push(Series::line(&work.name(), colour, measured));
            }
        }
        let chart = Chart {
            title: format!("{device} (dashes: perfect, and a device's part of the batch alone)"),
            x: "devices",
            y: "times as fast as one",
            log_x: true,
            series,
        };
        chart.draw()
    }

    /// What was measured, in the order of the file.
    fn works(&self) -> Vec<Work> {
        let mut works = Vec::new();
        for row in &self.rows {
            if !works.contains(&row.work) {
                works.push(row.work.clone());
            }
        }
        works
    }

    /// The batch of a model: the largest that one device was given.
    fn whole(&self, work: &Work) -> usize {
        let of_model = |row: &&RankRow| row.work.model == work.model && row.ranks == 1;
        let batches = self.rows.iter().filter(of_model).map(|row| row.batch);
        batches.max().unwrap_or(0)
    }

    /// The numbers of devices above one, of runs and of parts.
    fn counts(&self) -> Vec<usize> {
        let count = |row: &RankRow| match row.ranks {
            1 => self.whole(&row.work) / row.batch,
            ranks => ranks,
        };
        let mut counts: Vec<usize> = self
            .rows
            .iter()
            .map(count)
            .filter(|&count| count > 1)
            .collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The numbers of devices and the shares of which anything was measured.
    fn columns(&self) -> Vec<(usize, Share)> {
        let works = self.works();
        let all = Share::ALL
            .into_iter()
            .flat_map(|share| self.counts().into_iter().map(move |count| (count, share)));
        all.filter(|&(count, share)| {
            works
                .iter()
                .any(|work| self.cell(work, count, share).is_some())
        })
        .collect()
    }

    /// The median of a step, and times as fast as one device if that was measured.
    fn cell(&self, work: &Work, count: usize, share: Share) -> Option<(f64, Option<f64>)> {
        let whole = self.whole(work);
        let (batch, ranks) = share.load(whole, count);
        let ms = self.ms(work, batch, ranks)?;
        let one = self.ms(work, whole, 1);
        Some((ms, one.map(|one| share.gain(one, ms, count))))
    }

    /// The median of a step.
    fn ms(&self, work: &Work, batch: usize, ranks: usize) -> Option<f64> {
        let same = |row: &&RankRow| row.work == *work && row.batch == batch && row.ranks == ranks;
        let times: Vec<f64> = self.rows.iter().filter(same).map(|row| row.ms).collect();
        (!times.is_empty()).then(|| median(&times))
    }
}

impl Work {
    fn name(&self) -> String {
        format!("{}, {}, {}", self.model, self.program, self.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&str]) -> RankTable {
        let rows = rows
            .iter()
            .map(|row| RankRow::from_csv(row).expect("a row"));
        RankTable {
            facts: Vec::new(),
            rows: rows.collect(),
        }
    }

    #[test]
    fn gains_are_those_of_samples_a_second() {
        let table = table(&[
            "d,A,HLX,m,8,portable,1,,101.000,,,",
            "d,A,HLX,m,8,portable,1,,99.000,,,",
            "d,A,HLX,m,8,portable,2,copies,62.500,1,1,1",
            "d,A,HLX,m,16,portable,2,copies,125.000,1,1,1",
            "d,A,HLX,m,2,portable,1,,40.000,,,",
            "d,A,DDP,m,8,f32,2,NCCL,70.000,,,",
        ]);
        let expected = "| training step | one device | 2 devices | 1/4 of the batch on one | 2 times the batch on 2 |\n\
                        |---|---|---|---|---|\n\
                        | m, HLX, portable | 100.0 | 62.50 (1.60) | 40.00 (2.50) | 125.0 (1.60) |\n\
                        | m, DDP, f32 | - | 70.00 | - | - |\n\n";
        assert_eq!(table.to_markdown(), expected);
        let svg = table.picture("A < B");
        assert!(
            svg.contains("A &lt; B") && svg.contains("m, HLX, portable") && !svg.contains("NaN")
        );
        assert!(svg.contains("stroke-dasharray"));
    }

    #[test]
    fn rows_that_say_nothing_are_refused() {
        for row in [
            "d,A,HLX,m,8,portable,1",
            "d,A,HLX,m,0,portable,1,,1.0",
            "d,A,HLX,m,8,portable,1,,x",
        ] {
            assert!(RankRow::from_csv(row).is_err(), "{row}");
        }
    }
}
