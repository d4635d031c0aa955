//! The first difference of two runs: in their configurations, step by step in their chains, and tensor by tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail, ensure};
use hlx_core::digest::canonical_bits;
use hlx_train::run::{Bits, Chain, ChainRecord, Checkpoint, RunFolder};
use hlx_train::verify::{NamedTensor, Verification, checkpoint_tensors, tensor_names};
use serde::Serialize;

/// What a comparison found.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The folders.
    pub runs: [String; 2],
    /// Whether the chains hold the same bits as far as both go.
    pub equal: bool,
    /// Keys of the configurations that differ.
    pub configuration: Vec<KeyDifference>,
    /// Whether the corpora have the same digest.
    pub same_corpus: bool,
    /// The numbers of the specifications of the arithmetic that the runs follow.
    pub specifications: [u32; 2],
    /// The last step of each chain.
    pub last_steps: [u64; 2],
    /// Records of steps that both chains have a record of.
    pub common_records: u64,
    /// The step of the last of them up to which everything is equal; none where the first differs.
    pub equal_to: Option<u64>,
    /// The first difference.
    pub difference: Option<ChainDifference>,
}

/// A key that two configurations do not agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyDifference {
    /// The key, dotted.
    pub key: String,
    /// The values as TOML; none where the key is not set.
    pub values: [Option<String>; 2],
    /// Whether it decides the bits of a step.
    pub decides_bits: bool,
}

/// What of a step differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The loss, which is computed before the step's update.
    Loss,
    /// The gradient's norm.
    GradientNorm,
    /// The data cursor after the step.
    DataCursor,
    /// The parameters after the step.
    Parameters,
    /// The optimizer's state after the step.
    Optimizer,
}

impl Quantity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::GradientNorm => "gradient norm",
            Self::DataCursor => "data cursor",
            Self::Parameters => "parameters",
            Self::Optimizer => "optimizer's state",
        }
    }
}

/// The first difference of two chains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainDifference {
    /// The step.
    pub step: u64,
    /// What differs in it.
    pub what: Quantity,
    /// Both values: floats with their bits in hexadecimal, or digests.
    pub values: [String; 2],
    /// The step of the first common record with a tensor that differs, or of the recomputed state.
    pub state_step: Option<u64>,
    /// Where the tensors are known from.
    pub source: Option<Source>,
    /// Tensors of that state.
    pub n_tensors: u64,
    /// How many of them differ.
    pub n_differing: u64,
    /// The first that differs.
    pub tensor: Option<TensorDifference>,
}

/// Where a difference of tensors is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Records of the chains: 16 digits of each tensor's digest.
    Records,
    /// Checkpoints of one step.
    Checkpoints,
    /// Both runs were computed again.
    Recomputed,
}

/// The first tensor that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorDifference {
    /// Its name; `tensor 3` of a run whose names are not known.
    pub name: String,
    /// Its digests.
    pub digests: [String; 2],
    /// Its first element that differs, where the values are known.
    pub element: Option<ElementDifference>,
}

/// The first element that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ElementDifference {
    /// Its place, in row-major order.
    pub index: u64,
    /// Its bits, in hexadecimal.
    pub bits: [String; 2],
    /// Its values.
    pub values: [f32; 2],
    /// How many elements of the tensor differ.
    pub n_differing: u64,
    /// The greatest difference of two of its elements.
    pub greatest: f64,
}

/// Compares two runs by what their folders hold.
///
/// # Errors
/// A path that is no run folder, a damaged chain, and chains without a step in common; a run is named.
pub fn compare(paths: [&Path; 2]) -> Result<Comparison> {
    let folders = both(paths, RunFolder::open)?;
    let chains = both(paths, read_chain)?;
    let configuration = configuration(&folders)?;
    let origins = [chains[0].origin()?, chains[1].origin()?];
    let common = common(&chains);
    ensure!(
        !common.is_empty(),
        "{} and {} have no step in common: their chains go from step {} to {} and from {} to {}",
        paths[0].display(),
        paths[1].display(),
        ends(&chains[0]).0,
        ends(&chains[0]).1,
        ends(&chains[1]).0,
        ends(&chains[1]).1
    );
    let same_corpus = origins[0].data == origins[1].data;
    let mut difference = first_difference(&chains, &common);
    if let Some(difference) = &mut difference {
        add_tensors(difference, &folders, &common)?;
    }
    let equal_to = common.iter().map(|(step, _)| *step);
    let equal_to = equal_to.take_while(|step| {
        let first = difference.as_ref();
        first.is_none_or(|first| *step < first.step)
    });
    Ok(Comparison {
        runs: paths.map(|path| path.display().to_string()),
        equal: difference.is_none(),
        configuration,
        same_corpus,
        specifications: origins.map(|origin| origin.specification),
        last_steps: [ends(&chains[0]).1, ends(&chains[1]).1],
        common_records: common.len() as u64,
        equal_to: equal_to.last(),
        difference,
    })
}

fn both<T>(paths: [&Path; 2], read: impl Fn(&Path) -> Result<T>) -> Result<[T; 2]> {
    Ok([read(paths[0])?, read(paths[1])?])
}

fn read_chain(path: &Path) -> Result<Chain> {
    let file = RunFolder::open(path)?.chain_path();
    match file.exists() {
        true => Chain::read(&file),
        false => bail!(
            "{}: has no chain.jsonl, and nothing to compare its steps by",
            path.display()
        ),
    }
}

fn ends(chain: &Chain) -> (u64, u64) {
    let step =
        |record: Option<&hlx_train::run::ProvedRecord>| record.map_or(0, |it| it.record.step);
    (step(chain.records().first()), step(chain.records().last()))
}

/// The keys that differ, in their order.
fn configuration(folders: &[RunFolder; 2]) -> Result<Vec<KeyDifference>> {
    let configs = [folders[0].config()?, folders[1].config()?];
    let keys = [configs[0].keys()?, configs[1].keys()?];
    let identities = [configs[0].identity()?, configs[1].identity()?];
    let all: BTreeSet<&String> = keys.iter().flat_map(BTreeMap::keys).collect();
    let differing = all
        .into_iter()
        .filter(|key| keys[0].get(*key) != keys[1].get(*key));
    let difference = |key: &String| KeyDifference {
        key: key.clone(),
        values: [keys[0].get(key).cloned(), keys[1].get(key).cloned()],
        decides_bits: identities.iter().any(|identity| identity.contains_key(key)),
    };
    Ok(differing.map(difference).collect())
}

/// Pairs of records of one step, in order.
fn common(chains: &[Chain; 2]) -> Vec<(u64, [&ChainRecord; 2])> {
    let theirs: BTreeMap<u64, &ChainRecord> = records(&chains[1]).map(|it| (it.step, it)).collect();
    let ours = records(&chains[0]);
    let pairs = ours.filter_map(|record| Some((record.step, [record, *theirs.get(&record.step)?])));
    pairs.collect()
}

fn records(chain: &Chain) -> impl Iterator<Item = &ChainRecord> {
    chain.records().iter().map(|proved| &proved.record)
}

/// The losses and norms of every step that a chain has.
fn steps(chain: &Chain) -> BTreeMap<u64, (Bits, Bits)> {
    let mut steps = BTreeMap::new();
    for record in records(chain) {
        let first = record.step + 1 - record.losses.len() as u64;
        let bits = record.losses.iter().zip(&record.norms);
        steps.extend((first..).zip(bits.map(|(loss, norm)| (*loss, *norm))));
    }
    steps
}

/// The first step whose loss, norm or state differs; a loss and a norm come before the state after the step.
fn first_difference(
    chains: &[Chain; 2],
    common: &[(u64, [&ChainRecord; 2])],
) -> Option<ChainDifference> {
    let theirs = steps(&chains[1]);
    let in_step = steps(&chains[0])
        .into_iter()
        .find_map(|(step, (loss, norm))| {
            let (their_loss, their_norm) = *theirs.get(&step)?;
            let pairs = [
                (Quantity::Loss, loss, their_loss),
                (Quantity::GradientNorm, norm, their_norm),
            ];
            let unequal = pairs.into_iter().find(|(_, a, b)| a != b);
            unequal.map(|(what, a, b)| difference(step, what, [with_bits(a), with_bits(b)]))
        });
    let in_state = common.iter().find_map(|(step, pair)| {
        let cursor =
            |record: &ChainRecord| format!("epoch {}, batch {}", record.epoch, record.batch_idx);
        let of = |value: fn(&ChainRecord) -> String| [value(pair[0]), value(pair[1])];
        let pairs = [
            (Quantity::Parameters, of(|record| record.parameters.clone())),
            (Quantity::Optimizer, of(|record| record.optimizer.clone())),
            (Quantity::DataCursor, [cursor(pair[0]), cursor(pair[1])]),
        ];
        let unequal = pairs.into_iter().find(|(_, values)| values[0] != values[1]);
        unequal.map(|(what, values)| difference(*step, what, values))
    });
    match (in_step, in_state) {
        (Some(step), Some(state)) if state.step < step.step => Some(state),
        (Some(step), _) => Some(step),
        (None, state) => state,
    }
}

fn difference(step: u64, what: Quantity, values: [String; 2]) -> ChainDifference {
    ChainDifference {
        step,
        what,
        values,
        state_step: None,
        source: None,
        n_tensors: 0,
        n_differing: 0,
        tensor: None,
    }
}

fn with_bits(bits: Bits) -> String {
    format!("{} (bits {bits})", bits.value())
}

/// Names the first tensor that differs in the first common record that shows one, and its first element where both
/// runs have a checkpoint of that step.
fn add_tensors(
    difference: &mut ChainDifference,
    folders: &[RunFolder; 2],
    common: &[(u64, [&ChainRecord; 2])],
) -> Result<()> {
    let differs = |pair: &[&ChainRecord; 2]| pair[0].tensors != pair[1].tensors;
    let Some((step, [ours, theirs])) = common.iter().find(|(_, pair)| differs(pair)) else {
        return Ok(());
    };
    difference.state_step = Some(*step);
    if let Some(found) = of_checkpoints(folders, *step)? {
        add_difference(difference, Source::Checkpoints, &found[0], &found[1]);
        return Ok(());
    }
    difference.source = Some(Source::Records);
    difference.n_tensors = ours.tensors.len().max(theirs.tensors.len()) as u64;
    let pairs = ours.tensors.iter().zip(&theirs.tensors).enumerate();
    let unequal: Vec<_> = pairs.filter(|(_, (a, b))| a != b).collect();
    let without_partner = ours.tensors.len().abs_diff(theirs.tensors.len());
    difference.n_differing = (unequal.len() + without_partner) as u64;
    // Models of different sizes have no tensor in common by its place.
    if let (0, Some((place, (a, b)))) = (without_partner, unequal.first()) {
        let names = folders.iter().find_map(|folder| tensor_names(folder).ok());
        let names = names.filter(|names| names.len() == ours.tensors.len());
        difference.tensor = Some(TensorDifference {
            name: names.map_or_else(|| format!("tensor {place}"), |names| names[*place].clone()),
            digests: [(*a).clone(), (*b).clone()],
            element: None,
        });
    }
    Ok(())
}

/// The tensors of both runs' checkpoints of a step, where both have one.
fn of_checkpoints(folders: &[RunFolder; 2], step: u64) -> Result<Option<[Vec<NamedTensor>; 2]>> {
    let mut found = Vec::new();
    for folder in folders {
        let listed = folder.listed_checkpoints()?;
        let Some((_, path)) = listed.into_iter().find(|(at, _)| *at == step) else {
            return Ok(None);
        };
        found.push(checkpoint_tensors(
            &Checkpoint::open(&path)?,
            &folder.config()?,
        )?);
    }
    Ok(found.try_into().ok())
}

/// Fills in what of two states' tensors differs.
fn add_difference(
    difference: &mut ChainDifference,
    source: Source,
    ours: &[NamedTensor],
    theirs: &[NamedTensor],
) {
    let by_name: BTreeMap<&str, &NamedTensor> =
        theirs.iter().map(|one| (&one.name[..], one)).collect();
    let partner = |one: &NamedTensor| by_name.get(&one.name[..]).copied();
    let unequal = ours
        .iter()
        .filter(|one| partner(one).is_none_or(|other| other.digest != one.digest));
    let unequal: Vec<&NamedTensor> = unequal.collect();
    let names: BTreeSet<&str> = ours.iter().map(|one| &one.name[..]).collect();
    let alone = theirs
        .iter()
        .filter(|one| !names.contains(&one.name[..]))
        .count();
    difference.source = Some(source);
    difference.n_tensors = (ours.len() + alone) as u64;
    difference.n_differing = (unequal.len() + alone) as u64;
    difference.tensor = unequal.first().map(|one| {
        let other = partner(one);
        TensorDifference {
            name: one.name.clone(),
            digests: [
                one.digest.clone(),
                other.map_or_else(|| "no such tensor".to_owned(), |other| other.digest.clone()),
            ],
            element: other.and_then(|other| element(&one.values, &other.values)),
        }
    });
}

/// The first element that differs of two tensors of one size.
fn element(ours: &[f32], theirs: &[f32]) -> Option<ElementDifference> {
    if ours.len() != theirs.len() {
        return None;
    }
    let pairs = ours.iter().zip(theirs).enumerate();
    let unequal = pairs.filter(|(_, (a, b))| canonical_bits(**a) != canonical_bits(**b));
    let (mut first, mut n_differing, mut greatest) = (None, 0, 0.0_f64);
    for (index, (a, b)) in unequal {
        first = first.or(Some((index, *a, *b)));
        n_differing += 1;
        greatest = greatest.max((f64::from(*a) - f64::from(*b)).abs());
    }
    first.map(|(index, a, b)| ElementDifference {
        index: index as u64,
        bits: [a, b].map(|value| format!("{:08x}", value.to_bits())),
        values: [a, b],
        n_differing,
        greatest,
    })
}

/// Computes two runs that differ again, from the last common record that is equal, until their states differ: that
/// step, and the first tensor and element that differ, replace what the folders told. `done` is called after each
/// step of either run. Returns whether the recomputed runs differ at all.
///
/// # Errors
/// What the device reports.
pub fn recompute(
    comparison: &mut Comparison,
    mut runs: [Verification; 2],
    done: &mut dyn FnMut(u64),
) -> Result<bool> {
    let Some(difference) = &mut comparison.difference else {
        return Ok(false);
    };
    // A loss that differs shows a state that does, or another batch or seed.
    let last = difference.state_step.unwrap_or(difference.step);
    for step in comparison.equal_to.unwrap_or(0)..=last {
        for run in &mut runs {
            run.advance(step, done)?;
        }
        if runs[0].digests()? != runs[1].digests()? {
            let tensors = [runs[0].tensors()?, runs[1].tensors()?];
            difference.state_step = Some(step);
            add_difference(difference, Source::Recomputed, &tensors[0], &tensors[1]);
            return Ok(true);
        }
    }
    Ok(false)
}
