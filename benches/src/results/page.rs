//! docs/BENCHMARK_RESULTS.md: one page of all machines' files, in the order in which a visitor asks.

use std::path::PathBuf;

use anyhow::Result;

use super::section::{Machine, Table};
use super::tables;

const HEAD: &str = "\
# Results

What HLX takes, beside other programs on the same device. `cargo xtask bench report` writes this page from the CSV files in
`benches/results`, a folder per machine, and a test checks that it agrees with them. Below each table are date, device, command
and file. How it is measured, and more results: [benchmarks.md](benchmarks.md).

One command measures all of this on a device, writes each section's file as soon as it is measured, and goes on where it was
interrupted. `--only SECTION` measures one section; `benches/peers/pack.sh` packs what a machine without Rust needs.

```sh,needs=minutes
cargo xtask bench results --out benches/results/NAME --device vulkan
```

A GPU that is *untried* has sent no file yet: run the command, and send the folder.
";

/// The text of the page, from the machines' folders.
///
/// # Errors
/// Files that cannot be read.
pub fn text(folders: &[PathBuf]) -> Result<String> {
    let machines: Vec<Machine> = folders
        .iter()
        .map(|folder| Machine::read(folder))
        .collect::<Result<_>>()?;
    let sections = [
        tables::gemm(&machines)?,
        tables::steps(&machines),
        tables::starts(&machines)?,
        tables::handles(&machines)?,
        tables::memory(&machines)?,
        tables::ranks(&machines),
        tables::cpu(&machines)?,
        tables::generation(&machines)?,
        tables::heads(&machines)?,
    ];
    let sections = sections.iter().map(Table::to_markdown);
    Ok(std::iter::once(HEAD.to_owned()).chain(sections).collect())
}
