//! `cargo xtask bench`: builds the benchmark program and runs it.

use crate::{Outcome, command, noted_tables};

pub const HELP: &str = "\
cargo xtask bench [--kernel NAME] [--device D] [--csv FILE] [--compare OLD.csv] [OPTIONS]
cargo xtask bench VERB [OPTIONS]

Builds hlx-bench in release mode and runs it: the throughput of kernels and training steps over
at least 100 runs (median, mean, standard deviation, extremes), and their share of the peak that
the device reaches in the same run with multiply-adds or copies.

  --kernel NAME      matmul, softmax, layer_norm, gelu, cross_entropy, attention, reduce,
                     optimizer, embedding, elementwise or step; or one operation of these
  --device D         auto, cpu, vulkan or vulkan:N
  --csv FILE         write the rows to a file
  --compare OLD.csv  fail if the median rate of a case is more than 5% below an earlier file's
  --quick            small sizes and 10 runs
  results            measures all that docs/BENCHMARK_RESULTS.md shows of a device
  report             writes docs/benchmarks.md, docs/BENCHMARK_RESULTS.md, README's table and the
                     tables of docs/benchmarks from the CSV files in benches/results
  help               lists the other options and verbs, among them the comparison with PyTorch

The same cases under criterion: `cargo bench -p hlx-bench -- NAME`.";

pub fn run(args: &[String]) -> Outcome {
    const PROGRAM: [&str; 5] = ["--release", "-p", "hlx-bench", "--bin", "hlx-bench"];
    command::build("hlx-bench", &PROGRAM[1..])?;
    let manifest = command::root().join("Cargo.toml");
    let mut bench = command::cargo(&["run", "--quiet"]);
    bench
        .args(PROGRAM)
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--")
        .args(args);
    // Paths that the user wrote are relative to the user's current folder.
    if let Ok(here) = std::env::current_dir() {
        bench.current_dir(here);
    }
    let status = command::status(&mut bench)?;
    if status == 0 && args.first().is_some_and(|verb| verb == "report") {
        let wrong = noted_tables::generate(&command::root(), false)?;
        if !wrong.is_empty() {
            return Err(wrong.join("\n"));
        }
    }
    Ok(status)
}
