//! `cargo xtask storm`: kills training runs at random moments, resumes them, and compares their
//! digests with those of the run left alone.

mod crew;
mod place;
mod random;
mod verbs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::command;
use crate::mpi::{LAUNCHERS, Launcher};
use crew::Crew;
use place::{Ended, Place};
use random::Random;
use verbs::{VERBS, Verbs};

pub const HELP: &str = "\
cargo xtask storm [--kills N] [--seconds S] [--device cpu|vulkan] [--ranks R]
                  [--mpi openmpi|mpich] [--seed X] [--verb V]

Trains many short runs and kills each at random moments (SIGKILL), until N kills are done or S
seconds have passed. A killed run is resumed until it ends. Every run must end in the digests of the
run left alone, `hlx verify` must find it equal, no resumption may be refused, and no checkpoint may
be lost. Without --device one kill in 8 goes to a Vulkan device, if there is one, and the others to
the CPU. The seed decides the moments; it is printed.

With --verb it kills a verb that writes a folder: `import`, `export` and `lora --merge` while they
replace the folder of another model, `prepare` at its work. After each kill the folder must read as
the old one or the new one, and the next call must make it the new one.

  --kills N      20 if left out
  --seconds S    no limit if left out
  --ranks R      each start has 1, 2, 4, ... up to R ranks on the CPU (R up to 4), one of which is
                 killed; the others must end within 30 s. 1 if left out
  --mpi L        the launcher that starts the ranks; `hlx train --devices` if left out
  --device D     cpu or vulkan
  --verb V       import, export, lora or prepare; on the CPU";

/// Kills of a storm without `--kills`.
const KILLS: u64 = 20;

/// What was requested.
struct Options {
    kills: u64,
    limit: Option<Duration>,
    devices: Vec<&'static str>,
    seed: u64,
    ranks: usize,
    launcher: Option<&'static Launcher>,
    verb: Option<&'static str>,
}

impl Options {
    /// The kills and the time of each device. A start on a software Vulkan driver takes several
    /// seconds, nearly all of them in its compiler, so Vulkan has one kill in 8 and half the time.
    fn shares(&self) -> Vec<(&'static str, u64, Option<Duration>)> {
        let vulkan = (self.kills / 8).max(1).min(self.kills);
        match self.devices.as_slice() {
            [device] => vec![(*device, self.kills, self.limit)],
            devices => {
                let kills = [self.kills - vulkan, vulkan];
                let limit = self.limit.map(|limit| limit / 2);
                let shares = devices.iter().zip(kills);
                shares
                    .map(|(device, kills)| (*device, kills, limit))
                    .collect()
            }
        }
    }

    /// Leaves Vulkan out if it was not requested and there is no device.
    fn with_devices(mut self, program: &Path) -> Result<Self, String> {
        if self.devices.is_empty() {
            let mut doctor = std::process::Command::new(program);
            let said = command::capture("hlx doctor", doctor.arg("doctor"))?;
            self.devices = vec!["cpu"];
            if said.contains("[vulkan") {
                self.devices.push("vulkan");
            } else {
                println!("no Vulkan device found: CPU alone");
            }
        }
        Ok(self)
    }
}

/// What a storm has done.
#[derive(Default)]
struct Count {
    kills: u64,
    ended: u64,
    phases: BTreeMap<&'static str, u64>,
}

pub fn run(args: &[String]) -> Outcome {
    let mut options = read(args)?;
    if options.launcher.is_some() && options.ranks < 2 {
        return Err("--mpi: starts several ranks; give --ranks 2 or 4 with it".to_owned());
    }
    if !matches!(options.ranks, 1 | 2 | 4) {
        return Err(format!("--ranks: {} is none of 1, 2 and 4", options.ranks));
    }
    if options.ranks > 1 {
        options.devices = vec!["cpu"];
    }
    let root = command::root();
    command::build("hlx", &["-p", "hlx-cli"])?;
    let program = command::built("hlx");
    if options.verb.is_some() {
        options.devices = vec!["cpu"];
    }
    let options = options.with_devices(&program)?;
    println!("seed {}", options.seed);
    let folder = root.join(format!("target/storm-{}", std::process::id()));
    let program = own_copy(&program, &folder)?;
    let mut random = Random::new(options.seed);
    let begun = Instant::now();
    let mut total = Count::default();
    if let Some(verb) = options.verb {
        let verbs = Verbs::new(&folder.join("verbs"), &program)?;
        verbs.storm(verb, options.kills, &mut random, &mut total)?;
        remove(&folder)?;
        let seconds = begun.elapsed().as_secs_f64();
        let (kills, ended) = (total.kills, total.ended);
        println!("{kills} kills, {ended} calls ended before theirs ({seconds:.0} s); killed");
        print_phases(&total);
        return Ok(0);
    }
    for (device, kills, limit) in options.shares() {
        let place = Place::new(&folder.join(device), &program, device)?;
        storm(&place, kills, limit, &options, &mut random, &mut total)?;
    }
    remove(&folder)?;
    summarise(&total, begun.elapsed());
    Ok(0)
}

/// Copies the program into the storm's folder: a build during the storm does not change it.
fn own_copy(program: &Path, folder: &Path) -> Result<PathBuf, String> {
    let copy = folder.join(format!("hlx{}", std::env::consts::EXE_SUFFIX));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::copy(program, &copy))
        .map_err(|error| format!("{}: {error}", copy.display()))?;
    Ok(copy)
}

/// Kills and resumes runs on one device.
fn storm(
    place: &Place,
    kills: u64,
    limit: Option<Duration>,
    options: &Options,
    random: &mut Random,
    total: &mut Count,
) -> Result<(), String> {
    println!(
        "{}: the run left alone takes {:.2} s and ends in parameters {}",
        place.device(),
        place.duration().as_secs_f64(),
        &place.expected()[..16]
    );
    let (begun, mut done) = (Instant::now(), 0);
    let mut number = 0;
    let is_over = |done: u64| done >= kills || limit.is_some_and(|limit| begun.elapsed() >= limit);
    while !is_over(done) {
        let run = place.join(&format!("run-{number}"));
        number += 1;
        loop {
            // Once the storm is over, its last run is left to end.
            // Under MPI most of a short run's time is the launcher's.
            let launch = options
                .launcher
                .map_or(Duration::ZERO, |_| Duration::from_secs(1));
            let moment = (!is_over(done)).then(|| random.below(place.duration() + launch));
            match place.attempt(
                &run,
                moment,
                Crew::random(options.ranks, options.launcher, random),
            )? {
                Ended::Killed(phase) => {
                    done += 1;
                    total.kills += 1;
                    *total.phases.entry(phase).or_default() += 1;
                    if done % (kills / 10).max(1) == 0 {
                        report(place.device(), done, kills, begun);
                    }
                }
                Ended::Whole => break,
            }
        }
        place.check(&run)?;
        total.ended += 1;
        remove(&run)?;
    }
    Ok(())
}

fn report(device: &str, done: u64, kills: u64, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    println!("{device}: {done} of {kills} kills in {seconds:.0} s");
}

fn summarise(total: &Count, elapsed: Duration) {
    println!(
        "{} kills, {} runs, all ended in the digests of the run left alone ({:.0} s); killed",
        total.kills,
        total.ended,
        elapsed.as_secs_f64()
    );
    print_phases(total);
}

fn print_phases(total: &Count) {
    for (phase, count) in &total.phases {
        println!("  {count:>5}  {phase}");
    }
}

fn remove(folder: &Path) -> Result<(), String> {
    std::fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn read(args: &[String]) -> Result<Options, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut options = Options {
        kills: KILLS,
        limit: None,
        devices: Vec::new(),
        ranks: 1,
        launcher: None,
        verb: None,
        seed: now.map_or(0, |now| now.as_nanos() as u64),
    };
    let mut rest = args.iter();
    while let Some(option) = rest.next() {
        let value = rest.next();
        let value = value.ok_or_else(|| format!("{option}: a value is missing"))?;
        let number = || {
            let parsed = value.parse::<u64>();
            parsed.map_err(|_| format!("{option}: `{value}` is no whole number"))
        };
        match option.as_str() {
            "--kills" => options.kills = number()?,
            "--seconds" => options.limit = Some(Duration::from_secs(number()?)),
            "--seed" => options.seed = number()?,
            "--ranks" => options.ranks = number()? as usize,
            "--mpi" => {
                let known = LAUNCHERS.iter().find(|launcher| launcher.name == value);
                options.launcher = Some(known.ok_or("--mpi: expected openmpi or mpich")?);
            }
            "--verb" => {
                let known = VERBS.iter().find(|verb| *verb == value);
                let known =
                    known.ok_or_else(|| format!("--verb: `{value}` is none of {VERBS:?}"))?;
                options.verb = Some(*known);
            }
            "--device" => {
                options.devices = match value.as_str() {
                    "cpu" => vec!["cpu"],
                    "vulkan" => vec!["vulkan"],
                    other => return Err(format!("--device: `{other}` is neither cpu nor vulkan")),
                }
            }
            other => return Err(format!("unknown option `{other}`\n\n{HELP}")),
        }
    }
    Ok(options)
}
