//! A run that an earlier version left (`fixtures/packed_run`: a model of the packed layout with every dropout, three
//! steps) opens, gives the logits that it gave, and goes on to the digests that it went on to.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Scratch, copy_folder, overrides};
use hlx_autograd::{Tensor, no_grad};
use hlx_core::Device;
use hlx_core::digest::sha256_hex;
use hlx_nn::{Mode, Module, load_language_model, model_files};
use hlx_train::config::Config;
use hlx_train::train::{Silent, Start, TrainOptions, Trainer};
use hlx_train::trained::Trained;

const WEIGHTS: &str = "28266ecd0572644a4e265d1f965d69365647f9f7268d5bc6fe0527ad12770b2c";
const LOGITS: &str = "87d7f053d0f6f22a298eb226dd1c0d8d67a2b013efd08ec0eb6a3c5ea9495ce2";

/// Parameters and optimizer's state two steps later.
const LATER: [&str; 2] = [
    "49c4ae914929e2d0cd373bf881697f3789f987dabbc2c7d6913c57c699920a78",
    "88bf28af6e631455840a342a149ddaab48a7232ccb85cfc03573968dbba65f54",
];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/packed_run")
}

/// The digest of the logits of fixed ids.
fn logits_digest(device: &Device, model: &dyn Module) -> String {
    let ids: Vec<u32> = (0..12).map(|n| n * 37 % 256).collect();
    let ids = Tensor::from_slice(device, &ids, &[2, 6]).expect("ids");
    let logits = no_grad(|| model.forward(&ids, &Mode::eval())).expect("logits");
    let values = logits.to_vec::<f32>().expect("downloads");
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    sha256_hex(&bytes)
}

#[test]
fn its_model_opens_with_the_same_logits_and_the_same_files() {
    let checkpoint = fixture().join("run/checkpoints/step-000003");
    for device in hlx_core::testing::own_devices() {
        let trained = Trained::open(&device, &fixture().join("run"), false).expect("opens");
        assert_eq!(trained.digests.parameters, WEIGHTS);
        assert_eq!(logits_digest(&device, trained.model.module()), LOGITS);
        let model = load_language_model(&device, &checkpoint).expect("opens");
        assert_eq!(logits_digest(&device, model.module()), LOGITS);
        for (name, bytes) in model_files(&model).expect("files") {
            let old = fs::read(checkpoint.join(name)).expect("a file");
            assert!(bytes == old, "{name}");
        }
    }
}

#[test]
fn it_goes_on_as_it_did() {
    for device in hlx_core::testing::own_devices() {
        let place = Scratch::new("older");
        copy_folder(&fixture(), &place.path);
        let more = overrides(&["train.max_steps=5"]);
        let config = Config::load(&place.join("run/config.toml"), &more).expect("loads");
        let options = TrainOptions {
            start: Start::Resume(place.join("run")),
            data_path: place.join("corpus.jsonl"),
        };
        let mut trainer = Trainer::new(&device, config, &options).expect("resumes");
        let outcome = trainer.run(&mut Silent).expect("trains");
        let found = [outcome.digests.parameters, outcome.digests.optimizer];
        assert_eq!(found, LATER, "{}", device.info());
    }
}
