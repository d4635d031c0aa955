//! Ranks as threads of the test: each has its own device and its own handle of the shared memory.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use hlx_core::Device;
use hlx_train::config::Config;
use hlx_train::ranks::{Group, Secret, SharedMemory};
use hlx_train::train::{Observer, Outcome, Silent, Start, TrainOptions, Trainer};

use crate::common::{Scratch, overrides};

/// The device of a rank.
pub const CPU: &str = "cpu";

/// Opens the device of a rank.
pub fn open(device: &str) -> Device {
    if device == CPU {
        return hlx_core::testing::cpu().expect("the CPU device opens");
    }
    let mut vulkan = hlx_core::testing::vulkan_devices().into_iter();
    vulkan.next().expect("a Vulkan device")
}

/// The first Vulkan device under test, if there is one.
pub fn vulkan() -> Option<String> {
    let vulkan = hlx_core::testing::vulkan_devices();
    vulkan.first().map(|device| device.info().selector.clone())
}

/// What a rank trains.
#[derive(Clone)]
pub struct Run {
    pub config: Config,
    pub start: Start,
    pub data_path: PathBuf,
}

impl Run {
    /// A new run in the folder `out`.
    pub fn new(place: &Scratch, out: &str, sets: &[&str]) -> Self {
        let config = Config::load(&place.join("config.toml"), &overrides(sets)).expect("loads");
        Self {
            data_path: place.join(&config.data.path),
            config,
            start: Start::New(place.join(out)),
        }
    }

    /// The run in the folder `out`, which continues.
    pub fn resumed(place: &Scratch, out: &str, sets: &[&str]) -> Self {
        Self {
            start: Start::Resume(place.join(out)),
            ..Self::new(place, out, sets)
        }
    }

    fn rank(&self, group: &Group, device: &str) -> Result<Outcome> {
        self.observed(group, device, &|_| Box::new(Silent))
    }

    /// Trains as a rank, with an observer that is made for its trainer.
    pub fn observed(
        &self,
        group: &Group,
        device: &str,
        observer: &dyn Fn(&Trainer) -> Box<dyn Observer>,
    ) -> Result<Outcome> {
        let options = TrainOptions {
            start: self.start.clone(),
            data_path: self.data_path.clone(),
        };
        let (device, config) = (open(device), self.config.clone());
        let mut trainer = Trainer::of_rank(&device, config, &options, group, true)?;
        let outcome = trainer.run(observer(&trainer).as_mut())?;
        group.leave()?;
        Ok(outcome)
    }
}

/// Calls a body as each of `n` ranks.
pub fn each<R: Send>(n: usize, body: impl Fn(usize, Group) -> R + Sync) -> Vec<R> {
    let secret = Secret::random().expect("random numbers");
    let folder = SharedMemory::create(n, &secret).expect("a folder");
    let (folder, secret, body) = (&folder, &secret, &body);
    let rank = |rank: usize| {
        let shared = Arc::new(SharedMemory::open(folder, rank, secret, |_| {}).expect("opens"));
        shared.connect(|| None).expect("connects");
        let group = Group::new(shared.clone());
        group.barrier().expect("all are there");
        if rank == 0 {
            shared.remove_folder();
        }
        body(rank, group)
    };
    std::thread::scope(|scope| {
        let rank = |number| scope.spawn(move || rank(number));
        let threads: Vec<_> = (0..n).map(rank).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, R>| thread.join().expect("a rank");
        threads.into_iter().map(join).collect()
    })
}

/// Trains a run on a device for each rank; one without others is alone.
pub fn train(run: &Run, devices: &[&str]) -> Result<Outcome> {
    if let [device] = devices {
        return run.rank(&Group::alone(), device);
    }
    let rank = |rank: usize, group: Group| {
        let outcome = run.rank(&group, devices[rank]);
        if let Err(error) = &outcome {
            group.fail(&format!("{error:#}"));
        }
        outcome
    };
    let outcomes = each(devices.len(), rank);
    let outcomes = outcomes.into_iter().collect::<Result<Vec<Outcome>>>()?;
    let first = &outcomes[0];
    for outcome in &outcomes {
        assert_eq!(outcome.digests, first.digests);
        // As text: a loss may be NaN.
        let losses = |one: &Outcome| format!("{:?} {:?}", one.train, one.held_out);
        assert_eq!(losses(outcome), losses(first));
    }
    Ok(first.clone())
}

/// What ranks that cannot begin together end with.
pub fn errors(runs: &[Run]) -> Vec<String> {
    let rank = |rank: usize, group: Group| {
        let error = runs[rank].rank(&group, CPU).expect_err("is refused");
        format!("{error:#}")
    };
    each(runs.len(), rank)
}
