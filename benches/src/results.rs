//! `hlx-bench results`: one command measures on the device at hand what docs/BENCHMARK_RESULTS.md shows of it.
//!
//! A section writes its CSV files into the machine's folder as soon as they are measured, and a section whose file is
//! there is not measured again: an interrupted call goes on where it was. `cargo xtask bench report` makes the page of
//! all machines' files ([`page`]).

mod bench;
mod gemm;
mod generation;
mod heads;
mod memory;
pub mod page;
mod section;
mod sheet;
mod tables;
mod verbs;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};

use self::bench::Bench;
use crate::{note, say};

/// Where the files go, and what is measured.
#[derive(clap::Args)]
pub struct Arguments {
    /// The folder of the machine's files, such as benches/results/h100.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Sections, with commas; all if left out.
    #[arg(long, value_name = "SECTIONS", value_enum, value_delimiter = ',')]
    only: Vec<Section>,
    /// Measure sections again whose files are there.
    #[arg(long)]
    again: bool,
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// The Python that has PyTorch.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    /// The folder of peers.py and the other programs' scripts; benches/peers of the repository if left out.
    #[arg(long, value_name = "DIR")]
    scripts: Option<PathBuf>,
    /// The folder of other programs that benches/peers/pack.sh makes; `built` in the scripts' folder if left out.
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// The program hlx, which runs several ranks; beside this program if left out.
    #[arg(long, value_name = "PROGRAM")]
    hlx: Option<PathBuf>,
    /// A sentence for the files, such as what else ran on the machine.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Small sizes, to see that everything works.
    #[arg(long)]
    quick: bool,
}

/// A section of the page, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Section {
    /// A product of 1,024, 100 times.
    Gemm,
    /// Training steps.
    Steps,
    /// Cold and warm calls by batch size.
    Starts,
    /// One product 1,000 times.
    Handles,
    /// Memory of training steps.
    Memory,
    /// Several devices.
    Ranks,
    /// The CPU beside a GPU.
    Cpu,
    /// Tokens of language models.
    Generation,
    /// Other programs that train through Vulkan.
    Peers,
}

impl Section {
    /// All sections.
    pub const ALL: [Self; 9] = [
        Self::Gemm,
        Self::Steps,
        Self::Starts,
        Self::Handles,
        Self::Memory,
        Self::Ranks,
        Self::Cpu,
        Self::Generation,
        Self::Peers,
    ];

    /// The file without which the section has not been measured.
    fn file(self) -> &'static str {
        match self {
            Self::Gemm => "gemm.csv",
            Self::Steps => "steps.csv",
            Self::Starts => "batches.csv",
            Self::Handles => "handles.csv",
            Self::Memory => "memory.csv",
            Self::Ranks => "ranks.csv",
            Self::Cpu => "cpu.csv",
            Self::Generation => "generation.csv",
            Self::Peers => "heads.csv",
        }
    }

    /// Measures it; `false` where the machine has nothing to be measured.
    fn measure(self, bench: &Bench) -> Result<bool> {
        match self {
            Self::Gemm => gemm::measure(bench)?,
            Self::Steps => verbs::steps(bench)?,
            Self::Starts => verbs::starts(bench)?,
            Self::Handles => verbs::handles(bench)?,
            Self::Memory => memory::measure(bench)?,
            Self::Ranks => return verbs::ranks(bench),
            Self::Cpu => return verbs::cpu(bench),
            Self::Generation => generation::measure(bench)?,
            Self::Peers => heads::measure(bench)?,
        }
        Ok(true)
    }
}

/// Measures the sections, one after the other; what fails is named at the end, and the others are measured.
///
/// # Errors
/// A device that cannot be opened; sections that failed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let bench = Bench::new(arguments)?;
    let chosen = match arguments.only.is_empty() {
        true => Section::ALL.to_vec(),
        false => arguments.only.clone(),
    };
    let mut failed = Vec::new();
    let begun = Instant::now();
    for (place, section) in chosen.iter().enumerate() {
        let file = section.file();
        let step = format!("[{}/{}] {file}", place + 1, chosen.len());
        let path = arguments.out.join(file);
        if path.is_file() && !arguments.again {
            note!("{step}: is there; --again measures it again");
            continue;
        }
        note!("{step} ..");
        let start = Instant::now();
        let measured = section.measure(&bench).and_then(|is_measured| {
            let files = [file, gemm::RUNS_FILE];
            files.iter().try_for_each(|file| bench.finish(file))?;
            Ok(is_measured)
        });
        let seconds = start.elapsed().as_secs_f64();
        match measured {
            Ok(true) => note!("{step}: {seconds:.0} s"),
            Ok(false) => note!("{step}: this device has nothing to be measured for it"),
            Err(error) => {
                note!("{step}: {error:#}");
                failed.push(file);
            }
        }
    }
    say!(
        "{} after {:.0} s; cargo xtask bench report writes the page",
        arguments.out.display(),
        begun.elapsed().as_secs_f64()
    );
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}
