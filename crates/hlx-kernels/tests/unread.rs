//! What a kernel must not read: words that an operation's specification does not read change no bit of its result.
//!
//! A body makes buffers, launches, and collects the parts of the results that the specification defines. It runs on
//! every device, in every way that a [`Tuning`](hlx_core::Tuning) can choose, with ordinary numbers, NaN,
//! infinities and the largest numbers where nothing is read: hidden keys, padding, empty samples, unused rows, words
//! around each buffer, freed memory. All must have the CPU's bits over ordinary numbers. With infinities and NaN among what
//! is read, too, all must have the CPU's bits over the same.
//!
//! `every_shader_is_launched` counts the modules that the bodies have launched: one that no body reaches fails it.

#![allow(clippy::print_stderr)] // The times of single bodies, where they are wanted.

#[path = "unread/attention.rs"]
mod attention;
#[path = "unread/blocks.rs"]
mod blocks;
#[path = "unread/caches.rs"]
mod caches;
#[path = "unread/cases.rs"]
mod cases;
#[path = "unread/elements.rs"]
mod elements;
#[path = "unread/faults.rs"]
mod faults;
#[path = "unread/halves.rs"]
mod halves;
#[path = "unread/images.rs"]
mod images;
#[path = "unread/products.rs"]
mod products;
#[path = "unread/rows.rs"]
mod rows;
#[path = "unread/run.rs"]
mod run;
#[path = "unread/tables.rs"]
mod tables;
#[path = "unread/ways.rs"]
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hlx_core::cpu::{SimdLevel, simd_levels};
use hlx_core::testing::{launched_shaders, own_devices};
use hlx_core::{Device, Half, IntegerPath};
use hlx_kernels::{KernelError, SHADER_DIGESTS};
use run::{Body, Filler, Given, Run, Specials};
use ways::{OWN, Way};

/// A body with the ways in which it runs.
pub struct Entry {
    name: String,
    ways: &'static [Way],
    body: Box<Body>,
}

impl Entry {
    fn new(
        name: &str,
        ways: &'static [Way],
        body: impl Fn(&mut Run<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            ways,
            body: Box::new(body),
        }
    }

    /// Runs the body everywhere; returns what is wrong, a line for each way on a device.
    fn faults(&self, devices: &[Device]) -> Vec<String> {
        let mut faults: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        for specials in references() {
            let given = |filler| Given { filler, specials };
            let expected = match self.run(&devices[0], given(Filler::Ordinary)) {
                Ok(expected) => expected,
                Err(reason) => {
                    faults.entry((0, 0)).or_default().push(reason);
                    continue;
                }
            };
            for (index, device) in devices.iter().enumerate() {
                for (number, way) in self.ways().enumerate() {
                    let Some(tuned) = way.of(device) else {
                        continue;
                    };
                    let fillers = fillers(specials, number > 0, device.is_cpu());
                    let found = fillers.iter().find_map(|&filler| {
                        let found = self.run(&tuned, given(filler));
                        let reason = match found {
                            Ok(found) => difference(&expected, &found)?,
                            Err(reason) => reason,
                        };
                        Some(format!("{}: {reason}", given(filler)))
                    });
                    faults.entry((index, number)).or_default().extend(found);
                }
            }
        }
        let line = |((index, number), faults): ((usize, usize), Vec<String>)| {
            let (first, way) = (faults.first()?, self.ways().nth(number)?);
            let device = &devices[index].info().selector;
            let (name, way, n) = (&self.name, way.name, faults.len());
            Some(format!(
                "{name} on {device}, {way}: {n} runs, the first with {first}"
            ))
        };
        faults.into_iter().filter_map(line).collect()
    }

    fn ways(&self) -> impl Iterator<Item = &Way> {
        [&OWN].into_iter().chain(self.ways)
    }

    fn run(&self, device: &Device, given: Given) -> Result<Vec<Vec<u32>>, String> {
        let run = || Run::outputs(device, given, &*self.body);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(outputs)) => Ok(outputs),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(match panic.downcast_ref::<String>() {
                Some(text) => text.clone(),
                None => "it panicked".to_owned(),
            }),
        }
    }
}

/// The numbers that are read: ordinary ones, and with specials among them.
fn references() -> impl Iterator<Item = Option<Specials>> {
    [None]
        .into_iter()
        .chain((0..Specials::COUNT).map(|n| Some(Specials(n))))
}

/// What fills unread words beside these, under the device's own tuning or another one: all fillers once, then fewer;
/// the CPU's kernels look at few fields of a tuning.
fn fillers(specials: Option<Specials>, tuned: bool, on_cpu: bool) -> &'static [Filler] {
    match (specials, tuned) {
        (None, false) => &Filler::AWKWARD,
        (None, true) if on_cpu => &Filler::AWKWARD[..1],
        (None, true) => &Filler::AWKWARD[..2],
        (Some(Specials(n)), false) => &Filler::AWKWARD[n % 3..][..1],
        (Some(Specials(n)), true) if n < 3 && !on_cpu => &Filler::AWKWARD[n..][..1],
        (Some(_), true) => &[],
    }
}

/// The first word that differs.
fn difference(expected: &[Vec<u32>], found: &[Vec<u32>]) -> Option<String> {
    if expected.len() != found.len() {
        return Some(format!(
            "{} results, expected {}",
            found.len(),
            expected.len()
        ));
    }
    let pairs = expected.iter().zip(found).enumerate();
    pairs.into_iter().find_map(|(result, (expected, found))| {
        let differ = expected.iter().zip(found).filter(|(e, f)| e != f).count();
        let at = expected.iter().zip(found).position(|(e, f)| e != f)?;
        let [want, got] = [expected[at], found[at]];
        let [want_f32, got_f32] = [want, got].map(f32::from_bits);
        Some(format!(
            "result {result}, {differ} of {} words, word {at}: {got:#010x} ({got_f32:e}), \
             expected {want:#010x} ({want_f32:e})",
            expected.len()
        ))
    })
}

/// Runs entries on devices of their own, two at a time; returns the faults and the shaders that were launched.
/// `HLX_UNREAD` limits them to those whose names hold one of its parts between bars, and prints their times.
fn run_all(mut entries: Vec<Entry>) -> (Vec<String>, BTreeSet<&'static str>) {
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let launched = Mutex::new(BTreeSet::new());
    let only = std::env::var("HLX_UNREAD").ok();
    if let Some(only) = &only {
        entries.retain(|entry| only.split('|').any(|part| entry.name.contains(part)));
    }
    let work = || {
        let devices = own_devices();
        while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let start = Instant::now();
            let found = entry.faults(&devices);
            if only.is_some() {
                let seconds = start.elapsed().as_secs_f64();
                let lines: String = found.iter().map(|fault| format!("\n  {fault}")).collect();
                eprintln!("{seconds:8.2} s: {}{lines}", entry.name);
            }
            faults.lock().expect("a lock").extend(found);
        }
        for device in &devices {
            launched
                .lock()
                .expect("a lock")
                .extend(launched_shaders(device).into_keys());
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let unlocked = (faults.into_inner(), launched.into_inner());
    (unlocked.0.expect("a lock"), unlocked.1.expect("a lock"))
}

fn assert_none(faults: &[String]) {
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Whether no way on this device launches a module, or what it does not read may change its results.
fn is_missing_here(module: &str, device: &Device) -> bool {
    let paths = device.integer_paths();
    let matrices = |narrow: bool| {
        paths
            .iter()
            .any(|path| matches!(path, IntegerPath::Matrices(shape) if shape.is_narrow() == narrow))
    };
    if module.ends_with("matrices_words") {
        return !matrices(true);
    }
    if module.starts_with("attention/half_") {
        return true;
    }
    for half in Half::ALL {
        if module.ends_with(&format!("matrices_{}", half.dtype().name())) {
            return device.half_matrices(half).is_none();
        }
    }
    if module.ends_with("matrices") {
        return !matrices(false);
    }
    if module.ends_with("_dots") {
        return !paths.contains(&IntegerPath::Dots);
    }
    match module {
        "conv2d/round_patches" => Half::ALL
            .iter()
            .all(|half| device.half_matrices(*half).is_none()),
        // Its tile takes 40 KiB.
        "attention/backward_key_value_32" => device.info().shared_memory_bytes < 40_960,
        // Its rows are read by matrices of halves alone, in which a NaN reaches queries that see another key of its block.
        "attention/round_heads" => true,
        _ => false,
    }
}

/// The crate's modules, by the list that `cargo xtask shaders` writes; the folders named here belong to the crates of
/// devices and of proofs.
fn modules() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 4] = ["arith/", "examples/", "peak/", "probe/"];
    let lines = SHADER_DIGESTS.lines().filter(|line| !line.starts_with('#'));
    let modules = lines.filter_map(|line| line.split(' ').next());
    modules.filter(|module| !OTHERS.iter().any(|other| module.starts_with(other)))
}

/// All bodies.
fn entries() -> Vec<Entry> {
    let mut entries = elements::entries();
    entries.extend(rows::entries());
    entries.extend(blocks::entries());
    entries.extend(products::entries());
    entries.extend(halves::entries());
    entries.extend(images::entries());
    entries.extend(tables::entries());
    entries.extend(attention::entries());
    entries.extend(caches::entries());
    entries
}

#[test]
fn every_shader_is_launched_and_unread_words_change_no_bit() {
    let (mut faults, launched) = run_all(entries());
    let devices = hlx_core::testing::vulkan_devices();
    if std::env::var_os("HLX_UNREAD").is_some() {
        eprintln!("launched: {launched:?}");
    } else if let Some(device) = devices.first() {
        let unreached = modules().filter(|module| !launched.contains(module));
        let unreached = unreached.filter(|module| !is_missing_here(module, device));
        faults.extend(unreached.map(|module| format!("{module} is launched by no body")));
    }
    assert_none(&faults);
}

/// What makes the test below print its digest, in a program of its own for each instruction set.
const PRINTS: &str = "HLX_UNREAD_DIGEST";

/// A digest of all outputs of the CPU device where unread words are NaN, with and without specials among the others.
fn cpu_digest() -> u64 {
    let (device, mut hasher) = (
        hlx_core::testing::cpu().expect("the CPU device"),
        DefaultHasher::new(),
    );
    for entry in entries() {
        for specials in [None, Some(Specials(0))] {
            let given = Given {
                filler: Filler::Nan,
                specials,
            };
            entry
                .run(&device, given)
                .expect("outputs")
                .hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[test]
fn every_instruction_set_of_the_cpu_has_the_same_bits() {
    const NAME: &str = "every_instruction_set_of_the_cpu_has_the_same_bits";
    if std::env::var_os(PRINTS).is_some() {
        println!("digest {:016x}", cpu_digest());
        return;
    }
    let digest = |level: SimdLevel| {
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program)
            .args(["--exact", NAME, "--nocapture"])
            .env("HLX_SIMD", level.name())
            .env(PRINTS, "1")
            .output()
            .expect("the program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split_once("digest "));
        line.map_or_else(
            || panic!("{level:?}: {text}"),
            |(_, digest)| digest.to_owned(),
        )
    };
    let digests: Vec<_> = simd_levels()
        .into_iter()
        .map(|level| (level, digest(level)))
        .collect();
    let first = &digests[0].1;
    assert!(
        digests.iter().all(|(_, digest)| digest == first),
        "{digests:?}"
    );
    hlx_core::testing::ran_on_cpu();
}
