//! `hlx-bench`: how fast HLX's kernels and training steps are, alone and beside PyTorch.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use hlx_bench::cases::{self, Amount, Case, scale_of};
use hlx_bench::measure::Ready;
use hlx_bench::statistics::{Statistics, median};
use hlx_bench::table::{Row, Run};
use hlx_bench::{
    blocks, causal, decode, exhaustive, facts, optimizers, peers, prove, qlora, report, results,
    serve, table, thresholds, tiles, versus,
};
use hlx_bench::{note, say};
use hlx_core::{Arithmetic, Device};
use hlx_proof::peak::{Peak, measure};

/// Measures kernels and training steps: their rates over at least 100 runs, and their share of
/// what the device reached in the same run with nothing but multiply-adds, or copies.
#[derive(Parser)]
#[command(name = "hlx-bench", version, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    kernels: KernelArguments,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the same work in HLX and in PyTorch, in turns, and put both into one table.
    Peers(peers::Arguments),
    /// Compare this program's times with another hlx-bench's, in turns.
    Versus(versus::Arguments),
    /// Measure all that docs/BENCHMARK_RESULTS.md shows of a device, and write its files.
    Results(results::Arguments),
    /// Write the tables and plots of docs/benchmarks.md and README.md, and docs/BENCHMARK_RESULTS.md,
    /// from the CSVs in benches/results.
    Report(report::Arguments),
    /// Measure training steps of a language model shaped like Qwen3 or Llama: time, memory and where the
    /// time goes; with --peers beside PyTorch, in turns.
    Causal(causal::Arguments),
    /// Measure a step of generation of a model shaped like Qwen3-0.6B, and what the arithmetic allows.
    Decode(decode::Arguments),
    /// Time products of few rows on either side of the thresholds that choose their kernels.
    Thresholds(thresholds::Arguments),
    /// Time the products of a training step by each tile of the device's tuning.
    Tiles(tiles::Arguments),
    /// Time products with weights in blocks, as quantised files have them.
    Blocks(blocks::Arguments),
    /// Train adapters over a base in blocks that is drawn from a seed (QLoRA): memory, losses and times of steps.
    Qlora(qlora::Arguments),
    /// Time steps of the optimizers, with their state on the device and in the host's memory.
    Optimizers(optimizers::Arguments),
    /// Compare every input of each function between a device and the CPU, and state the largest
    /// errors.
    Exhaustive(exhaustive::Arguments),
    /// Prove that results do not change: a product many times, a model at every batch size.
    Prove(prove::Arguments),
    /// Make the first call of a model at a batch size in a fresh process.
    FirstCall {
        /// mini, tiny, small, medium or gpt2.
        model: String,
        /// Sequences in the batch.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
        batch: u32,
        /// The device.
        #[arg(long, default_value = "auto")]
        device: String,
    },
    /// Answer requests line by line: one side of a comparison.
    Serve {
        /// The device.
        #[arg(long, default_value = "auto")]
        device: String,
        /// What products are computed in: portable, integer, fast (bf16) or fast_f16.
        #[arg(long, value_name = "NAME", default_value_t)]
        arithmetic: Arithmetic,
    },
    /// Run the first training step of a configuration in a fresh process.
    FirstStep {
        /// tiny, small, medium or gpt2.
        configuration: String,
        /// The device.
        #[arg(long, default_value = "auto")]
        device: String,
    },
}

#[derive(clap::Args)]
struct KernelArguments {
    /// A family (matmul, softmax, .., step), one of its operations, or one case.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// What products are computed in: portable, integer, fast (bf16) or fast_f16.
    #[arg(long, value_name = "NAME", default_value_t)]
    arithmetic: Arithmetic,
    /// Write the rows to a file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Compare the medians with an earlier file's; fails if one is more than 5% slower.
    #[arg(long, value_name = "OLD.csv")]
    compare: Option<PathBuf>,
    /// Timed runs a case.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Small sizes and 10 runs, to see that everything works.
    #[arg(long)]
    quick: bool,
    /// List the cases of the device and measure nothing.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.verb {
        None => run_kernels(&arguments.kernels),
        Some(Verb::Peers(arguments)) => peers::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Versus(arguments)) => versus::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Results(arguments)) => results::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Report(arguments)) => report::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Causal(arguments)) => causal::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Decode(arguments)) => decode::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Thresholds(arguments)) => thresholds::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Tiles(arguments)) => tiles::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Blocks(arguments)) => blocks::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Qlora(arguments)) => qlora::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Optimizers(arguments)) => optimizers::run(arguments).map(|()| ExitCode::SUCCESS),
        Some(Verb::Exhaustive(arguments)) => exhaustive::run(arguments),
        Some(Verb::Prove(arguments)) => prove::run(arguments),
        Some(Verb::FirstCall {
            model,
            batch,
            device,
        }) => prove::first_call(device, model, *batch as usize).map(|()| ExitCode::SUCCESS),
        Some(Verb::Serve { device, arithmetic }) => {
            serve::serve(device, *arithmetic).map(|()| ExitCode::SUCCESS)
        }
        Some(Verb::FirstStep {
            configuration,
            device,
        }) => serve::first_step(device, configuration).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            note!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_kernels(arguments: &KernelArguments) -> Result<ExitCode> {
    // What is wrong with the arguments is said before anything is measured.
    let old = arguments.compare.as_deref().map(Run::read).transpose()?;
    let device = Device::open_from_env(&arguments.device)?;
    let device = device.in_arithmetic(arguments.arithmetic)?;
    let all = cases::cases(scale_of(&device, arguments.quick));
    let chosen = cases::select(all, arguments.kernel.as_deref())?;
    if arguments.list {
        chosen.iter().for_each(|case| say!("{}", case.name()));
        return Ok(ExitCode::SUCCESS);
    }
    let runs = if arguments.quick {
        10
    } else {
        arguments.runs as usize
    };
    let run = measure_cases(&device, &chosen, runs)?;
    if let Some(path) = &arguments.csv {
        hlx_core::files::write_atomically(path, run.to_csv().as_bytes())
            .with_context(|| path.display().to_string())?;
        note!("wrote {}", path.display());
    }
    let Some(old) = old else {
        return Ok(ExitCode::SUCCESS);
    };
    if run.fact("device") != old.fact("device") {
        let device = old.fact("device").unwrap_or("an unknown device");
        note!("note: the older run was on {device}");
    }
    let (lines, slower) = run.compare(&old)?;
    say!("\nmedian rates, before and now:\n{}", lines.join("\n"));
    if slower > 0 {
        say!("{slower} of {} cases are more than 5% slower", lines.len());
        return Ok(ExitCode::FAILURE);
    }
    say!("none of {} cases is more than 5% slower", lines.len());
    Ok(ExitCode::SUCCESS)
}

fn measure_cases(device: &Device, cases: &[Case], runs: usize) -> Result<Run> {
    note!("{}: measuring the peak", device.info());
    let peak = measure(device)?;
    say!("{}, {}", device.info(), device.info().driver);
    say!(
        "peak: {} TFLOP/s in multiply-adds, {} GB/s in copies; {runs} runs a case\n",
        table::digits(peak.flops * 1e-12),
        table::digits(peak.bytes * 1e-9)
    );
    say!("{}", table::heading());
    let mut run = Run {
        facts: facts::facts(device),
        rows: Vec::new(),
    };
    for (place, case) in cases.iter().enumerate() {
        note!("{}/{} {}", place + 1, cases.len(), case.name());
        let row = measure_case(device, case, runs, peak).with_context(|| case.name())?;
        say!("{}", row.line());
        run.rows.push(row);
    }
    Ok(run)
}

fn measure_case(device: &Device, case: &Case, runs: usize, peak: Peak) -> Result<Row> {
    let mut ready = Ready::new(device, case)?;
    let times = ready.single_runs(device, runs)?;
    drop(ready);
    device.sync()?;
    device.trim_memory();
    let amount = case.amount();
    let rates: Vec<f64> = times.iter().map(|&time| amount.rate(time)).collect();
    Ok(Row {
        case: case.name(),
        unit: amount.unit().to_owned(),
        rate: Statistics::of(&rates),
        peak: match amount {
            Amount::Flops(_) => peak.flops * 1e-12,
            Amount::Bytes(_) => peak.bytes * 1e-9,
        },
        median_ms: median(&times),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split(' '))
    }

    #[test]
    fn arguments_are_read() -> Result<(), clap::Error> {
        <Arguments as clap::CommandFactory>::command().debug_assert();
        let read = parse("hlx-bench --kernel softmax --device cpu --csv a.csv --compare b.csv")?;
        let kernels = read.kernels;
        assert_eq!(kernels.kernel.as_deref(), Some("softmax"));
        assert_eq!((kernels.device.as_str(), kernels.runs), ("cpu", 100));
        assert_eq!(kernels.compare, Some(PathBuf::from("b.csv")));
        let peers = parse("hlx-bench peers --rounds 5 --threads 2 --out results")?;
        assert!(matches!(peers.verb, Some(Verb::Peers(_))));
        for wrong in [
            "--runs 0",
            "--runs many",
            "--kernel",
            "mend",
            "peers --rounds 0",
            "versus",
            "versus old --rounds 0",
        ] {
            assert!(parse(&format!("hlx-bench {wrong}")).is_err(), "{wrong}");
        }
        Ok(())
    }
}
