//! Runs that classify images: the same bits on every device, stopped and resumed, in any micro-batches,
//! verified, evaluated; and what their configurations may be.

mod common;

use common::{Scratch, proof, status};
use hlx_core::Device;
use hlx_data::ImageSet;
use hlx_train::config::Config;
use hlx_train::run::{Metric, read_metrics};
use hlx_train::train::Outcome;

/// 58 drawn digits, of which 11 are held out: batches of 16, 16 and 15, dropout, shifts and noise.
const CNN: &str = r#"seed = 7

[model]
kind = "cnn"
channels = [3, 4]
hidden = [12]
dropout = 0.2

[data]
format = "digits"
count = 58
eval_fraction = 0.2
mean = 0.1307
std = 0.3081
crop_padding = 1
noise = 0.05

[train]
max_steps = 5
batch_size = 16
shards = 4
learning_rate = 0.01
label_smoothing = 0.05
log_every = 2
checkpoint_every = 2
"#;

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

fn place(name: &str) -> Scratch {
    let place = Scratch::new(name);
    place.write("config.toml", CNN);
    place
}

#[test]
fn every_device_and_every_micro_batch_gives_the_same_bits() {
    let place = place("images");
    let portable = the_same_bits(&place, "portable");
    let integer = the_same_bits(&place, "integer");
    assert_ne!(proof(&portable.digests), proof(&integer.digests));
}

fn the_same_bits(place: &Scratch, arithmetic: &str) -> Outcome {
    let train = |device: &Device, out: &str, sets: &[&str]| {
        let own = format!("arithmetic=\"{arithmetic}\"");
        let sets = [&[&own[..]], sets].concat();
        place.train(device, &format!("{arithmetic}-{out}"), &sets)
    };
    let reference = train(&cpu(), "reference", &[]);
    // 47 images are trained on: the third batch begins with an empty sample.
    let check = |device: &Device, out: &str, sets: &[&str]| {
        let outcome: Outcome = train(device, out, sets);
        let device = device.info();
        assert_eq!(
            proof(&outcome.digests),
            proof(&reference.digests),
            "{arithmetic} {out} {device}"
        );
        assert_eq!(outcome.held_out, reference.held_out, "{out} {device}");
    };
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        check(device, &format!("device-{number}"), &[]);
        let micro = ["train.micro_batch_size=8"];
        check(device, &format!("micro-{number}"), &micro);
    }
    // Less than a shard, where none has exponents of its own.
    if arithmetic == "portable" {
        check(&cpu(), "parts", &["train.micro_batch_size=2"]);
    }
    check(&cpu(), "no-workers", &["data.workers=0"]);
    check(&cpu(), "workers", &["data.workers=3"]);
    let other = train(&cpu(), "other", &["train.shards=2"]);
    assert_ne!(proof(&other.digests), proof(&reference.digests));
    reference
}

#[test]
fn a_run_is_resumed_verified_and_evaluated_by_the_program() {
    let place = place("images-program");
    place.succeeds(&["train", "config.toml", "--out", "whole"]);
    let text = std::fs::read_to_string(place.join("whole/config.toml")).expect("reads");
    Config::parse(&text, "whole/config.toml", &[]).expect("is whole");
    let (code, stdout, stderr) = status(&place, &["verify", "whole"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("equal      up to step 5"), "{stdout}");
    // Stopped after 4 steps, and gone on with.
    let checkpoints = place.join("whole/checkpoints");
    let before = place.digests("whole");
    std::fs::remove_dir_all(checkpoints.join("step-000005")).expect("removes");
    place.succeeds(&["train", "config.toml", "--out", "whole", "--resume"]);
    assert_eq!(proof(&place.digests("whole")), proof(&before));

    let metrics = read_metrics(&place.join("whole/metrics.jsonl")).expect("reads");
    let measured = metrics.iter().any(|metric| {
        matches!(
            metric,
            Metric::Eval {
                accuracy: Some(_),
                n_images: Some(11),
                n_bytes: None,
                n_tokens: None,
                ..
            }
        )
    });
    assert!(measured, "{metrics:?}");
    let line = place.succeeds(&["eval", "whole", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(found["evaluation"]["n_samples"], 58);
    let text = place.fails(&["eval", "whole", "--data", "."]);
    assert!(
        text.contains("--data: the run's samples are drawn"),
        "{text}"
    );
    // The end report is of the 11 images held out; so is an evaluation of them alone.
    let table = std::fs::read_to_string(place.join("whole/confusion.txt")).expect("reads");
    assert!(table.ends_with(" of 11\n"), "{table}");
    assert!(std::fs::read(place.join("whole/misread.png")).is_ok_and(|png| png.len() > 100));
    let held_out = ["eval", "whole", "--held-out", "--misread", "a.png"];
    let text = place.succeeds(&held_out);
    assert!(text.contains(&table), "{text}");
    let picture = std::fs::read(place.join("a.png")).expect("reads");
    assert_eq!(
        picture,
        std::fs::read(place.join("whole/misread.png")).expect("reads")
    );
    assert!(found["evaluation"]["accuracy"].is_f64(), "{line}");
    let line = place.fails(&["generate", "whole", "--prompt", "a"]);
    assert_eq!(
        line,
        "error: whole: classifies images, expected a language model"
    );
}

/// The batch norm's running values are in checkpoints and digests: a run that is stopped and resumed goes
/// on with them, on every device and in micro-batches of whole shards.
#[test]
fn a_run_with_batch_norm_is_resumed_and_verified() {
    let place = place("images-norm");
    place.write("config.toml", &with_batch_norm());
    let reference = place.train(&cpu(), "reference", &[]);
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        for (sets, name) in [
            (vec![], "device"),
            (vec!["train.micro_batch_size=8"], "micro"),
        ] {
            let outcome = place.train(device, &format!("{name}-{number}"), &sets);
            let device = device.info();
            let (found, expected) = (proof(&outcome.digests), proof(&reference.digests));
            assert_eq!(found, expected, "{name} {device}");
            assert_eq!(outcome.held_out, reference.held_out, "{name} {device}");
        }
    }
    let other = place.train(&cpu(), "without", &["model.batch_norm=false"]);
    assert_ne!(proof(&other.digests), proof(&reference.digests));

    let checkpoints = place.join("reference/checkpoints");
    let model = std::fs::read(checkpoints.join("step-000005/model.safetensors")).expect("reads");
    let name = b"norms.1.running_var";
    assert!(model.windows(name.len()).any(|part| part == name));
    let (code, stdout, stderr) = status(&place, &["verify", "reference"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("equal      up to step 5"), "{stdout}");
    std::fs::remove_dir_all(checkpoints.join("step-000005")).expect("removes");
    place.succeeds(&["train", "config.toml", "--out", "reference", "--resume"]);
    assert_eq!(
        proof(&place.digests("reference")),
        proof(&reference.digests)
    );
    let line = place.fails(&[
        "train",
        "config.toml",
        "--out",
        "part",
        "--set",
        "train.micro_batch_size=2",
    ]);
    assert_eq!(
        line,
        "error: --set train.micro_batch_size=2: 2 is less than a shard of 4, which model.batch_norm \
         needs whole"
    );
}

fn with_batch_norm() -> String {
    CNN.replace("dropout = 0.2", "dropout = 0.2\nbatch_norm = true")
}

#[test]
fn a_key_that_is_left_out_and_named_is_the_same_run() {
    let digest = |text: &str| {
        let config = Config::parse(text, "a.toml", &[]).expect("good");
        config.identity_digest().expect("digests")
    };
    let named = CNN.replace("dropout = 0.2", "dropout = 0.2\nbatch_norm = false");
    assert_eq!(digest(&named), digest(CNN));
    let with_workers = CNN.replace("noise = 0.05", "noise = 0.05\nworkers = 3");
    assert_eq!(digest(&with_workers), digest(CNN), "workers decide no bit");
    assert_ne!(digest(&with_batch_norm()), digest(CNN));
}

#[test]
fn without_data_the_configurations_of_mnist_train_on_drawn_digits() {
    let place = place("images-without-data");
    for name in ["mnist-mlp.toml", "mnist-cnn.toml"] {
        let path = format!("{}/../../configs/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("reads");
        place.write("config.toml", &text);
        let arguments = [
            "train",
            "config.toml",
            "--out",
            name,
            "--set",
            "train.max_steps=2",
            "--set",
            "data.count=100",
        ];
        let text = place.succeeds(&arguments);
        assert!(
            text.contains("corpus   80 drawn digits, 20 held out"),
            "{text}"
        );
        assert!(text.contains("true/read"), "{text}");
    }
}

#[test]
fn binary_files_of_cifar10_give_the_bits_of_the_same_images_drawn() {
    let place = Scratch::new("cifar10");
    let text = "seed = 7\n\n[model]\nkind = \"resnet\"\nchannels = [2, 4]\n\n[data]\nformat = \"coloured_digits\"\n\
                count = 40\neval_fraction = 0.2\ncrop_padding = 2\n\n[train]\nmax_steps = 2\nbatch_size = 8\nshards = 4\n\
                learning_rate = 0.01\ncheckpoint_every = 0\n";
    place.write("config.toml", text);
    let drawn = place.train(&cpu(), "drawn", &[]);
    let set = ImageSet::drawn_coloured_digits(40, 7).expect("draws");
    let record = |at: usize| {
        let label = [set.labels()[at] as u8];
        [&label[..], set.pixels(at).expect("an image")].concat()
    };
    std::fs::create_dir(place.join("cifar")).expect("made");
    for (name, range) in [("data_batch_1.bin", 0..15), ("data_batch_2.bin", 15..40)] {
        let bytes: Vec<u8> = range.flat_map(record).collect();
        std::fs::write(place.join("cifar").join(name), bytes).expect("written");
    }
    let text = text
        .replace("coloured_digits", "cifar10")
        .replace("count = 40\n", "");
    place.write("config.toml", &text);
    let read = place.train(&cpu(), "read", &["data.path=cifar"]);
    assert_eq!(proof(&read.digests), proof(&drawn.digests));
    // A file that lost its end has a line.
    let file = place.join("cifar/data_batch_2.bin");
    let bytes = std::fs::read(&file).expect("reads");
    std::fs::write(&file, &bytes[..bytes.len() - 1]).expect("written");
    let (code, _, stderr) = status(
        &place,
        &["train", "config.toml", "--data", "cifar", "--out", "cut"],
    );
    assert_eq!((code, stderr.lines().count()), (1, 1), "{stderr}");
    assert!(
        stderr.contains("data_batch_2.bin: has 76824 bytes, expected one or more records of 3073"),
        "{stderr}"
    );
}

#[test]
fn an_mlp_learns_the_drawn_digits() {
    let place = place("images-learn");
    let sets = [
        "model.kind=mlp",
        "data.count=600",
        "data.noise=0",
        "train.max_steps=150",
        "train.learning_rate=0.003",
        "train.checkpoint_every=0",
    ];
    let text = CNN
        .replace("channels = [3, 4]\n", "")
        .replace("hidden = [12]", "hidden = [32]");
    place.write("config.toml", &text);
    let outcome = place.train(&cpu(), "run", &sets);
    let right = outcome.held_out.and_then(|found| found.accuracy);
    assert!(right.is_some_and(|right| right > 0.8), "{outcome:?}");
}

#[test]
fn keys_of_another_kind_and_data_are_refused() {
    let fails = |change: &dyn Fn(&str) -> String| {
        let error = Config::parse(&change(CNN), "a.toml", &[]).expect_err("refused");
        format!("{error:#}")
    };
    let with = |section: &'static str, line: &'static str| {
        fails(&move |text: &str| text.replace(section, &format!("{section}\n{line}")))
    };
    assert_eq!(
        with("[model]", "width = 8"),
        "a.toml:4: model.width: is no key of this model, expected channels, batch_norm, \
         hidden and dropout with kind cnn"
    );
    assert_eq!(
        with("[data]", "part = \"train\""),
        "a.toml:10: data.part: is no key of this data.format"
    );
    assert_eq!(
        with("[data]", "flip = 2.0"),
        "a.toml:10: data.flip: 2 is not from 0 to 1"
    );
    assert!(
        with("[model]", "colour = 3").contains("unknown field `colour`, expected one of `kind`")
    );
    let mlp = |text: &str| text.replace("kind = \"cnn\"", "kind = \"mlp\"\nbatch_norm = true");
    let line = fails(&move |text| mlp(text).replace("channels = [3, 4]\n", ""));
    assert_eq!(
        line,
        "a.toml:5: model.batch_norm: is no key of this model, expected hidden and dropout with kind mlp"
    );
    let line = fails(&|text| text.replace("kind = \"cnn\"", "kind = \"rnn\""));
    assert!(
        line.contains("unknown variant `rnn`, expected one of `transformer`, `mlp`, `cnn`"),
        "{line}"
    );
    let line = fails(&|text| text.replace("kind = \"cnn\"\n", ""));
    assert!(
        line.contains("model.hidden: is no key of this model"),
        "{line}"
    );
    let line = fails(&|text| {
        text.replace(
            "format = \"digits\"\ncount = 58",
            "format = \"text\"\npath = \"a\"",
        )
    });
    assert!(
        line.contains("data.mean: is no key of this data.format"),
        "{line}"
    );
    let line = fails(&|text| text.replace("std = 0.3081", "std = 0.0"));
    assert!(line.ends_with("data.std: 0 is not above 0"), "{line}");
}

#[test]
fn sizes_that_do_not_fit_the_images_and_missing_data_are_one_line() {
    let place = place("images-faults");
    let train = |sets: &[&str]| {
        let mut arguments = vec!["train", "config.toml", "--out", "run"];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        place.fails(&arguments)
    };
    let line = train(&["model.channels=[1,1,1,1,1]"]);
    let expected = "error: classifier: 5 convolutions halve an image of 28 by 28 below one pixel, \
                    expected at most 4";
    assert_eq!(line, expected);
    let text = CNN.replace(
        "format = \"digits\"\ncount = 58",
        "format = \"idx\"\npath = \"none\"",
    );
    place.write("config.toml", &text);
    let line = train(&[]);
    assert!(line.contains("none"), "{line}");
    let line = place.fails(&[
        "train",
        "config.toml",
        "--data",
        "elsewhere",
        "--out",
        "run",
    ]);
    assert!(line.contains("elsewhere"), "{line}");
    assert!(
        !place.join("run").exists(),
        "nothing is written before all is checked"
    );
}
