//! HLX beside other programs that train through Vulkan, and PyTorch: milliseconds of the same work, and its bits.

use std::process::{Command, Stdio};

use anyhow::Result;
use hlx_core::DeviceKind;

use super::bench::Bench;
use super::sheet::Sheet;
use crate::side::{Session, number, value};
use crate::step::configuration;
use crate::{note, say};

const COLUMNS: &str = "program,case,ms,per_second,unit,sha256";

/// Rounds in which each program measures each case, of which the best counts; the first one tunes kernels.
const ROUNDS: usize = 2;

/// A program that speaks the protocol of serve.rs.
struct Program {
    name: &'static str,
    command: Command,
}

/// Measures all programs that run here: heads.csv has a row per program and case.
///
/// # Errors
/// What HLX's device reports. Another program that does not run here is left out, and says why.
pub fn measure(bench: &Bench) -> Result<()> {
    let cases: &[&str] = match bench.kind {
        _ if bench.quick => &["matmul 64x64x64", "step mlp", "step mini"],
        DeviceKind::VulkanGpu => &[
            "matmul 1024x1024x1024",
            "step mlp",
            "step tiny",
            "step medium",
        ],
        DeviceKind::Cpu => &["matmul 1024x1024x1024", "step mlp", "step tiny"],
        // Programs that choose kernels by trying them compile for an hour on a software driver.
        DeviceKind::VulkanSoftware => &["matmul 256x256x256", "step mlp"],
    };
    let mut sheet = Sheet::new(&bench.facts("peers")?, COLUMNS);
    for Program { name, mut command } in programs(bench)? {
        let mut session = match Session::ready(&mut command) {
            Ok(session) => session,
            Err(error) => {
                note!("{name} is left out: {error:#}");
                continue;
            }
        };
        let description = session.description.clone();
        sheet.facts.push((name.to_owned(), description));
        for case in cases {
            match answers(&mut session, case) {
                Ok((ms, digest)) => {
                    let (count, unit) = amount(case);
                    say!("{name:10} {case:24} {ms:.4} ms");
                    sheet.add([
                        name.to_owned(),
                        (*case).to_owned(),
                        format!("{ms:.4}"),
                        format!("{:.1}", count / ms * 1e3),
                        unit.to_owned(),
                        digest,
                    ]);
                    sheet.write(&bench.partial("heads.csv"))?;
                }
                Err(error) => {
                    note!("{name}, {case}: {error:#}");
                    // A program that has ended answers no further case.
                    if session.has_ended() {
                        break;
                    }
                }
            }
        }
        session.end()?;
    }
    sheet.write(&bench.partial("heads.csv"))
}

/// HLX, PyTorch, and those whose programs were packed.
fn programs(bench: &Bench) -> Result<Vec<Program>> {
    let piped = |mut command: Command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    };
    let mut own = Command::new(std::env::current_exe()?);
    own.args(["serve", "--device", &bench.device]);
    let mut torch = bench.python("peers.py")?;
    torch.args(["serve", "--device", bench.peer_device()]);
    let mut programs = vec![
        Program {
            name: "HLX",
            command: piped(own),
        },
        Program {
            name: "PyTorch",
            command: torch,
        },
    ];
    // Those on Vulkan stand beside HLX on Vulkan: on a GPU, or on the software driver.
    if bench.kind == DeviceKind::Cpu {
        return Ok(programs);
    }
    let kind = if bench.is_on_cpu() { "cpu" } else { "vulkan" };
    // Software drivers lack what the shaders in SPIR-V need.
    let burns: &[(&str, &str)] = match bench.is_on_cpu() {
        true => &[("Burn WGSL", "burn-peer-wgsl")],
        false => &[("Burn", "burn-peer"), ("Burn WGSL", "burn-peer-wgsl")],
    };
    for &(name, file) in burns {
        let program = bench.programs.join(file);
        if !program.is_file() {
            note!(
                "{name} is left out: {}: there is no such program",
                program.display()
            );
            continue;
        }
        let mut command = Command::new(program);
        command.args(["serve", "--device", kind]);
        programs.push(Program {
            name,
            command: piped(command),
        });
    }
    let packages = bench.programs.join("python");
    match packages.join("tinygrad").is_dir() {
        true => {
            let mut command = bench.python("tinygrad_peer.py")?;
            command
                .args(["serve", "--device", kind])
                .env("PYTHONPATH", &packages);
            programs.push(Program {
                name: "tinygrad",
                command,
            });
        }
        false => note!(
            "tinygrad is left out: {}: has no tinygrad",
            packages.display()
        ),
    }
    Ok(programs)
}

/// The milliseconds of a case, and SHA-256 of what it computes.
fn answers(session: &mut Session, case: &str) -> Result<(f64, String)> {
    let digest = session
        .request(&format!("digest {case}"))?
        .map_err(anyhow::Error::msg)?;
    let digest = value(&digest, "digest").unwrap_or_default().to_owned();
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let answer = session
            .request(&format!("run {case}"))?
            .map_err(anyhow::Error::msg)?;
        best = number(&answer, "ms").map_or(best, |ms| best.min(ms));
    }
    anyhow::ensure!(best.is_finite(), "an answer without ms");
    Ok((best, digest))
}

/// What a run computes: operations of a product, tokens or samples of a step.
fn amount(case: &str) -> (f64, &'static str) {
    let Some(name) = case.strip_prefix("step ") else {
        let sizes = case.split(' ').next_back().unwrap_or_default().split('x');
        let sizes: f64 = sizes.filter_map(|size| size.parse::<f64>().ok()).product();
        return (2e-9 * sizes, "GFLOP");
    };
    match configuration(name) {
        Some(found) => found.samples(),
        None => (1.0, "steps"),
    }
}
