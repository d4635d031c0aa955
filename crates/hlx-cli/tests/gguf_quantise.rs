//! `hlx quantize` with texts: importance that is the same everywhere, and what a model loses.

mod common;

use std::fs;
use std::path::PathBuf;

use common::Scratch;
use common::forms::{Forms, add, check};
use hlx_core::Arithmetic;
use hlx_gguf::Gguf;
use hlx_train::calibration::Importance;
use hlx_train::model_folder;
use serde_json::Value;

const WORDS: &str = "Hello world, this is a text of some words, and of no more. ";

fn place(test: &str) -> Scratch {
    let place = Scratch::new(test);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../hlx-gguf/tests/fixtures/models");
    for name in ["llama", "mixtral", "gpt2", "qwen3moe", "gemma2"] {
        let file = format!("{name}.gguf");
        fs::copy(folder.join(&file), place.join(&file)).expect("copied");
    }
    place.write("text.txt", &WORDS.repeat(12));
    place.write("other.txt", &"Some other words, said twice. ".repeat(12));
    place
}

#[test]
fn the_file_is_the_same_on_every_device_and_for_every_number_of_threads() {
    let place = place("quantise-devices");
    let file = |threads: &str, device: &str, calibrate: bool| {
        let mut arguments = vec![
            "quantize",
            "llama.gguf",
            "--to",
            "q4_0",
            "--out",
            "out.gguf",
        ];
        if calibrate {
            arguments.extend([
                "--calibrate",
                "text.txt",
                "--device",
                device,
                "--length",
                "16",
            ]);
        }
        let mut command = place.hlx(&arguments);
        let output = command.env("RAYON_NUM_THREADS", threads).output();
        let output = output.expect("runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        fs::read(place.join("out.gguf")).expect("there")
    };
    let expected = file("2", "cpu", true);
    assert!(file("1", "cpu", true) == expected);
    assert!(file("2", "cpu", false) != expected);
    for device in hlx_core::testing::selectors() {
        assert!(file("2", &device, true) == expected, "{device}");
    }
}

#[test]
fn importance_is_the_mean_of_squares_of_what_a_matrix_multiplies() {
    let place = place("quantise-importance");
    let device = hlx_core::testing::cpu().expect("the CPU");
    let open = |name: &str| {
        let path = place.join(name);
        model_folder::open(&device, &path, Some(Arithmetic::Portable)).expect("opens")
    };
    let tokens: Vec<u32> = (0..40).map(|at| 3 + at * 7 % 50).collect();
    for (name, experts) in [
        ("llama.gguf", false),
        ("gpt2.gguf", false),
        ("mixtral.gguf", true),
    ] {
        let model = open(name);
        let found = Importance::measure(&model, &tokens, 16).expect("measured");
        // All matrices have one, except embeddings, positions and routers.
        let file = Gguf::open(&place.join(name)).expect("a file");
        let model_of_file = hlx_gguf::GgufModel::new(file).expect("a model");
        for (tensor, stored) in model_of_file.places() {
            // The embedding of GPT-2 is its output too.
            let others = ["embed_tokens", "wpe", ".gate.weight"];
            let is_linear =
                stored.shape.len() == 2 && !others.iter().any(|one| tensor.contains(one));
            // An expert may have no token.
            let may_lack = tensor.contains(".experts.");
            let has_one = found.of(tensor).is_some();
            assert!(has_one == is_linear || may_lack, "{name}: {tensor}");
            if let Some(all) = found.of(tensor).filter(|_| name != "gpt2.gguf") {
                assert_eq!(all.len(), stored.shape[1], "{tensor}");
                assert!(all.iter().any(|&one| one > 0.0), "{tensor}");
            }
        }
        assert_eq!(
            found.names().any(|name| name.contains(".experts.")),
            experts
        );
        // The output multiplies the last hidden state: of 40 tokens two windows of 16, and one of 8.
        let mut sums = vec![0.0_f64; model.config().width];
        for window in tokens.chunks(16) {
            let ids = hlx_autograd::Tensor::from_slice::<u32>(&device, window, &[1, window.len()]);
            let ids = ids.expect("ids").with_samples(0).expect("rows");
            let input = hlx_nn::CausalInput::new(&ids);
            let hidden = model
                .hidden(&input, &hlx_nn::Mode::eval())
                .expect("computed");
            let hidden = hidden.to_vec::<f32>().expect("values");
            for row in hidden.chunks(sums.len()) {
                sums.iter_mut()
                    .zip(row)
                    .for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
            }
        }
        let output = match name {
            "gpt2.gguf" => "transformer.wte.weight",
            _ => "lm_head.weight",
        };
        let expected: Vec<f32> = sums.iter().map(|sum| (sum / 40.0) as f32).collect();
        assert_eq!(found.of(output).expect("measured"), expected, "{name}");
    }
}

#[test]
fn a_comparison_is_printed() {
    let place = place("quantise-measure");
    let quantise = |to: &str, more: &[&str]| {
        let base = [
            "quantize",
            "llama.gguf",
            "--to",
            to,
            "--out",
            "out.gguf",
            "--measure",
            "other.txt",
            "--length",
            "16",
            "--device",
            "cpu",
        ];
        place.succeeds(&[&base[..], more].concat())
    };
    let json =
        |to: &str| -> Value { serde_json::from_str(&quantise(to, &["--json"])).expect("JSON") };
    // The fixture's values are of f16, and widening is exact.
    let same = json("f16");
    assert_eq!(same["quality"]["divergence"]["mean"], 0.0);
    assert_eq!(same["quality"]["same_top"], 1.0);
    assert_eq!(
        same["quality"]["perplexity"],
        same["quality"]["reference_perplexity"]
    );
    let mut forms = Forms::new();
    add(&mut forms, "quantize", &same);
    check(&forms);
    let (eight, four) = (json("q8_0"), json("q4_0"));
    let divergence = |one: &Value| {
        one["quality"]["divergence"]["mean"]
            .as_f64()
            .expect("a number")
    };
    assert!(0.0 < divergence(&eight) && divergence(&eight) < divergence(&four));
    let bits = |one: &Value| one["bits_per_weight"].as_f64().expect("a number");
    assert!(bits(&four) < bits(&eight) && bits(&eight) < bits(&same));
    let text = quantise("q8_0", &["--calibrate", "text.txt"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].ends_with(" bytes of weights in out.gguf"),
        "{text}"
    );
    let starts = [
        "bits per weight",
        "perplexity",
        "loss",
        "divergence",
        "same first token",
        "windows",
    ];
    assert_eq!(lines.len(), 1 + starts.len());
    for (line, start) in lines[1..].iter().zip(starts) {
        assert!(line.starts_with(start), "{text}");
    }
    place.write("empty.txt", "");
    let taken = [
        "quantize",
        "llama.gguf",
        "--to",
        "q8_0",
        "--out",
        "text.txt",
    ];
    let taken = place.fails(&[&taken[..], &["--calibrate", "text.txt"]].concat());
    assert_eq!(taken, "error: text.txt: is the file that is read");
    let refused = |more: &[&str]| {
        let base = [
            "quantize",
            "llama.gguf",
            "--to",
            "q8_0",
            "--out",
            "x.gguf",
            "--device",
            "cpu",
        ];
        place.fails(&[&base[..], more].concat())
    };
    assert_eq!(
        refused(&["--calibrate", "empty.txt"]),
        "error: empty.txt: is empty"
    );
    assert_eq!(
        refused(&["--calibrate", "text.txt", "--length", "1"]),
        "error: text.txt: --length 1: expected 2 to the model's 64 positions"
    );
    assert!(!place.join("x.gguf").exists());
}

#[test]
fn models_of_experts_and_tied_ones_are_calibrated() {
    let place = place("quantise-families");
    for name in ["mixtral", "qwen3moe", "gemma2", "gpt2"] {
        let file = format!("{name}.gguf");
        place.succeeds(&[
            "quantize",
            &file,
            "--to",
            "q8_0",
            "--out",
            "out.gguf",
            "--calibrate",
            "text.txt",
            "--length",
            "16",
            "--device",
            "cpu",
        ]);
        assert!(Gguf::open(&place.join("out.gguf")).is_ok(), "{name}");
    }
}
