//! The verb `check`: compiles the pipelines on all cores, and reports breaches and statistics.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use crate::driver::Driver;
use crate::jobs::{self, Job, MODES};
use crate::pipeline::{Code, compile};
use crate::rules;

/// The module by which HLX finds whether a device fuses.
const PROBE: &str = "probe/arithmetic";

/// Compiles and searches everything; returns how much is wrong.
pub fn run(arguments: &[String]) -> Result<usize, String> {
    let [list, output, which, modules @ ..] = arguments else {
        return Err("check: expected LIST OUTPUT first|all NAME FILE...".to_owned());
    };
    let rows = std::fs::read_to_string(list).map_err(|error| format!("{list}: {error}"))?;
    let rows = jobs::rows(&rows).map_err(|error| format!("{list}: {error}"))?;
    let modules = modules.chunks(2).map(read).collect::<Result<Vec<_>, _>>()?;
    let driver = Driver::open()?;
    let fuses = fuses(&driver, &modules)?;
    let has_matrices = driver.matrix.is_some();
    let (mut todo, mut wrong, mut left_out) = (Vec::new(), Vec::new(), 0);
    for (name, words) in &modules {
        if jobs::has_half_matrices(name) || jobs::has_matrices(name) && !has_matrices {
            left_out += 1;
            continue;
        }
        match jobs::of_module(name, words, &rows, driver.matrix, which == "all") {
            Ok(jobs) => todo.extend(jobs),
            Err(missing) => wrong.push(missing),
        }
    }
    let lines = compile_all(&driver, &todo, fuses);
    let rule = if fuses { "fuses" } else { "does not fuse" };
    let text: String = lines.iter().map(|line| line.text.as_str()).collect();
    let text = format!("{}\t{rule}\n{text}", driver.name);
    std::fs::write(output, text).map_err(|error| format!("{output}: {error}"))?;
    wrong.extend(lines.iter().flat_map(|line| line.breaches.clone()));
    wrong.iter().for_each(|breach| println!("{breach}"));
    let forbidden: usize = lines.iter().map(|line| line.breaches.len()).sum();
    let spilled = lines.iter().filter(|line| line.spills).count();
    let mut summary = format!(
        "{}: {} pipelines, {spilled} spill registers, {forbidden} forbidden instructions; it {rule} multiply-adds",
        driver.name,
        lines.len(),
    );
    if left_out > 0 {
        summary += &format!(
            "; {left_out} modules of matrices left out, which are of 16-bit floats, or of bytes where it has none"
        );
    }
    println!("{summary}");
    Ok(wrong.len())
}

/// A module: its name and words.
type Module = (String, Vec<u32>);

fn read(pair: &[String]) -> Result<Module, String> {
    let [name, file] = pair else {
        return Err("check: a name without a file".to_owned());
    };
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let words = hlx_spirv::words(&bytes).map_err(|error| format!("{name}: {error}"))?;
    Ok((name.clone(), words))
}

/// Whether the driver leaves a shader's `fma` whole for this chip, by the module that probes devices.
fn fuses(driver: &Driver, modules: &[Module]) -> Result<bool, String> {
    let probe = modules.iter().find(|(name, _)| name == PROBE);
    let (_, words) = probe.ok_or_else(|| format!("check: {PROBE} is not among the modules"))?;
    let code = compile(driver, words, &modes(true))?;
    Ok(rules::fuses(&code.assembly))
}

/// The constants of a device that flushes and fuses, or not: the probe has one that does not fuse emulate both.
fn modes(fuses: bool) -> [(u32, u32); 2] {
    MODES.map(|mode| (mode, u32::from(fuses)))
}

/// What is said of a pipeline: its line in the output, and its breaches.
struct Line {
    text: String,
    breaches: Vec<String>,
    spills: bool,
}

fn compile_all(driver: &Driver, todo: &[Job], fuses: bool) -> Vec<Line> {
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(Vec::new());
    let work = || {
        while let Some(job) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
            let line = (job.name(), line(driver, job, fuses));
            lines
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        }
    };
    let cores = available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 1..cores {
            scope.spawn(work);
        }
        work();
    });
    let mut lines = lines.into_inner().unwrap_or_else(PoisonError::into_inner);
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    lines.into_iter().map(|(_, line)| line).collect()
}

fn line(driver: &Driver, job: &Job, fuses: bool) -> Line {
    let constants = [&job.constants[..], &modes(fuses)].concat();
    let name = job.name();
    let code = match compile(driver, &job.words, &constants) {
        Ok(code) if code.assembly.is_empty() => Err("the driver gives no machine code".to_owned()),
        code => code,
    };
    match code {
        Ok(code) => {
            let found = rules::search(&code.assembly, fuses);
            let breaches = found.breaches.iter();
            Line {
                text: statistics(&name, &code, found.divisions),
                breaches: breaches.map(|breach| format!("{name}: {breach}")).collect(),
                spills: code.spilled > 0,
            }
        }
        Err(error) => Line {
            text: String::new(),
            breaches: vec![format!("{name}: {error}")],
            spills: false,
        },
    }
}

/// A line of the output: the pipeline, vector and scalar registers, spilled ones, bytes of scratch and
/// of shared memory, waves, bytes of code, divisions.
fn statistics(name: &str, code: &Code, divisions: usize) -> String {
    let numbers = [
        code.vector_registers,
        code.scalar_registers,
        code.spilled,
        code.scratch_bytes,
        code.shared_bytes,
        code.waves,
        code.code_bytes,
        divisions as u64,
    ];
    let numbers: String = numbers.iter().map(|number| format!("\t{number}")).collect();
    format!("{name}{numbers}\n")
}
