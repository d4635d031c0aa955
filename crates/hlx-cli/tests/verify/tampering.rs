//! Changes a run's chain and checkpoints, and makes the digests that cover a change anew.

use std::fs;

use hlx_kernels::tree_digest::ListDigest;
use hlx_nn::{CausalLm, Model, StateDigest};
use hlx_train::config::Config;
use hlx_train::run::{Chain, ChainRecord, Checkpoint, Digests, State};

use super::common::Scratch;
use super::{TENSOR, checkpoint, cpu};

/// Reads the chain's records.
pub fn records(place: &Scratch) -> Vec<ChainRecord> {
    let chain = Chain::read(&place.join("run/chain.jsonl")).expect("reads");
    chain
        .records()
        .iter()
        .map(|proved| proved.record.clone())
        .collect()
}

/// Writes records as a chain whose links are right; returns their digests.
pub fn rechain(place: &Scratch, mut records: Vec<ChainRecord>) -> Vec<String> {
    let (mut text, mut digests) = (String::new(), vec![String::new()]);
    for record in &mut records {
        record.previous = digests.last().expect("one").clone();
        let (line, digest) = record.seal().expect("seals");
        text.push_str(&line);
        text.push('\n');
        digests.push(digest);
    }
    fs::write(place.join("run/chain.jsonl"), text).expect("writes");
    digests.split_off(1)
}

/// The tree digest of a state with other parameters than a record says.
fn state_of(model: &Model<CausalLm>, saved: &State) -> StateDigest {
    use hlx_kernels::tree_digest::{TensorRoot, tree_digest_f32};
    let weights = model.weights();
    let values = weights.download(weights.values()).expect("downloads");
    let parameters = weights.parameters().iter().zip(values);
    let parameters = parameters.map(|(parameter, values)| TensorRoot {
        name: parameter.name().to_owned(),
        shape: parameter.shape().to_vec(),
        root: tree_digest_f32(&values),
    });
    let parameters = ListDigest::new(parameters.collect());
    let root = |name: String| {
        let tensor = saved
            .optimizer
            .tensors
            .iter()
            .find(|tensor| tensor.name == name);
        let tensor = tensor.expect("a tensor");
        TensorRoot {
            name,
            shape: tensor.shape.clone(),
            root: tree_digest_f32(&tensor.values),
        }
    };
    let names = |buffer: &'static str| {
        let parameters = weights.parameters().iter();
        parameters.map(move |parameter| format!("{buffer}/{}", parameter.name()))
    };
    let optimizer = names("mean").chain(names("square")).map(root).collect();
    StateDigest {
        parameters,
        optimizer: ListDigest::new(optimizer),
    }
}

/// Flips a bit of a parameter in the checkpoint of step 4, and makes every digest that covers it
/// anew: the checkpoint's, and with `chain` the record's and those after it.
pub fn tamper(place: &Scratch, chain: bool) -> (u32, u32) {
    let path = checkpoint(place, 4);
    let old = Checkpoint::open(&path).expect("opens");
    let config = Config::load(&place.join("run/config.toml"), &[]).expect("loads");
    let model = Model::zeroed(&cpu(), |b| {
        CausalLm::new(b, &config.transformer(256).into())
    })
    .expect("makes");
    let weights = model.weights();
    let files = ["model.safetensors", "config.json", "state.bin"];
    let mut files = files.map(|name| (name, old.file(name).expect("a file").to_vec()));
    weights.load_safetensors(&files[0].1).expect("loads");
    let parameter = weights.get(TENSOR).expect("a parameter");
    let place_of = parameter
        .tensor()
        .expect("built")
        .buffer()
        .expect("dense")
        .slice(7, 1);
    let place_of = place_of.expect("an element");
    let word = cpu_word(&model, &place_of, None);
    cpu_word(&model, &place_of, Some(word ^ 1));
    files[0].1 = weights.to_safetensors().expect("writes");
    let mut digests = Digests {
        parameters: weights.digest().expect("digests"),
        ..old.digests.clone()
    };
    let mut records = records(place);
    if chain {
        let state = State::from_bytes(&files[2].1).expect("a state");
        let at = records
            .iter()
            .position(|record| record.step == 4)
            .expect("a record");
        let old = records[at].clone();
        let state = state_of(&model, &state);
        records[at] = ChainRecord::new(old.step, old.epoch, old.batch_idx, &state);
        records[at].losses = old.losses;
        records[at].norms = old.norms;
        let sealed = rechain(place, records);
        digests.record.clone_from(&sealed[at]);
        relink(place, 6, &sealed[at + 1]);
    }
    fs::remove_dir_all(&path).expect("removes");
    Checkpoint::write(&place.join("run/checkpoints"), digests, &files).expect("writes");
    (word ^ 1, word)
}

/// Reads or replaces a word of a model on the CPU device.
fn cpu_word(model: &Model<CausalLm>, place: &hlx_core::Buffer, new: Option<u32>) -> u32 {
    let device = model.weights().device();
    if let Some(word) = new {
        device.upload_words(place, &[word]).expect("uploads");
    }
    device.download_words(place).expect("downloads")[0]
}

/// Makes a checkpoint name another record.
pub fn relink(place: &Scratch, step: u64, record: &str) {
    let path = checkpoint(place, step);
    let old = Checkpoint::open(&path).expect("opens");
    let files = ["model.safetensors", "config.json", "state.bin"];
    let files = files.map(|name| (name, old.file(name).expect("a file").to_vec()));
    let digests = Digests {
        record: record.to_owned(),
        ..old.digests.clone()
    };
    fs::remove_dir_all(&path).expect("removes");
    Checkpoint::write(&place.join("run/checkpoints"), digests, &files).expect("writes");
}
