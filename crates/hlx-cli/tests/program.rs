//! The program: what it prints, what it generates, and that the library prints nothing.

mod common;

use std::fs;
use std::path::Path;

use common::{Scratch, text};
use hlx_nn::{CausalLm, Model};
use hlx_train::config::Format;
use hlx_train::generate::{Generation, answer_pairs, generate, generate_streaming};
use hlx_train::sample::Sampling;
use hlx_train::task::Task;

const TRAIN: [&str; 4] = ["train", "config.toml", "--out", "run"];

#[test]
fn the_founding_experiment_gives_its_numbers_on_every_device() {
    let mut runs = Vec::new();
    for device in hlx_core::testing::own_devices() {
        let mut epochs = Vec::new();
        hlx_train::demo::scalar(&device, |epoch| epochs.push(epoch)).expect("runs");
        runs.push(epochs);
    }
    let epochs = &runs[0];
    assert_eq!(epochs.len(), 18);
    for (epoch, (loss, weight)) in
        epochs
            .iter()
            .zip([(219.735, 1.439470), (69.039, 1.685806), (21.692, 1.823885)])
    {
        assert!((f64::from(epoch.loss) - loss).abs() < 5e-4, "{epoch:?}");
        assert!((f64::from(epoch.weight) - weight).abs() < 5e-7, "{epoch:?}");
    }
    assert_eq!(format!("{:.6}", epochs[17].weight), "1.999970");
    for other in &runs {
        let bits = |epochs: &[hlx_train::demo::Epoch]| -> Vec<(u32, u32)> {
            epochs
                .iter()
                .map(|epoch| (epoch.loss.to_bits(), epoch.weight.to_bits()))
                .collect()
        };
        assert_eq!(bits(other), bits(epochs));
    }
    let printed = Scratch::new("demo").succeeds(&["demo", "scalar"]);
    assert!(
        printed.contains("219.735  w 1.439470") && printed.contains("w = 1.999970"),
        "{printed}"
    );
}

#[test]
fn a_seed_gives_one_text_on_every_device() {
    let place = Scratch::new("generate");
    let devices = hlx_core::testing::own_devices();
    let mut texts = Vec::new();
    for (number, device) in devices.iter().enumerate() {
        let mut trainer = place.trainer(device, &format!("run-{number}"), &["train.max_steps=2"]);
        trainer.run(&mut hlx_train::train::Silent).expect("trains");
        let Task::Bytes(task) = trainer.task() else {
            panic!("a language model over bytes");
        };
        let model = &task.model;
        let sampling = Sampling {
            temperature: 1.3,
            top_k: 90,
            top_p: 0.97,
            min_p: 0.001,
            repetition_penalty: 1.1,
            seed: 5,
        };
        let generation = Generation::new(Format::Pairs, 16, sampling);
        let prompts: [&[u8]; 3] = [b"one", b"two three", b"five"];
        let together = generate(model, &prompts, &generation).expect("generates");
        for (prompt, text) in prompts.iter().zip(&together) {
            let alone = generate(model, &[prompt], &generation).expect("generates");
            assert_eq!(alone[0], *text, "a text depends on its prompt alone");
        }
        check_streaming(model, &prompts, &generation, &together);
        let other = Generation {
            sampling: Sampling {
                seed: 6,
                ..sampling
            },
            ..generation.clone()
        };
        assert_ne!(
            generate(model, &prompts, &other).expect("generates"),
            together
        );
        texts.push(together);
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
}

/// What is handed over piece by piece is the text; several texts differ, and the first is the only one;
/// a stop ends a text before itself.
fn check_streaming(
    model: &Model<CausalLm>,
    prompts: &[&[u8]],
    generation: &Generation,
    expected: &[Vec<u8>],
) {
    let mut told = vec![Vec::new(); prompts.len()];
    let mut tell = |number: usize, bytes: &[u8]| {
        told[number].extend_from_slice(bytes);
        Ok(())
    };
    let texts = generate_streaming(model, prompts, generation, &mut tell).expect("generates");
    assert_eq!((&texts[..], &told[..]), (expected, expected));
    let several = Generation {
        n_texts: 2,
        ..generation.clone()
    };
    let texts = generate(model, prompts, &several).expect("generates");
    assert_eq!(texts.len(), 2 * prompts.len());
    for (number, first) in expected.iter().enumerate() {
        assert_eq!(texts[2 * number], *first);
    }
    assert_ne!(texts[0], texts[1]);
    let first = &expected[0];
    let stop = first[3..5].to_vec();
    let end = first
        .windows(2)
        .position(|two| two == stop)
        .expect("it is there");
    let stopped = Generation {
        stop: vec![stop],
        ..generation.clone()
    };
    let mut told = Vec::new();
    let mut tell = |_: usize, bytes: &[u8]| {
        told.extend_from_slice(bytes);
        Ok(())
    };
    let texts = generate_streaming(model, &prompts[..1], &stopped, &mut tell).expect("generates");
    assert_eq!((&texts[0][..], &told[..]), (&first[..end], &first[..end]));
}

/// A text within one window has the perplexity of its evaluation, whatever the stride; longer texts have
/// less context with a longer stride.
#[test]
fn perplexity_is_that_of_an_evaluation() {
    let place = Scratch::new("perplexity");
    let text = "to be, or not to be: that is ".repeat(12);
    place.write("text.txt", &text);
    let sets = [
        "data.path=text.txt",
        "data.format=text",
        "train.max_steps=40",
    ];
    place.train(&hlx_core::testing::cpu().expect("opens"), "run", &sets);
    place.write("short.txt", &text[..20]);
    let evaluated = place.succeeds(&["eval", "run", "--data", "short.txt", "--json"]);
    let evaluated: serde_json::Value = serde_json::from_str(&evaluated).expect("JSON");
    let measure = |arguments: &[&str]| -> serde_json::Value {
        let line =
            place.succeeds(&[&["perplexity", "run", "--json", "--data"], arguments].concat());
        serde_json::from_str(&line).expect("JSON")
    };
    let short = measure(&["short.txt"]);
    assert_eq!(short["perplexity"]["loss"], evaluated["evaluation"]["loss"]);
    assert_eq!(short["perplexity"]["n_bytes"], 19);
    let loss = |stride: &str| {
        let found = measure(&["text.txt", "--length", "12", "--stride", stride]);
        found["perplexity"]["loss"].as_f64().expect("a number")
    };
    assert!(loss("2") < loss("11"), "more context, less loss");
    for (arguments, expected) in [
        (
            ["--stride", "25"],
            "--stride 25: expected 1 to the length, 24",
        ),
        (
            ["--length", "25"],
            "--length 25: expected 2 to the model's 24 positions",
        ),
    ] {
        let arguments = [&["perplexity", "run", "--data", "text.txt"], &arguments[..]].concat();
        let line = place.fails(&arguments);
        assert!(line.ends_with(expected), "{line}");
    }
}

#[test]
fn the_program_generates_what_the_seed_says() {
    let place = Scratch::new("seeds");
    place.succeeds(&TRAIN);
    let say = |seed: &str| {
        let options = ["--temperature", "1.5", "--seed", seed, "--max-tokens", "12"];
        let arguments = [&["generate", "run", "--prompt", "one"], &options[..]].concat();
        place.hlx(&arguments).output().expect("starts").stdout
    };
    assert_eq!(say("3"), say("3"));
    assert_ne!(say("3"), say("4"));
    let greedy = place
        .hlx(&["generate", "run", "--prompt", "one"])
        .output()
        .expect("starts");
    assert!(greedy.status.success());
}

#[test]
fn a_model_learns_its_pairs_and_stops_at_the_target() {
    let place = Scratch::new("learns");
    let sets = [
        "model.width=32",
        "model.dropout=0",
        "train.label_smoothing=0",
        "train.max_steps=600",
        "train.target_loss=0.02",
        "train.micro_batch_size=8",
    ];
    let mut trainer = place.trainer(&hlx_core::testing::cpu().expect("opens"), "run", &sets);
    let outcome = trainer.run(&mut hlx_train::train::Silent).expect("trains");
    assert!(outcome.reached_target && outcome.step < 600, "{outcome:?}");
    assert!(
        outcome.train.is_some_and(|train| train.loss <= 0.02),
        "{outcome:?}"
    );
    let Task::Bytes(task) = trainer.task() else {
        panic!("a language model over bytes");
    };
    let answers = answer_pairs(&task.model, &task.data, &trainer.split().train);
    let answers = answers.expect("answers");
    let exact = answers.iter().filter(|answer| answer.is_exact()).count();
    assert!(exact >= 19, "{answers:?}");
}

#[test]
fn text_is_learnt_in_windows() {
    let place = Scratch::new("text");
    place.write("text.txt", &"the cat sat on the mat. ".repeat(40));
    let sets = [
        "data.path=text.txt",
        "data.format=text",
        "data.eval_fraction=0.1",
        "train.max_steps=60",
        "train.eval_every=20",
        "model.dropout=0",
    ];
    let arguments: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    let printed = place.succeeds(&[&TRAIN[..], &arguments, &["--json"]].concat());
    let lines: Vec<serde_json::Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["kind"], "start");
    let evaluations = lines
        .iter()
        .filter(|line| line["split"] == "held_out")
        .count();
    assert_eq!(evaluations, 3);
    let end = lines.last().expect("an end");
    assert!(
        end["held_out"]["loss"].as_f64().expect("a loss") < 2.5,
        "{end}"
    );
    let options = ["--prompt", "the cat ", "--max-tokens", "40"];
    let text = place.succeeds(&[&["generate", "run"], &options[..]].concat());
    assert_eq!(text.trim_end_matches('\n').len(), 40);
    place.succeeds(&["plot", "run", "--out", "curve.svg"]);
    let svg = fs::read_to_string(place.join("curve.svg")).expect("reads");
    assert!(svg.starts_with("<svg") && svg.contains("evaluation"));
}

#[test]
fn a_run_folder_holds_what_the_run_was() {
    let place = Scratch::new("folder");
    place.succeeds(&[&TRAIN[..], &["--set", "train.checkpoint_every=2"]].concat());
    let read = |name: &str| fs::read_to_string(place.join("run").join(name)).expect(name);
    assert!(read("config.toml").contains("micro_batch_size = 8"));
    let manifest: serde_json::Value = serde_json::from_str(&read("run.json")).expect("JSON");
    assert_eq!(manifest["arithmetic"], "portable");
    assert_eq!(manifest["stretches"][0]["selector"], "cpu");
    for name in ["step-000002", "step-000004", "step-000006"] {
        assert!(place.join("run/checkpoints").join(name).is_dir(), "{name}");
    }
    assert_eq!(read("metrics.jsonl").lines().count(), 4);
    let first = place.succeeds(&["digest", "run/checkpoints/step-000002"]);
    assert!(first.starts_with("step       2\nparameters "), "{first}");
    let loss = place.succeeds(&["eval", "run", "--data", "corpus.jsonl", "--exact"]);
    assert!(
        loss.contains("loss ") && loss.contains("of 20 answers"),
        "{loss}"
    );
}

#[test]
fn the_doctor_lists_the_cpu_device() {
    let printed = Scratch::new("doctor").succeeds(&["doctor"]);
    assert!(
        printed.contains("[cpu]") && printed.contains("integers    by "),
        "{printed}"
    );
}

#[test]
fn the_log_goes_where_rust_log_says() {
    let place = Scratch::new("log");
    let quiet = place.hlx(&TRAIN).output().expect("starts");
    assert_eq!(text(&quiet.stderr), "");
    let mut command = place.hlx(&["train", "config.toml", "--out", "loud"]);
    let loud = command
        .env("RUST_LOG", "hlx_train=debug")
        .output()
        .expect("starts");
    assert!(
        text(&loud.stderr).contains("recorded a pass"),
        "{}",
        text(&loud.stderr)
    );
}

#[test]
fn no_library_crate_prints() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(crates).expect("reads") {
        check_folder(&entry.expect("an entry").path().join("src"));
    }
}

/// Looks for macros that print outside of programs and tests.
fn check_folder(folder: &Path) {
    for entry in fs::read_dir(folder).expect("reads") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !path.ends_with("bin") {
                check_folder(&path);
            }
            continue;
        }
        let source = fs::read_to_string(&path).expect("reads");
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            for name in ["print!(", "println!(", "dbg!("] {
                assert!(!line.contains(name), "{}: {line}", path.display());
            }
        }
    }
}

#[test]
fn a_timed_run_has_the_same_bits_a_table_and_a_trace() {
    let place = Scratch::new("timing");
    let plain = place.succeeds(&TRAIN);
    let timed = place.succeeds(&[
        "train",
        "config.toml",
        "--out",
        "timed",
        "--profile",
        "trace.json",
    ]);
    let digest = |printed: &str| {
        let line = printed.lines().find(|line| line.starts_with("parameters "));
        line.expect("a digest").to_owned()
    };
    assert_eq!(digest(&timed), digest(&plain));
    for kernel in ["matmul", "attention_backward_query", "adamw_step"] {
        let mut names = timed.lines().filter_map(|line| line.split(' ').next());
        assert!(
            // Of the kernels of rows on the CPU, of packed ones on a GPU.
            names.any(|name| name.ends_with(kernel)),
            "{timed}"
        );
    }
    let trace = fs::read(place.join("trace.json")).expect("a trace");
    let trace: serde_json::Value = serde_json::from_slice(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    // Six steps of recorded passes: far more launches than one recording has.
    let products = events.iter().filter(|event| event["name"] == "matmul");
    assert!(products.clone().count() > 6 * 10);
    assert!(
        products
            .clone()
            .all(|event| event["args"]["flops"].as_u64() > Some(0))
    );
}
