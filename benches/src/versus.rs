//! This program against another hlx-bench, such as one built from an older commit: both measure
//! each case in turns, A B A B, on the same device.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::side::{Measured, Session, Side};
use crate::statistics::Statistics;
use crate::{note, say};

/// The programs, the cases and where the rows go.
#[derive(clap::Args)]
pub struct Arguments {
    /// The other program: any hlx-bench that has the verb `serve`.
    #[arg(value_name = "OTHER_BINARY")]
    other: PathBuf,
    /// A case, such as `step tiny` or `matmul 512x512x512`; may be repeated. All four training
    /// steps if left out (on the CPU: tiny).
    #[arg(long = "case", value_name = "CASE")]
    cases: Vec<String>,
    /// auto, cpu, vulkan or vulkan:N.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// The threads of both programs on the CPU.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Rounds: measurements of each case in each program. One more before them does not count.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Write the rows to a file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

const COLUMNS: &str = "case,other_ms,this_ms,this_over_other,least_ratio,largest_ratio";

/// Measures both programs and prints medians and ratios.
///
/// # Errors
/// A program that cannot be started or ends early.
pub fn run(arguments: &Arguments) -> Result<()> {
    let this = std::env::current_exe()?;
    let side = |program: &PathBuf| Side {
        program: program.display().to_string(),
        first_arguments: Vec::new(),
        last_arguments: Vec::new(),
        device: std::env::var("HLX_DEVICE").unwrap_or(arguments.device.clone()),
        threads: arguments.threads,
    };
    let mut other = Session::serve(&side(&arguments.other))?;
    let mut this = Session::serve(&side(&this))?;
    let mut csv = format!(
        "# other: {}\n# this: {}\n# rounds: {}\n{COLUMNS}\n",
        other.description, this.description, arguments.rounds
    );
    say!("other: {}\nthis:  {}", other.description, this.description);
    say!(
        "\n{:24} {:>10} {:>10} {:>8}  ratios of the rounds",
        "case",
        "other ms",
        "this ms",
        "ratio"
    );
    for case in cases(arguments, &this.description) {
        let line = compare(&mut other, &mut this, &case, arguments.rounds)?;
        say!("{}", line.text);
        let _ = writeln!(csv, "{}", line.csv);
    }
    if let Some(path) = &arguments.csv {
        hlx_core::files::write_atomically(path, csv.as_bytes())
            .with_context(|| path.display().to_string())?;
        note!("wrote {}", path.display());
    }
    other.end()?;
    this.end()
}

fn cases(arguments: &Arguments, description: &str) -> Vec<String> {
    if !arguments.cases.is_empty() {
        return arguments.cases.clone();
    }
    // The CPU device's description ends in its number of threads.
    let steps: &[&str] = match description.ends_with("threads)") {
        true => &["tiny"],
        false => &["tiny", "small", "medium", "gpt2"],
    };
    steps.iter().map(|name| format!("step {name}")).collect()
}

/// A row for the screen and one for the file.
struct Line {
    text: String,
    csv: String,
}

fn compare(other: &mut Session, this: &mut Session, case: &str, rounds: u32) -> Result<Line> {
    let (mut before, mut now) = (Measured::default(), Measured::default());
    for round in 0..=rounds {
        before.measure(other, case, None)?;
        now.measure(this, case, None)?;
        if round == 0 {
            before.clear();
            now.clear();
        }
    }
    let (Some(other_ms), Some(this_ms)) = (before.median_ms(), now.median_ms()) else {
        return Ok(Line {
            text: format!("{case:24} not measured"),
            csv: format!("{case},,,,,"),
        });
    };
    let pairs = now.times.iter().zip(&before.times);
    let ratios: Vec<f64> = pairs.map(|(now, before)| now / before).collect();
    let spread = Statistics::of(&ratios);
    let ratio = this_ms / other_ms;
    Ok(Line {
        text: format!(
            "{case:24} {other_ms:10.4} {this_ms:10.4} {ratio:8.4}  {:.4} to {:.4}",
            spread.min, spread.max
        ),
        csv: format!(
            "{case},{other_ms:.6},{this_ms:.6},{ratio:.6},{:.6},{:.6}",
            spread.min, spread.max
        ),
    })
}
