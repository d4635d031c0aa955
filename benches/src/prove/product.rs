//! One contract, many runs, one handle.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;
use hlx_contract::{Encoded, Execute, product_example};
use hlx_core::Device;
use hlx_store::{Handle, Store};

use super::{Arguments, head, write};
use crate::picture::{Chart, Series};
use crate::statistics::Statistics;
use crate::table::digits;
use crate::{note, print, say};

/// The number of runs after which the device is opened again and the contract prepared again.
const RUNS_A_CONTEXT: usize = 100;

/// A folder that is removed when the proof ends.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the contract product and says whether all runs gave one handle.
pub fn prove(arguments: &Arguments, device: &Device) -> Result<bool> {
    let (size, runs) = (arguments.product_size(), arguments.runs());
    let path = std::env::temp_dir().join(format!("hlx-prove-{}", std::process::id()));
    let folder = Folder(path);
    let store = Store::open(&folder.0)?;
    let kernel = product_example(&store, size)?;
    say!("contract {} ({size} x {size} x {size})", kernel.handle()?);
    let mut results: Vec<(Handle, f64)> = Vec::with_capacity(runs);
    while results.len() < runs {
        let device = arguments.open()?;
        let prepared = device.prepare(&store, &kernel)?;
        for _ in 0..RUNS_A_CONTEXT.min(runs - results.len()) {
            let run = prepared.run()?;
            results.push((run.handle, run.run_ms));
        }
        print::over_stderr(format_args!("{} of {runs} runs", results.len()));
    }
    note!();
    let mut handles: BTreeMap<Handle, usize> = BTreeMap::new();
    results
        .iter()
        .for_each(|(handle, _)| *handles.entry(*handle).or_default() += 1);
    for (handle, count) in &handles {
        say!("{count:6} runs gave {handle}");
    }
    let times: Vec<f64> = results.iter().map(|(_, ms)| *ms).collect();
    let Statistics {
        median, min, max, ..
    } = Statistics::of(&times);
    say!(
        "a run: {} ms (median; {} to {})\n",
        digits(median),
        digits(min),
        digits(max)
    );
    let mut csv = head(device) + "run,ms,handle\n";
    for (run, (handle, ms)) in results.iter().enumerate() {
        writeln!(csv, "{},{ms:.6},{handle}", run + 1)?;
    }
    write(&arguments.out, "product.csv", &csv)?;
    let points = (1..).map(f64::from).zip(times).collect();
    let handle = handles
        .keys()
        .next()
        .map(Handle::to_string)
        .unwrap_or_default();
    let chart = Chart {
        title: format!(
            "{size} x {size} product, {runs} runs, {} handle(s): {}...",
            handles.len(),
            &handle[..23.min(handle.len())]
        ),
        x: "run",
        y: "ms",
        log_x: false,
        series: vec![Series::dots("a run", 0, points)],
    };
    write(&arguments.out, "product.svg", &chart.draw())?;
    Ok(handles.len() == 1)
}
