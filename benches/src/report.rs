//! From the CSVs of a run to `docs/benchmarks.md`: the tables between its markers, and the plots.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::peer_table::Comparison;
use crate::plot::{rates, ratios, steps};
use crate::table::Run;

const BEGIN: &str = "<!-- results: begin -->";
const END: &str = "<!-- results: end -->";

/// Where the results lie and where the page is.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder of results: in it a folder a machine, with kernels.csv, peers.csv, start.csv.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// The page whose marked part is written anew; its plots lie in `plots` beside it.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
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
    let page = arguments.page.clone();
    let page = page.unwrap_or_else(|| benches.join("../docs/benchmarks.md"));
    let plots = page.with_file_name("plots");
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&results)
        .with_context(|| results.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
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
    let old = std::fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    let new = between_markers(&old, &text).with_context(|| page.display().to_string())?;
    std::fs::write(&page, new)?;
    println!("wrote {} and {}", page.display(), plots.display());
    Ok(())
}

/// Puts a text between the markers of a page.
fn between_markers(page: &str, text: &str) -> Result<String> {
    let (head, rest) = page
        .split_once(BEGIN)
        .with_context(|| format!("there is no line {BEGIN}"))?;
    let (_, tail) = rest
        .split_once(END)
        .with_context(|| format!("there is no line {END} after {BEGIN}"))?;
    Ok(format!("{head}{BEGIN}\n\n{text}{END}{tail}"))
}

/// The tables of one machine, with its plots.
fn section(folder: &Path, plots: &Path) -> Result<String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let comparison = Comparison::read(folder)?;
    let kernels = folder.join("kernels.csv");
    let run = match kernels.is_file() {
        true => Run::read(&kernels)?,
        false => Run::default(),
    };
    let of = |facts: &[(String, String)], key: &str| {
        let found = facts.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone())
    };
    let device = of(&comparison.facts, "device").or_else(|| of(&run.facts, "device"));
    let device = device.unwrap_or_else(|| name.clone().into_owned());
    std::fs::create_dir_all(plots)?;
    let mut text = format!("## {device}\n\n");
    let picture = |suffix: &str, svg: String, about: &str| -> Result<String> {
        let file = format!("{name}-{suffix}.svg");
        std::fs::write(plots.join(&file), svg)?;
        Ok(format!("![{about}](plots/{file})\n\n"))
    };
    if !comparison.rows.is_empty() || !comparison.starts.is_empty() {
        text += "### Beside PyTorch\n\n";
        text += &sentence(&comparison.facts);
        if comparison.rows.iter().any(|row| row.is_step()) {
            let svg = steps(&comparison.rows, &format!("Training step, {device}"));
            text += &picture("steps", svg, "Time of a training step")?;
        }
        if comparison.rows.iter().any(|row| !row.is_step()) {
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
    Ok(text)
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
    use crate::statistics::Statistics;
    use crate::table::Row;

    #[test]
    fn only_the_marked_part_of_a_page_changes() -> Result<()> {
        let page = format!("# A\n\n{BEGIN}\nold\n{END}\n\nrest\n");
        let new = between_markers(&page, "new\n")?;
        assert_eq!(new, format!("# A\n\n{BEGIN}\n\nnew\n{END}\n\nrest\n"));
        assert_eq!(between_markers(&new, "new\n")?, new);
        assert!(between_markers("# A\n", "new").is_err());
        Ok(())
    }

    #[test]
    fn results_become_tables_and_plots() -> Result<()> {
        let base = std::env::temp_dir().join(format!("hlx-report-{}", std::process::id()));
        let folder = base.join("results/a-gpu");
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
            rows: vec![row("add 7", 1.0), row("step tiny", 4.0)],
            starts: Vec::new(),
        };
        comparison.write(&folder)?;
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
        let page = base.join("page.md");
        std::fs::write(&page, format!("# Page\n{BEGIN}{END}\n"))?;
        run(&Arguments {
            results: Some(base.join("results")),
            page: Some(page.clone()),
        })?;
        let text = std::fs::read_to_string(&page)?;
        assert!(
            text.contains(
                "| add 7 | 2.000 | 2.000 | 1.414 | 1.000 | 3.000 | GB/s | 50% | 0.5000 |"
            ),
            "{text}"
        );
        for plot in ["steps", "operations", "kernels"] {
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
