//! The tables of docs/BENCHMARK_RESULTS.md, each from its files in all machines' folders.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::section::{Machine, Table, is_gpu};
use super::sheet::Sheet;
use super::verbs::CPU_CASES;
use crate::peer_table::{shown, times};
use crate::statistics::median;
use crate::step_table::{ARITHMETICS, MODES};
use crate::table::digits;

const PRODUCT: &str = "matmul 1024x1024x1024";

/// The sheets of a file, with their machines.
fn sheets<'a>(machines: &'a [Machine], file: &str) -> Result<Vec<(&'a Machine, Sheet)>> {
    let mut found = Vec::new();
    for machine in machines {
        if let Some(sheet) = machine
            .sheet(file)
            .with_context(|| machine.folder.clone())?
        {
            found.push((machine, sheet));
        }
    }
    Ok(found)
}

/// The cell of a row as a number of four digits that count, or a dash.
fn number(sheet: &Sheet, row: &[String], column: &str) -> String {
    shown(sheet.number(row, column))
}

fn word(sheet: &Sheet, row: &[String], column: &str) -> String {
    match sheet.cell(row, column) {
        "" => "-".to_owned(),
        word => word.to_owned(),
    }
}

/// Which results of one program are equal: digests by program and work, once per device that it ran on.
struct Bits(BTreeMap<String, Vec<(String, String)>>);

impl Bits {
    /// `keys` are the columns that name the program and its work, the program first.
    fn of(sheets: &[(&Machine, Sheet)], keys: &[&str]) -> Self {
        let mut all: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (_, sheet) in sheets {
            for row in &sheet.rows {
                // PyTorch beside two devices of one machine runs on its CPU both times.
                let device = sheet.fact(sheet.cell(row, keys[0])).to_owned();
                let found = (device, sheet.cell(row, "sha256").to_owned());
                let known = all.entry(Self::key(sheet, row, keys)).or_default();
                if !known.contains(&found) && !found.1.is_empty() {
                    known.push(found);
                }
            }
        }
        Self(all)
    }

    fn key(sheet: &Sheet, row: &[String], keys: &[&str]) -> String {
        let cells = keys.iter().map(|key| sheet.cell(row, key));
        cells.collect::<Vec<_>>().join(" ")
    }

    /// On how many of the devices where the program was measured the bits are this row's.
    fn cell(&self, sheet: &Sheet, row: &[String], keys: &[&str]) -> String {
        let digest = sheet.cell(row, "sha256");
        let known = self.0.get(&Self::key(sheet, row, keys));
        match (digest, known) {
            ("", _) | (_, None) => "-".to_owned(),
            (digest, Some(known)) => {
                let equal = known.iter().filter(|(_, other)| other == digest).count();
                format!("{equal} of {}", known.len())
            }
        }
    }
}

/// The product of 1,024.
pub fn gemm(machines: &[Machine]) -> Result<Table> {
    let mut table = Table::new(
        "A product of 1,024",
        "C = A B of 1,024 x 1,024 in f32. A run is launched and waited for: 100 runs by the host's clock, and the median by the\n\
         device's own, where it has one. *Of many* is the time of one of many runs behind each other, from which the rate follows;\n\
         its power is the mean over 1.5 seconds. *Same bits* counts the devices on which this program gave this result, of those\n\
         where it was measured. Rows without a mean are of `hlx-bench peers`, which measures many runs alone.",
        "device|program|median ms|mean|deviation|min|max|device's clock|of many ms|TFLOP/s|W|same bits",
    );
    let mut all = sheets(machines, "gemm.csv")?;
    // A quick run has another size.
    all.retain(|(_, sheet)| sheet.fact("size") == "1024");
    let keys = ["program"];
    let bits = Bits::of(&all, &keys);
    for (machine, sheet) in &all {
        for row in &sheet.rows {
            let of = |column| number(sheet, row, column);
            let watts = word(sheet, row, "watts");
            table.add(
                &sheet.facts,
                [
                    word(sheet, row, "program"),
                    of("median_ms"),
                    of("mean_ms"),
                    of("deviation_ms"),
                    of("min_ms"),
                    of("max_ms"),
                    of("device_ms"),
                    of("row_ms"),
                    of("row_tflops"),
                    watts,
                    bits.cell(sheet, row, &keys),
                ],
            );
        }
        table.source(machine, "gemm.csv", &sheet.facts);
    }
    for machine in machines {
        let rows = &machine.operations.rows;
        let Some(row) = rows.iter().find(|row| row.case == PRODUCT) else {
            continue;
        };
        if all.iter().any(|(other, _)| other.folder == machine.folder) {
            continue;
        }
        let programs = [
            ("HLX", row.hlx_ms, row.hlx_watts),
            ("PyTorch", row.peer_ms, row.peer_watts),
            ("PyTorch, CUDA graph", row.prepared_ms, None),
        ];
        for (program, ms, watts) in programs.into_iter().filter(|(_, ms, _)| ms.is_some()) {
            let rate = ms.map(|ms| 2.0 * 1024_f64.powi(3) / ms * 1e-9);
            let mut cells = vec![program.to_owned()];
            cells.extend(std::iter::repeat_n("-".to_owned(), 6));
            cells.extend([shown(ms), shown(rate)]);
            cells.push(watts.map_or("-".to_owned(), |watts| format!("{watts:.0}")));
            cells.push("-".to_owned());
            table.add(&machine.operations.facts, cells);
        }
        table.source(machine, "peers.csv", &machine.operations.facts);
    }
    Ok(table)
}

/// Training steps beside PyTorch.
pub fn steps(machines: &[Machine]) -> Table {
    let mut table = Table::new(
        "Training steps",
        "Milliseconds of a step: upload of the batch, forward, backward, clip at 1.0, AdamW. HLX in its arithmetics, PyTorch in its modes:\n\
         f32 has HLX's precision, TF32 and bf16 round the operands of products.",
        "device|step|HLX `portable`|`integer`|`fast`|PyTorch f32 eager|f32 compiled|TF32 eager|TF32 compiled|bf16, CUDA graph|HLX W|PyTorch W",
    );
    debug_assert_eq!(ARITHMETICS.len() + MODES.len(), 7);
    for machine in machines
        .iter()
        .filter(|machine| !machine.steps.rows.is_empty())
    {
        for row in &machine.steps.rows {
            let watts = [row.hlx_watts, row.peer_watts];
            let watts =
                watts.map(|watts| watts.map_or("-".to_owned(), |watts| format!("{watts:.0}")));
            let mut cells = vec![row.name.clone(), shown(row.hlx_ms)];
            cells.extend(row.arithmetic_ms.map(shown));
            cells.extend(row.peer_ms.map(shown));
            cells.extend(watts);
            table.add(&machine.steps.facts, cells);
        }
        table.source(machine, "steps.csv", &machine.steps.facts);
    }
    table
}

/// Cold and warm calls by batch size.
pub fn starts(machines: &[Machine]) -> Result<Table> {
    let mut table = Table::new(
        "Cold and warm starts by batch size",
        "Milliseconds of a call of a transformer: ids from the host, logits of all positions on the device. *First*: in a fresh process\n\
         without any cache. *Cold*: the first call at this size on a newly opened device. *Warm*: every later call. PyTorch's cold call\n\
         is the first at its size in a running process, compiled with its compilation. *Digests* counts the results that the first\n\
         sequence had over all of HLX's calls at all sizes: 1 is what HLX promises.",
        "device|batch|HLX first|cold|warm|PyTorch eager cold|warm|compiled cold|warm|digests",
    );
    for (machine, sheet) in &sheets(machines, "batches.csv")? {
        let ours = sheet
            .rows
            .iter()
            .filter(|row| sheet.cell(row, "side") == "hlx");
        let mut digests: Vec<&str> = ours
            .clone()
            .flat_map(|row| sheet.cell(row, "row_0").split(' '))
            .collect();
        digests.sort_unstable();
        digests.dedup();
        let mut batches: Vec<&str> = ours.map(|row| sheet.cell(row, "batch")).collect();
        batches.dedup();
        for batch in batches {
            let of = |side: &str, call: &str| {
                let rows = sheet.rows.iter().filter(|row| {
                    let cells = ["side", "batch", "call"].map(|column| sheet.cell(row, column));
                    cells == [side, batch, call]
                });
                let ms: Vec<f64> = rows.filter_map(|row| sheet.number(row, "ms")).collect();
                shown((!ms.is_empty()).then(|| median(&ms)))
            };
            let mut cells = vec![batch.to_owned()];
            cells.extend(["first", "cold", "warm"].map(|call| of("hlx", call)));
            for side in ["pytorch eager", "pytorch compiled"] {
                cells.extend(["cold", "warm"].map(|call| of(side, call)));
            }
            cells.push(digests.len().to_string());
            table.add(&sheet.facts, cells);
        }
        table.source(machine, "batches.csv", &sheet.facts);
    }
    Ok(table)
}

/// Equal handles.
pub fn handles(machines: &[Machine]) -> Result<Table> {
    let mut table = Table::new(
        "Equal handles",
        "One contract product, run again and again; every 100 runs the device is opened anew. A handle is the SHA-256 of a result.",
        "device|product|equal handles|median ms|min|max|handle|same bits",
    );
    let all = sheets(machines, "handles.csv")?;
    let mut known: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (_, sheet) in &all {
        for row in &sheet.rows {
            *known
                .entry((sheet.cell(row, "size"), sheet.cell(row, "sha256")))
                .or_default() += 1;
        }
    }
    for (machine, sheet) in &all {
        let runs: f64 = sheet
            .rows
            .iter()
            .filter_map(|row| sheet.number(row, "runs"))
            .sum();
        for row in &sheet.rows {
            let (size, digest) = (sheet.cell(row, "size"), sheet.cell(row, "sha256"));
            let of_size = known.iter().filter(|((other, _), _)| *other == size);
            let n_devices: usize = of_size.map(|(_, count)| count).sum();
            table.add(
                &sheet.facts,
                [
                    format!("{size} x {size}"),
                    format!("{} of {runs}", sheet.cell(row, "runs")),
                    number(sheet, row, "median_ms"),
                    number(sheet, row, "min_ms"),
                    number(sheet, row, "max_ms"),
                    format!("`{}`", &digest[..16.min(digest.len())]),
                    format!("{} of {n_devices}", known[&(size, digest)]),
                ],
            );
        }
        table.source(machine, "handles.csv", &sheet.facts);
    }
    Ok(table)
}

/// Memory of training steps.
pub fn memory(machines: &[Machine]) -> Result<Table> {
    let mut table = Table::new(
        "Memory and the first step",
        "A training in a fresh process. *Held*: what the program says that it holds on the device, PyTorch its allocator's reserve.\n\
         *On the GPU*: the growth of the memory in use, by `nvidia-smi`. *On the host*: the process's peak. The first step counts from\n\
         the start of the process.",
        "device|step|program|held|on the GPU|on the host|first step s",
    );
    let bytes = |bytes: Option<f64>| match bytes {
        Some(bytes) if bytes > 0.0 => format!("{} GB", digits(bytes * 1e-9)),
        _ => "-".to_owned(),
    };
    for (machine, sheet) in &sheets(machines, "memory.csv")? {
        for row in &sheet.rows {
            let of = |column| bytes(sheet.number(row, column));
            table.add(
                &sheet.facts,
                [
                    word(sheet, row, "step"),
                    word(sheet, row, "program"),
                    of("held_bytes"),
                    of("device_bytes"),
                    of("resident_bytes"),
                    number(sheet, row, "first_step_s"),
                ],
            );
        }
        table.source(machine, "memory.csv", &sheet.facts);
    }
    for machine in machines {
        let starts = machine.operations.starts.iter();
        for start in starts
            .clone()
            .filter(|start| start.what.ends_with(", cold"))
        {
            let what = start.what.trim_end_matches(", cold");
            let (step, program) = what.split_once(", ").unwrap_or((what, "-"));
            table.add(
                &machine.operations.facts,
                [
                    step.to_owned(),
                    program.to_owned(),
                    bytes(start.held_bytes),
                    bytes(start.device_bytes),
                    "-".to_owned(),
                    digits(start.seconds),
                ],
            );
        }
        if starts.len() > 0 {
            table.source(machine, "start.csv", &machine.operations.facts);
        }
    }
    Ok(table)
}

/// Several devices.
pub fn ranks(machines: &[Machine]) -> Table {
    let mut table = Table::new(
        "Several GPUs",
        "Milliseconds of a training step on several devices of one machine, and in brackets times as fast as one. The bits are those\n\
         of one device. DDP is PyTorch's, with NCCL. Pictures and what was learnt: [ranks.md](benchmarks/ranks.md).",
        "device",
    );
    for machine in machines
        .iter()
        .filter(|machine| !machine.ranks.rows.is_empty())
    {
        table.add_text(&machine.ranks.facts, &machine.ranks.to_markdown());
        table.source(machine, "ranks.csv", &machine.ranks.facts);
    }
    table
}

/// The CPU.
pub fn cpu(machines: &[Machine]) -> Result<Table> {
    let mut table = Table::new(
        "The CPU",
        "HLX's CPU device, in `portable`, beside PyTorch (f32 eager) on the same threads.",
        "device|case|HLX ms|PyTorch ms|PyTorch / HLX",
    )
    .of_cpus();
    let row = |case: &str, hlx: Option<f64>, peer: Option<f64>| {
        let ratio = hlx.zip(peer).map(|(hlx, peer)| peer / hlx);
        [case.to_owned(), shown(hlx), shown(peer), times(ratio)]
    };
    for machine in machines {
        if let Some(sheet) = machine.sheet("cpu.csv")? {
            for cells in &sheet.rows {
                let [hlx, peer] = ["hlx_ms", "peer_ms"].map(|column| sheet.number(cells, column));
                table.add(&sheet.facts, row(sheet.cell(cells, "case"), hlx, peer));
            }
            table.source(machine, "cpu.csv", &sheet.facts);
        }
        let (operations, steps) = (&machine.operations, &machine.steps);
        if !is_gpu(&operations.facts) && !operations.rows.is_empty() {
            let chosen = operations
                .rows
                .iter()
                .filter(|row| CPU_CASES.contains(&row.case.as_str()));
            for found in chosen {
                table.add(
                    &operations.facts,
                    row(&found.case, found.hlx_ms, found.peer_ms),
                );
            }
            table.source(machine, "peers.csv", &operations.facts);
        }
        if !is_gpu(&steps.facts)
            && !steps
                .facts
                .iter()
                .any(|(_, value)| value.contains("llvmpipe"))
        {
            for found in &steps.rows {
                let name = format!("step {}", found.name);
                table.add(&steps.facts, row(&name, found.hlx_ms, found.peer_ms[0]));
            }
            if !steps.rows.is_empty() {
                table.source(machine, "steps.csv", &steps.facts);
            }
        }
    }
    Ok(table)
}

/// Tokens of language models.
pub fn generation(machines: &[Machine]) -> Result<Table> {
    let mut table = Table::new(
        "Generation",
        "One sequence, greedily, random weights of the model's shape. *A token* comes after the prompt, and the likeliest next one is on\n\
         the host; *the prompt* is computed at once. A device whose largest binding is too small for the vocabulary gets fewer rows of it,\n\
         as *vocabulary* says. More sequences, and what the arithmetic allows: [generation.md](benchmarks/generation.md).",
        "device|program|model|weights|arithmetic|layers|vocabulary|prompt's tokens|a token ms|tokens/s|the prompt ms",
    );
    for (machine, sheet) in &sheets(machines, "generation.csv")? {
        for row in &sheet.rows {
            let per_second = sheet.number(row, "token_ms").map(|ms| 1e3 / ms);
            let layers = match sheet.cell(row, "layers") {
                "32" => "all".to_owned(),
                layers => layers.to_owned(),
            };
            table.add(
                &sheet.facts,
                [
                    word(sheet, row, "program"),
                    word(sheet, row, "model"),
                    word(sheet, row, "weights"),
                    word(sheet, row, "arithmetic"),
                    layers,
                    word(sheet, row, "vocabulary"),
                    word(sheet, row, "tokens"),
                    number(sheet, row, "token_ms"),
                    shown(per_second),
                    number(sheet, row, "prompt_ms"),
                ],
            );
        }
        table.source(machine, "generation.csv", &sheet.facts);
    }
    Ok(table)
}

/// Other programs that train through Vulkan.
pub fn heads(machines: &[Machine]) -> Result<Table> {
    let mut table = Table::new(
        "Beside other programs on Vulkan",
        "The same product and the same models in programs that train through Vulkan, and in PyTorch as the reference. Burn clips the\n\
         gradient of each tensor by itself, the others all together; its shaders are SPIR-V of its own or WGSL, which also runs on\n\
         software drivers. tinygrad runs on Vulkan by WebGPU (Dawn). Beside a software driver PyTorch runs on the CPU. *Times HLX* is a\n\
         program's time over HLX's: above 1 HLX is faster. *Same bits* counts the devices on which a program gave this result (the\n\
         product, or all parameters after three steps from fixed weights), of those where it was measured.",
        "device|work|program|ms|per second|times HLX|same bits",
    );
    let all = sheets(machines, "heads.csv")?;
    let keys = ["program", "case"];
    let bits = Bits::of(&all, &keys);
    for (machine, sheet) in &all {
        let mut rows: Vec<&Vec<String>> = sheet.rows.iter().collect();
        let mut cases: Vec<&str> = Vec::new();
        for row in &sheet.rows {
            if !cases.contains(&sheet.cell(row, "case")) {
                cases.push(sheet.cell(row, "case"));
            }
        }
        rows.sort_by_key(|row| {
            cases
                .iter()
                .position(|case| *case == sheet.cell(row, "case"))
        });
        for row in rows {
            let case = sheet.cell(row, "case");
            let is_ours = |row: &&Vec<String>| {
                [sheet.cell(row, "program"), sheet.cell(row, "case")] == ["HLX", case]
            };
            let ours = sheet
                .rows
                .iter()
                .find(is_ours)
                .and_then(|row| sheet.number(row, "ms"));
            let ratio = sheet
                .number(row, "ms")
                .zip(ours)
                .map(|(ms, ours)| ms / ours);
            table.add(
                &sheet.facts,
                [
                    case.to_owned(),
                    word(sheet, row, "program"),
                    number(sheet, row, "ms"),
                    format!(
                        "{} {}",
                        number(sheet, row, "per_second"),
                        sheet.cell(row, "unit")
                    ),
                    times(ratio),
                    bits.cell(sheet, row, &keys),
                ],
            );
        }
        table.source(machine, "heads.csv", &sheet.facts);
    }
    Ok(table)
}
