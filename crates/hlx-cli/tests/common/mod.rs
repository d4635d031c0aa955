//! What the tests of whole runs share: a small corpus, a small model, and the program.
#![allow(dead_code)]

pub mod forms;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use hlx_core::Device;
use hlx_nn::CausalConfig;
use hlx_train::config::{Config, Override};
use hlx_train::run::Digests;
use hlx_train::train::{Outcome, Silent, Start, TrainOptions, Trainer};

/// A small model and six steps: enough for every part of the loop, dropout and a last, short
/// batch among them, and little enough for a software Vulkan driver.
const CONFIG: &str = r#"seed = 7

[model]
width = 16
n_layers = 2
n_heads = 2
positions = 24
dropout = 0.1

[data]
path = "corpus.jsonl"
format = "pairs"

[train]
max_steps = 6
batch_size = 8
shards = 4
learning_rate = 0.01
warmup_steps = 2
label_smoothing = 0.05
log_every = 2
checkpoint_every = 0
"#;

/// Copies the files of a folder, and of those in it.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is made");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_folder(&path, &target),
            false => drop(fs::copy(&path, target).expect("copies")),
        }
    }
}

/// A GPT-2 of one block, whose Hugging Face files have other tensors than the module.
pub fn small_gpt2() -> CausalConfig {
    CausalConfig {
        vocabulary: 31,
        width: 12,
        n_layers: 1,
        n_heads: 3,
        n_kv_heads: 3,
        head_width: 4,
        feed_forward_width: 20,
        max_positions: 8,
        ..CausalConfig::preset("gpt2").expect("a preset")
    }
}

/// A small model of tokens, three steps of it on those of [`Scratch::prepare_tokens`].
pub const SMALL_MODEL: &str = r#"seed = 7

[model]
architecture = "qwen3"
width = 16
n_layers = 1
n_heads = 4
n_kv_heads = 2
feed_forward_width = 24
positions = 64

[data]
path = "tokens"
format = "shards"
length = 16

[train]
max_steps = 3
batch_size = 4
learning_rate = 0.01
checkpoint_every = 0
"#;

/// A folder of its own for a test, removed when the test ends.
pub struct Scratch {
    pub path: PathBuf,
}

impl Scratch {
    /// Makes the folder with `config.toml` and a corpus of 20 pairs.
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unique = format!("hlx-test-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the folder is made");
        let place = Self { path };
        place.write("config.toml", CONFIG);
        place.write("corpus.jsonl", &pairs());
        place
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path.join(name), text).expect("the file is written");
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Trains a tokenizer (`tokenizer.json`) and prepares two corpora with it: a text (`tokens`) and
    /// pairs (`pairs`).
    pub fn prepare_tokens(&self) {
        let line = "the river of light, 12 of them; it's lighter than the last one\n";
        self.write("a.txt", &line.repeat(40));
        let pair = |n: usize| {
            let input = "light ".repeat(n % 4 + 1);
            format!("{{\"input\": \"{input}{n}\", \"output\": \"the river {n}\"}}\n")
        };
        self.write("pairs.jsonl", &(0..40).map(pair).collect::<String>());
        let files = ["a.txt", "pairs.jsonl"];
        self.succeeds(&[&["tokenizer", "train", "--vocab", "280"], &files[..]].concat());
        for (out, from) in [("tokens", files[0]), ("pairs", files[1])] {
            let prepare = ["data", "prepare", "--tokenizer", "tokenizer.json"];
            self.succeeds(&[&prepare[..], &["-o", out, from]].concat());
        }
    }

    /// A folder with prepared tokens, a trained run (`run`) and the same model in Hugging Face's form (`hub`).
    pub fn exported(name: &str, config: &str) -> Self {
        let place = Self::new(name);
        place.write("config.toml", config);
        place.prepare_tokens();
        place.succeeds(&["train", "config.toml", "--out", "run"]);
        place.succeeds(&["export", "run", "hub"]);
        place
    }

    /// Trains in this process, in the folder `out`.
    pub fn train(&self, device: &Device, out: &str, sets: &[&str]) -> Outcome {
        self.trainer(device, out, sets)
            .run(&mut Silent)
            .expect("trains")
    }

    /// Prepares a run in this process.
    pub fn trainer(&self, device: &Device, out: &str, sets: &[&str]) -> Trainer {
        let config = Config::load(&self.join("config.toml"), &overrides(sets)).expect("loads");
        let data_path = self.join(&config.data.path);
        let options = TrainOptions {
            start: Start::New(self.join(out)),
            data_path,
        };
        Trainer::new(device, config, &options).expect("prepares")
    }

    /// The program in this folder, on the CPU device.
    pub fn hlx(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hlx"));
        command.current_dir(&self.path).args(arguments);
        command.env_remove("RUST_LOG").env("HLX_DEVICE", "cpu");
        hlx_core::testing::ran_on_cpu();
        command
    }

    /// Runs the program and fails unless it succeeds.
    pub fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.hlx(arguments).output().expect("the program starts");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Runs the program and returns the one line that it fails with.
    pub fn fails(&self, arguments: &[&str]) -> String {
        failure(self.hlx(arguments).output().expect("the program starts"))
    }

    /// The digests of a run's newest checkpoint, proved by the program.
    pub fn digests(&self, run: &str) -> Digests {
        let line = self.succeeds(&["digest", run, "--json"]);
        serde_json::from_str(&line).expect("digests")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The one line of a program that failed.
pub fn failure(output: Output) -> String {
    let stderr = text(&output.stderr);
    assert!(
        !output.status.success(),
        "must fail: {}",
        text(&output.stdout)
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    stderr.trim_end().to_owned()
}

pub fn overrides(sets: &[&str]) -> Vec<Override> {
    sets.iter()
        .map(|set| set.parse().expect("key=value"))
        .collect()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What two runs must share: parameters and optimizer state.
pub fn proof(digests: &Digests) -> (String, String) {
    (digests.parameters.clone(), digests.optimizer.clone())
}

/// The names and the bytes of all files under a folder.
pub fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.push((path.clone(), fs::read(&path).expect("a file")));
        }
    }
    found.sort();
    found
}

/// 20 pairs of different lengths and distinct inputs.
fn pairs() -> String {
    let words = ["one", "two", "three", "four", "five"];
    let pair = |n: usize| {
        let first = words[n % 5];
        let input = match n / 5 {
            0 => first.to_owned(),
            second => format!("{first} {}", words[second]),
        };
        format!(
            "{{\"input\": \"{input}\", \"output\": \"[{n},{}]\"}}\n",
            n * n
        )
    };
    (0..20).map(pair).collect()
}

/// Runs the program and returns its exit status, and what it printed.
pub fn status(place: &Scratch, arguments: &[&str]) -> (i32, String, String) {
    let output = place.hlx(arguments).output().expect("the program starts");
    let code = output.status.code().expect("a status");
    (code, text(&output.stdout), text(&output.stderr))
}
