//! One model at every batch size: what the first and the later calls cost, and that the first
//! sequence's logits never change.
//!
//! A *call* takes token ids from the host and ends when the logits of all positions lie on the
//! device. It is
//! - *first*, in a fresh process without any cache of pipelines, HLX's or the driver's, where
//!   the model is on the device and nothing else has been run;
//! - *cold*, on a newly opened device with a new model, whose first call at this batch size it is: memory
//!   is taken, the graph recorded and run. Other batch sizes have been run in the process, so the
//!   pipelines are there, as in a server at the first request of a size;
//! - *warm*, as every later call at that size, once calls have gone on for a third of a second.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hlx_autograd::{Tensor, no_grad};
use hlx_core::{Buffer, Device, Graph};
use hlx_nn::{CausalLm, Mode, Model, Module, NnError, TransformerConfig};
use hlx_store::{Dtype, Handle};

use super::pytorch::{Peer, Peers};
use super::{Arguments, head, write};
use crate::picture::{Chart, Series};
use crate::say;
use crate::statistics::median;
use crate::step::{Configuration, configuration};
use crate::table::digits;

/// A model at one batch size, recorded.
struct Inference {
    device: Device,
    ids: Tensor,
    tokens: Vec<u32>,
    graph: Graph,
    logits: Buffer,
}

/// The first sequences are the same in every batch.
fn tokens(config: &TransformerConfig, batch: usize) -> Vec<u32> {
    let vocabulary = config.vocabulary as u32;
    (0..(batch * config.positions) as u32)
        .map(|place| crate::maker::scramble(place) % vocabulary)
        .collect()
}

impl Inference {
    /// Records the forward pass at a batch size: logits of all positions, no tape, nothing saved.
    fn record(device: &Device, model: &Model<CausalLm>, tokens: Vec<u32>) -> Result<Self> {
        let time = model.config().max_positions;
        let batch = tokens.len() / time;
        let ids = Tensor::from_slice::<u32>(device, &tokens, &[batch, time])?;
        let (graph, logits) = device.record(|| -> Result<Buffer, NnError> {
            no_grad(|| Ok(model.forward(&ids, &Mode::eval())?.buffer()?))
        })?;
        Ok(Self {
            device: device.clone(),
            ids,
            tokens,
            graph,
            logits,
        })
    }

    fn call(&self) -> Result<()> {
        self.device
            .upload_words(&self.ids.buffer()?, &self.tokens)?;
        self.graph.replay()?;
        Ok(self.device.sync()?)
    }

    /// A call and the milliseconds that it took.
    fn timed_call(&self) -> Result<f64> {
        let start = Instant::now();
        self.call()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    /// The first sequence's logits, to be hashed later.
    fn row_0(&self, config: &TransformerConfig) -> Result<Row0> {
        let shape = [config.positions, config.vocabulary];
        let row = self.logits.slice(0, shape[0] * shape[1])?;
        let words = self.device.download_words(&row)?;
        Ok(Row0 { shape, words })
    }
}

/// The first sequence's logits.
struct Row0 {
    shape: [usize; 2],
    words: Vec<u32>,
}

impl Row0 {
    fn handle(self) -> Result<Handle> {
        let Self { shape, words } = self;
        let bytes: Vec<u8> = words
            .into_iter()
            .flat_map(|word| hlx_core::digest::canonical_bits(f32::from_bits(word)).to_le_bytes())
            .collect();
        Ok(Handle::of_tensor(Dtype::F32, &shape, &bytes)?)
    }
}

/// What was measured at one batch size.
struct Row {
    batch: usize,
    first_ms: f64,
    cold_ms: Vec<f64>,
    warm_ms: Vec<f64>,
    /// The digests of the first sequence's logits, after every call.
    digests: BTreeMap<Handle, usize>,
}

fn measure(arguments: &Arguments, config: &TransformerConfig, batch: usize) -> Result<Row> {
    let mut row = Row {
        batch,
        first_ms: first_in_a_process(arguments, batch)?,
        cold_ms: Vec::new(),
        warm_ms: Vec::new(),
        digests: BTreeMap::new(),
    };
    let mut rows = Vec::with_capacity(2 * arguments.repeats());
    for repeat in 1..=arguments.repeats() {
        let device = arguments.open()?;
        let model = Model::new(&device, 1, |b| CausalLm::new(b, &(*config).into()))?;
        let tokens = tokens(config, batch);
        device.sync()?;
        let start = Instant::now();
        let inference = Inference::record(&device, &model, tokens)?;
        inference.call()?;
        row.cold_ms.push(start.elapsed().as_secs_f64() * 1e3);
        rows.push(inference.row_0(config)?);
        if repeat == arguments.repeats() {
            let busy = Instant::now();
            while busy.elapsed() < arguments.busy() {
                inference.call()?;
            }
            for _ in 0..arguments.repeats() {
                row.warm_ms.push(inference.timed_call()?);
                rows.push(inference.row_0(config)?);
            }
        }
    }
    for row_0 in rows {
        *row.digests.entry(row_0.handle()?).or_default() += 1;
    }
    Ok(row)
}

/// The first call in a fresh process, in milliseconds. NVIDIA's driver stores compiled shaders on
/// disk; a variable disables that.
fn first_in_a_process(arguments: &Arguments, batch: usize) -> Result<f64> {
    let caches = std::env::temp_dir().join(format!("hlx-first-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().context("this program's path")?);
    command
        .args(["first-call", arguments.model(), &batch.to_string()])
        .args(["--device", &arguments.device])
        .env("HLX_CACHE_DIR", &caches)
        .env("__GL_SHADER_DISK_CACHE", "0")
        .env("MESA_SHADER_CACHE_DISABLE", "true");
    let output = command.output().context("the fresh process")?;
    let _ = std::fs::remove_dir_all(&caches);
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "first call at batch {batch}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let ms = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("first_ms="));
    ms.context("the fresh process said nothing")?
        .parse()
        .context("a time")
}

/// The transformer of this name.
fn transformer(name: &str) -> Result<TransformerConfig> {
    let found = configuration(name).and_then(Configuration::transformer);
    found.with_context(|| format!("no transformer `{name}`"))
}

/// Makes the first call at a batch size in this process, and prints what it took.
///
/// # Errors
/// An unknown model, and what the device reports.
pub fn first_call(device: &str, model: &str, batch: usize) -> Result<()> {
    let start = Instant::now();
    let config = transformer(model)?;
    let device = Device::open_from_env(device)?;
    let opened_ms = start.elapsed().as_secs_f64() * 1e3;
    let model = Model::new(&device, 1, |b| CausalLm::new(b, &config.into()))?;
    let tokens = tokens(&config, batch);
    device.sync()?;
    let ready = Instant::now();
    let inference = Inference::record(&device, &model, tokens)?;
    inference.call()?;
    let first_ms = ready.elapsed().as_secs_f64() * 1e3;
    let row_0 = inference.row_0(&config)?.handle()?;
    say!("ok opened_ms={opened_ms:.3} first_ms={first_ms:.3} row_0={row_0}");
    Ok(())
}

/// Measures every batch size and says whether the first sequence's logits were always the same.
pub fn prove(arguments: &Arguments) -> Result<bool> {
    let name = arguments.model();
    let config = transformer(name)?;
    say!(
        "model {name}, {} positions a sequence; ms a call, medians",
        config.positions
    );
    say!(
        "{:>6} {:>9} {:>9} {:>9}  row 0",
        "batch",
        "first",
        "cold",
        "warm"
    );
    let mut rows = Vec::new();
    for batch in arguments.batches() {
        let row = measure(arguments, &config, batch).with_context(|| format!("batch {batch}"))?;
        let handles: Vec<String> = row.digests.keys().map(Handle::to_string).collect();
        say!(
            "{batch:>6} {:>9} {:>9} {:>9}  {}",
            digits(row.first_ms),
            digits(median(&row.cold_ms)),
            digits(median(&row.warm_ms)),
            handles.join(" ")
        );
        rows.push(row);
    }
    let mut digests: BTreeMap<Handle, usize> = BTreeMap::new();
    for (handle, count) in rows.iter().flat_map(|row| &row.digests) {
        *digests.entry(*handle).or_default() += count;
    }
    let calls: usize = digests.values().sum();
    say!("{calls} calls, {} digest(s) of row 0\n", digests.len());
    let peers = Peers::measure(arguments, name, arguments.batches())?;
    peers.print(
        &rows
            .iter()
            .map(|row| (row.batch, median(&row.warm_ms)))
            .collect::<Vec<_>>(),
    );
    report(arguments, &rows, &peers)?;
    Ok(digests.len() == 1)
}

fn report(arguments: &Arguments, rows: &[Row], peers: &Peers) -> Result<()> {
    let device = arguments.open()?;
    let mut csv = head(&device);
    for line in &peers.descriptions {
        writeln!(csv, "# peer: {line}")?;
    }
    csv += "side,batch,call,repeat,ms,row_0\n";
    for row in rows {
        let handle = row
            .digests
            .keys()
            .map(Handle::to_string)
            .collect::<Vec<_>>()
            .join(" ");
        let calls = [
            ("first", &vec![row.first_ms]),
            ("cold", &row.cold_ms),
            ("warm", &row.warm_ms),
        ];
        for (call, times) in calls {
            for (repeat, ms) in times.iter().enumerate() {
                writeln!(
                    csv,
                    "hlx,{},{call},{},{ms:.4},{handle}",
                    row.batch,
                    repeat + 1
                )?;
            }
        }
    }
    for Peer {
        mode,
        batch,
        cold_ms,
        warm_ms,
        row_0,
    } in &peers.rows
    {
        writeln!(csv, "pytorch {mode},{batch},cold,1,{cold_ms:.4},{row_0}")?;
        writeln!(
            csv,
            "pytorch {mode},{batch},warm,median,{warm_ms:.4},{row_0}"
        )?;
    }
    write(&arguments.out, "batches.csv", &csv)?;
    let line = |value: fn(&Row) -> f64| {
        rows.iter()
            .map(|row| (row.batch as f64, value(row)))
            .collect()
    };
    let mut series = vec![
        Series::line("HLX first (fresh process)", 2, line(|row| row.first_ms)),
        Series::line("HLX cold", 1, line(|row| median(&row.cold_ms))),
        Series::line("HLX warm", 0, line(|row| median(&row.warm_ms))),
    ];
    for (mode, warm, cold) in [("eager", 3, None), ("compiled", 4, Some(5))] {
        let of = |value: fn(&Peer) -> f64| -> Vec<(f64, f64)> {
            let rows = peers.rows.iter().filter(|peer| peer.mode == mode);
            rows.map(|peer| (peer.batch as f64, value(peer))).collect()
        };
        series.push(Series::line(
            &format!("PyTorch {mode} warm"),
            warm,
            of(|peer| peer.warm_ms),
        ));
        if let Some(cold) = cold {
            series.push(Series::line(
                &format!("PyTorch {mode} cold"),
                cold,
                of(|peer| peer.cold_ms),
            ));
        }
    }
    series.retain(|series| !series.points.is_empty());
    let chart = Chart {
        title: format!(
            "{}: a call of `{}` by batch size, {}",
            "Inference",
            arguments.model(),
            device.info().name
        ),
        x: "batch",
        y: "ms",
        log_x: true,
        series,
    };
    write(Path::new(&arguments.out), "batches.svg", &chart.draw())
}
