//! Writes the CSVs in benches/results into the pages: the tables between the markers of
//! docs/benchmarks.md and README.md, and the plots.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::causal_table::CausalTable;
use crate::peer_table::{Comparison, shown};
use crate::plot::{rates, ratios, steps};
use crate::rank_table::RankTable;
use crate::say;
use crate::step_table::{ARITHMETICS, MODES, StepTable};
use crate::table::{Run, fact_of};

/// The markers of the tables in docs/benchmarks.md, and of the training steps in README.md.
const RESULTS: [&str; 2] = ["<!-- results: begin -->", "<!-- results: end -->"];
const STEPS: [&str; 2] = ["<!-- steps: begin -->", "<!-- steps: end -->"];

/// The folder of the tables of docs/benchmarks, which xtask writes; it is not a machine's.
const NOTES: &str = "notes";

/// The folder of the results and the pages to write.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder of results: in it one folder per machine, with steps.csv, ranks.csv, causal.csv,
    /// peers.csv, start.csv and kernels.csv, whichever were measured.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// The page whose marked part is written anew; its plots go to `plots` beside it.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// The page whose marked table of training steps is written anew; the repository's README.md
    /// if neither this nor --page is given.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
    /// The page of all machines, written whole; docs/BENCHMARK_RESULTS.md of the repository if neither this nor
    /// --page is given.
    #[arg(long, value_name = "FILE")]
    overview: Option<PathBuf>,
}

/// Writes the marked part of the page and the plots.
///
/// # Errors
/// A page without the markers, results that cannot be read.
pub fn run(arguments: &Arguments) -> Result<()> {
    let benches = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from("benches"), PathBuf::from);
    let results = arguments.results.clone();
    let results = results.unwrap_or_else(|| benches.join("results"));
    let of_repository = |given: &Option<PathBuf>, file: &str| match (given, &arguments.page) {
        (Some(path), _) => Some(path.clone()),
        (None, Some(_)) => None,
        (None, None) => Some(benches.join("..").join(file)),
    };
    let readme = of_repository(&arguments.readme, "README.md");
    let overview = of_repository(&arguments.overview, "docs/BENCHMARK_RESULTS.md");
    let page = arguments.page.clone();
    let page = page.unwrap_or_else(|| benches.join("../docs/benchmarks.md"));
    let plots = page.with_file_name("plots");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&results)
        .with_context(|| results.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir() && !path.ends_with(NOTES))
        .collect();
    folders.sort();
    ensure!(
        !folders.is_empty(),
        "{}: there are no results",
        results.display()
    );
    let mut text = String::new();
    for folder in &folders {
        text += &section(folder, &plots).with_context(|| folder.display().to_string())?;
    }
    write_between(&page, RESULTS, &text)?;
    say!("wrote {}", plots.display());
    if let Some(readme) = readme {
        write_between(&readme, STEPS, &steps_of_all(&folders)?)?;
    }
    if let Some(overview) = overview {
        let text = crate::results::page::text(&folders)?;
        let name = || overview.display().to_string();
        hlx_core::files::write_atomically(&overview, text.as_bytes()).with_context(name)?;
        say!("wrote {}", overview.display());
    }
    Ok(())
}

/// Writes a text between the markers of a page.
fn write_between(page: &Path, markers: [&str; 2], text: &str) -> Result<()> {
    let name = || page.display().to_string();
    let old = std::fs::read_to_string(page).with_context(name)?;
    let text = between(&old, markers, text).with_context(name)?;
    hlx_core::files::write_atomically(page, text.as_bytes()).with_context(name)?;
    say!("wrote {}", page.display());
    Ok(())
}

/// Puts a text between the markers of a page.
fn between(page: &str, [begin, end]: [&str; 2], text: &str) -> Result<String> {
    let (head, rest) = page
        .split_once(begin)
        .with_context(|| format!("there is no line {begin}"))?;
    let (_, tail) = rest
        .split_once(end)
        .with_context(|| format!("there is no line {end} after {begin}"))?;
    Ok(format!("{head}{begin}\n\n{text}{end}{tail}"))
}

/// The training steps of every machine in one table: milliseconds of HLX in each arithmetic and of PyTorch in each
/// mode.
fn steps_of_all(folders: &[PathBuf]) -> Result<String> {
    let mut headings = ["device", "date", "step", "`portable`"]
        .map(str::to_owned)
        .to_vec();
    headings.extend(ARITHMETICS.map(|arithmetic| format!("`{arithmetic}`")));
    headings.extend(MODES.map(|mode| mode.heading.to_owned()));
    let mut text = format!(
        "| {} |\n{}|\n",
        headings.join(" | "),
        "|---".repeat(headings.len())
    );
    for folder in folders {
        let table = StepTable::read(folder).with_context(|| folder.display().to_string())?;
        let device = device_of(&table.facts).unwrap_or_default();
        let date = fact_of(&table.facts, "date").unwrap_or_default();
        for row in &table.rows {
            let mut ms = vec![shown(row.hlx_ms)];
            ms.extend(row.arithmetic_ms.map(shown));
            ms.extend(row.peer_ms.map(shown));
            writeln!(
                text,
                "| {device} | {date} | {} | {} |",
                row.name,
                ms.join(" | ")
            )?;
        }
    }
    Ok(text + "\n")
}

/// The device of measurements, of a CPU with its instruction set and threads, by which HLX calls it.
fn device_of(facts: &[(String, String)]) -> Option<String> {
    let device = fact_of(facts, "device")?;
    let hlx = fact_of(facts, "hlx").unwrap_or_default();
    let of_cpu = hlx.rsplit_once(" (").map_or("", |(_, last)| last);
    let of_cpu = of_cpu
        .strip_suffix(')')
        .filter(|it| it.ends_with("threads"));
    Some(match of_cpu {
        Some(of_cpu) => format!("{device}, {of_cpu}"),
        None => device.to_owned(),
    })
}

/// The tables of one machine, with its plots.
fn section(folder: &Path, plots: &Path) -> Result<String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let comparison = Comparison::read(folder)?;
    let step_table = StepTable::read(folder)?;
    let ranks = RankTable::read(folder)?;
    let causal = CausalTable::read(folder)?;
    let kernels = folder.join("kernels.csv");
    let run = match kernels.is_file() {
        true => Run::read(&kernels)?,
        false => Run::default(),
    };
    let device = device_of(&step_table.facts)
        .or_else(|| device_of(&ranks.facts))
        .or_else(|| device_of(&causal.facts))
        .or_else(|| device_of(&comparison.facts))
        .or_else(|| device_of(&run.facts));
    let device = device.unwrap_or_else(|| name.clone().into_owned());
    std::fs::create_dir_all(plots)?;
    let heading = format!("## {device}\n\n");
    let mut text = heading.clone();
    let picture = |suffix: &str, svg: String, about: &str| -> Result<String> {
        let file = format!("{name}-{suffix}.svg");
        hlx_core::files::write_atomically(&plots.join(&file), svg.as_bytes())?;
        Ok(format!("![{about}](plots/{file})\n\n"))
    };
    if !step_table.rows.is_empty() {
        text += "### Training steps beside PyTorch\n\n";
        text += &sentence(&step_table.facts);
        let svg = steps(&step_table.rows, &format!("Training step, {device}"));
        text += &picture("steps", svg, "Time of a training step")?;
        text += &step_table.to_markdown();
    }
    if !ranks.rows.is_empty() {
        text += "### Training steps on several devices\n\n";
        text += &sentence(&ranks.facts);
        let svg = ranks.picture(&device);
        text += &picture("ranks", svg, "Times as fast as one device")?;
        text += &ranks.to_markdown();
    }
    if !causal.rows.is_empty() {
        text += "### Training steps of causal language models\n\n";
        text += &sentence(&causal.facts);
        text += &causal.to_markdown();
    }
    if !comparison.rows.is_empty() || !comparison.starts.is_empty() {
        text += "### Operations beside PyTorch\n\n";
        text += &sentence(&comparison.facts);
        if !comparison.rows.is_empty() {
            let svg = ratios(&comparison.rows, &format!("Operations, {device}"));
            text += &picture("operations", svg, "Times as fast as PyTorch")?;
        }
        text += &comparison.to_markdown();
        text += "\n";
    }
    if !run.rows.is_empty() {
        text += "### Kernels by themselves\n\n";
        text += &sentence(&run.facts);
        let svg = rates(&run.rows, &format!("Share of the measured peak, {device}"));
        text += &picture("kernels", svg, "Kernels' share of the device's peak")?;
        text += &kernel_table(&run)?;
        text += "\n";
    }
    // A folder may have files of docs/BENCHMARK_RESULTS.md alone.
    Ok(if text == heading { String::new() } else { text })
}

/// Date, driver and command in one line.
fn sentence(facts: &[(String, String)]) -> String {
    let shown = facts.iter().filter(|(key, _)| key != "device");
    let parts: Vec<String> = shown
        .map(|(key, value)| match key.as_str() {
            "date" => value.clone(),
            "command" => format!("`{value}`"),
            _ => format!("{key} {value}"),
        })
        .collect();
    format!("{}.\n\n", parts.join("; "))
}

fn kernel_table(run: &Run) -> Result<String> {
    let mut text = "| case | median | mean | deviation | min | max | unit | of the peak | ms |\n\
                    |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for row in &run.rows {
        let rate = &row.rate;
        let numbers = [rate.median, rate.mean, rate.deviation, rate.min, rate.max];
        writeln!(
            text,
            "| {} | {} | {} | {:.0}% | {} |",
            row.case,
            numbers.map(crate::table::digits).join(" | "),
            row.unit,
            row.share() * 100.0,
            crate::table::digits(row.median_ms)
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_table::PeerRow;
    use crate::rank_table::COLUMNS;
    use crate::statistics::Statistics;
    use crate::step_table::StepRow;
    use crate::table::Row;

    #[test]
    fn only_the_marked_part_of_a_page_changes() -> Result<()> {
        let [begin, end] = RESULTS;
        let page = format!("# A\n\n{begin}\nold\n{end}\n\nrest\n");
        let new = between(&page, RESULTS, "new\n")?;
        assert_eq!(new, format!("# A\n\n{begin}\n\nnew\n{end}\n\nrest\n"));
        assert_eq!(between(&new, RESULTS, "new\n")?, new);
        assert!(between("# A\n", RESULTS, "new").is_err());
        Ok(())
    }

    #[test]
    fn the_pages_and_plots_are_what_the_results_give() -> Result<()> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let base = std::env::temp_dir().join(format!("hlx-pages-{}", std::process::id()));
        std::fs::create_dir_all(&base)?;
        let pages = [
            ("docs/benchmarks.md", "page.md"),
            ("README.md", "README.md"),
        ];
        for (page, copy) in pages {
            std::fs::copy(root.join(page), base.join(copy))?;
        }
        run(&Arguments {
            results: Some(root.join("benches/results")),
            page: Some(base.join("page.md")),
            readme: Some(base.join("README.md")),
            overview: Some(base.join("results.md")),
        })?;
        let same = |written: &Path, committed: &Path| -> Result<()> {
            let equal = std::fs::read(written)? == std::fs::read(committed)?;
            let name = committed.display();
            ensure!(
                equal,
                "{name} is out of date: run `cargo xtask bench report`"
            );
            Ok(())
        };
        for (page, copy) in pages {
            same(&base.join(copy), &root.join(page))?;
        }
        let overview = root.join("docs/BENCHMARK_RESULTS.md");
        same(&base.join("results.md"), &overview)?;
        for plot in std::fs::read_dir(base.join("plots"))? {
            let plot = plot?;
            same(
                &plot.path(),
                &root.join("docs/plots").join(plot.file_name()),
            )?;
        }
        std::fs::remove_dir_all(&base)?;
        Ok(())
    }

    #[test]
    fn results_become_tables_and_plots() -> Result<()> {
        let base = std::env::temp_dir().join(format!("hlx-report-{}", std::process::id()));
        let folder = base.join("results/a-gpu");
        std::fs::create_dir_all(base.join("results").join(NOTES))?;
        let row = |case: &str, ms: f64| PeerRow {
            case: case.to_owned(),
            unit: "GB/s".to_owned(),
            hlx_ms: Some(ms),
            peer_ms: Some(2.0),
            prepared_ms: Some(1.5),
            ..PeerRow::default()
        };
        let comparison = Comparison {
            facts: vec![("device".to_owned(), "A < B".to_owned())],
            rows: vec![row("add 7", 1.0)],
            starts: Vec::new(),
        };
        comparison.write(&folder)?;
        let step_table = StepTable {
            facts: comparison.facts.clone(),
            rows: vec![StepRow {
                name: "tiny".to_owned(),
                hlx_ms: Some(4.0),
                peer_ms: [Some(2.0), None, None, None, Some(1.0)],
                ..StepRow::default()
            }],
        };
        step_table.write(&folder)?;
        let kernels = Run {
            facts: comparison.facts.clone(),
            rows: vec![Row {
                case: "add 7".to_owned(),
                unit: "GB/s".to_owned(),
                rate: Statistics::of(&[1.0, 3.0]),
                peak: 4.0,
                median_ms: 0.5,
            }],
        };
        std::fs::write(folder.join("kernels.csv"), kernels.to_csv())?;
        let row = |ranks: usize, ms: f64| format!("d,A < B,HLX,tiny,8,portable,{ranks},,{ms},,,\n");
        let ranks = [COLUMNS, "\n", &row(1, 4.0), &row(2, 2.5)].concat();
        std::fs::write(folder.join("ranks.csv"), ranks)?;
        let page = base.join("page.md");
        std::fs::write(&page, format!("# Page\n{}\n", RESULTS.concat()))?;
        let readme = base.join("README.md");
        std::fs::write(&readme, format!("# HLX\n{}\n", STEPS.concat()))?;
        run(&Arguments {
            results: Some(base.join("results")),
            page: Some(page.clone()),
            readme: Some(readme.clone()),
            overview: None,
        })?;
        let table = std::fs::read_to_string(&readme)?;
        let row = "| A < B |  | tiny | 4.000 | - | - | 2.000 | - | - | - | 1.000 |";
        assert!(table.contains(row), "{table}");
        let text = std::fs::read_to_string(&page)?;
        assert!(!text.contains(NOTES), "{text}");
        assert!(
            text.contains(
                "| add 7 | 2.000 | 2.000 | 1.414 | 1.000 | 3.000 | GB/s | 50% | 0.5000 |"
            ),
            "{text}"
        );
        let row = "| tiny, HLX, portable | 4.000 | 2.500 (1.60) |";
        assert!(text.contains(row), "{text}");
        for plot in ["steps", "ranks", "operations", "kernels"] {
            let svg = std::fs::read_to_string(base.join(format!("plots/a-gpu-{plot}.svg")))?;
            assert!(
                svg.starts_with("<svg") && svg.ends_with("</svg>\n"),
                "{plot}"
            );
            assert!(svg.contains("A &lt; B") && !svg.contains("NaN"), "{plot}");
        }
        std::fs::remove_dir_all(&base)?;
        Ok(())
    }
}
