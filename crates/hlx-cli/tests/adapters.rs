//! `--adapter`: a model folder with an adapter of PEFT that is not merged has the bits of the run that trained it.

mod common;
#[path = "adapters/peft.rs"]
mod peft;

use std::fs;

use common::{SMALL_MODEL, Scratch};
use hlx_autograd::{DType, Tensor};
use hlx_core::Device;
use hlx_io::save_npy;
use hlx_train::chat::Conversation;
use hlx_train::generate::{TextModel, TokenGeneration};
use hlx_train::opening::Opening;
use hlx_train::sample::Sampling;
use hlx_train::trained::Trained;

fn cpu() -> Device {
    hlx_core::testing::cpu().expect("the CPU device opens")
}

fn arguments(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// A folder with a model (`hub`), a run that adapts it (`tuned`), the run's adapter (`adapter`) and the model that
/// it is merged into (`merged`).
fn adapted(name: &str, config: &str, targets: &str) -> Scratch {
    let place = Scratch::exported(name, config);
    let lora = format!("lora={{rank = 2, alpha = 3.0, targets = {targets}}}");
    let train = ["train", "config.toml", "--out", "tuned"];
    let sets = ["--set", "train.init_from=hub", "--set", &lora];
    place.succeeds(&[&train[..], &sets].concat());
    place.succeeds(&arguments("lora tuned --out adapter"));
    place.succeeds(&arguments("lora tuned --merge --out merged"));
    let ids = Tensor::from_slice::<u32>(&cpu(), &[5, 9, 2, 7], &[1, 4]).expect("made");
    save_npy(&place.join("ids.npy"), &ids).expect("written");
    place.write("short.txt", "the river of light, 12 of them");
    place
}

/// What the program writes of a model's logits, with the loss and the gradients where `more` says so.
fn logits(place: &Scratch, model: &str, more: &str) -> Vec<Vec<u8>> {
    let line = format!("logits {model} --ids ids.npy --out l.npy{more}");
    let printed = place.succeeds(&arguments(&line));
    let mut found = vec![printed.into_bytes()];
    found.push(fs::read(place.join("l.npy")).expect("written"));
    if more.contains("--gradients") {
        found.push(fs::read(place.join("g.safetensors")).expect("written"));
    }
    found
}

/// A member of the JSON object that the program prints.
fn measured(place: &Scratch, line: &str, member: &str) -> serde_json::Value {
    let printed = place.succeeds(&[&arguments(line)[..], &["--json"]].concat());
    let found: serde_json::Value = serde_json::from_str(&printed).expect("an object");
    found[member].clone()
}

/// Logits, gradients, loss, perplexity and text, in f32 and in bf16.
fn check(place: &Scratch) {
    let with = "hub --adapter adapter";
    let gradients = " --targets ids.npy --gradients g.safetensors";
    for more in ["", gradients, " --dtype bf16"] {
        let expected = logits(place, "tuned", more);
        assert_eq!(logits(place, with, more), expected, "{more}");
        assert_ne!(logits(place, "merged", more)[1], expected[1], "{more}");
    }
    assert_ne!(
        logits(place, "hub", ""),
        logits(place, "tuned", ""),
        "nothing was learnt"
    );
    for more in ["", " --dtype bf16"] {
        let of_run = format!("eval tuned{more}");
        let of_folder = format!("eval {with} --data tokens --length 16{more}");
        let expected = measured(place, &of_run, "evaluation");
        assert_eq!(measured(place, &of_folder, "evaluation"), expected);

        let options = format!("--text short.txt --length 12 --stride 4{more}");
        let expected = measured(place, &format!("perplexity tuned {options}"), "perplexity");
        let found = measured(place, &format!("perplexity {with} {options}"), "perplexity");
        assert_eq!(found, expected);

        let options = format!("--prompt river --max-tokens 12 --temperature 1 --seed 4{more}");
        let expected = place.succeeds(&arguments(&format!("generate tuned {options}")));
        let found = place.succeeds(&arguments(&format!("generate {with} {options}")));
        assert_eq!(found, expected);
    }
}

#[test]
fn an_adapter_has_the_bits_of_the_run_that_trained_it() {
    check(&adapted("adapter", SMALL_MODEL, "[\"*.self_attn.*\"]"));
}

/// Weight-decomposed and rank-stabilised, with patterns of ranks and alphas, beside modules that are trained as a whole.
#[test]
fn an_adapter_of_every_kind_has_the_bits_of_the_run_that_trained_it() {
    let keys = "[\"*.self_attn.*\"], dora = true, rslora = true, rank_pattern = {q_proj = 3, \"layers.0.*.q_proj\" = 1}, \
                alpha_pattern = {o_proj = 5.5}, modules_to_save = [\"*norm\", \"model.embed_tokens\"]";
    let place = adapted("adapter-every-kind", SMALL_MODEL, keys);
    check(&place);
    let verified = place.succeeds(&["verify", "tuned"]);
    assert!(verified.contains("equal"), "{verified}");
    // Two passes of half a batch have the bits of one.
    let lora = format!("lora={{rank = 2, alpha = 3.0, targets = {keys}}}");
    let sets = ["train.init_from=hub", "train.micro_batch_size=1", &lora];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    place.succeeds(&[&["train", "config.toml", "--out", "halves"], &sets[..]].concat());
    let digests = |run: &str| {
        let folder = place.join(run).join("checkpoints");
        let mut found: Vec<_> = fs::read_dir(folder).expect("there").flatten().collect();
        found.sort_by_key(fs::DirEntry::path);
        let newest = found.last().expect("a checkpoint").path();
        fs::read(newest.join("model.safetensors")).expect("there")
    };
    assert_eq!(digests("halves"), digests("tuned"));
}

/// GPT-2's file has one adapter for queries, keys and values.
#[test]
fn an_adapter_of_joined_layers_has_the_bits_of_the_run_that_trained_it() {
    let config = SMALL_MODEL.replace("qwen3", "gpt2");
    let config = config.replace("n_kv_heads = 2", "n_kv_heads = 4");
    check(&adapted("adapter-gpt2", &config, "[\"*_proj\"]"));
}

/// On every device, through the cache; and the program takes the option.
#[test]
fn a_conversation_with_an_adapter_is_that_of_the_run() {
    let place = adapted("adapter-chat", SMALL_MODEL, "[\"*.self_attn.*\"]");
    let template = "{% for m in messages %}{{ m.content }} {% endfor %}";
    for folder in ["hub", "tuned"] {
        place.write(&format!("{folder}/chat_template.jinja"), template);
    }
    let say = |device: &Device, model: &str, opening: Opening<'_>| {
        let text = TextModel::open(device, &place.join(model), opening).expect("opens");
        let mut conversation = Conversation::new(&text, None).expect("a template");
        let options = TokenGeneration::new(8, Sampling::default(), Vec::new());
        let said = conversation.say("the river", &options, &[], &mut |_| Ok(()));
        said.expect("says")
    };
    let adapter = place.join("adapter");
    for dtype in [None, Some(DType::F16)] {
        let opening = Opening {
            dtype,
            ..Opening::default()
        };
        let expected = say(&cpu(), "tuned", opening);
        for device in hlx_core::testing::own_devices() {
            let opening = Opening {
                adapter: Some(&adapter),
                ..opening
            };
            assert_eq!(say(&device, "hub", opening), expected, "{}", device.info());
        }
    }
    let line = place.fails(&arguments("chat hub --adapter adapter"));
    assert!(line.contains("a conversation needs a terminal"), "{line}");
}

#[test]
fn an_adapter_that_does_not_fit_is_refused_in_one_line() {
    let place = adapted("adapter-refused", SMALL_MODEL, "[\"*.self_attn.*\"]");
    let verbs = [
        "logits hub --ids ids.npy --out l.npy",
        "logits hub --ids ids.npy --out l.npy --targets ids.npy --gradients g.safetensors",
        "eval hub --data tokens",
        "perplexity hub --text short.txt",
        "generate hub --prompt river",
    ];
    let refused = |expected: &str| {
        for verb in verbs {
            let line = place.fails(&arguments(&format!("{verb} --adapter adapter")));
            assert!(line.contains(expected), "{verb}: {line}");
        }
    };
    for verb in verbs {
        let of_run = verb.replace("hub", "tuned").replace(" --data tokens", "");
        let line = place.fails(&arguments(&format!("{of_run} --adapter adapter")));
        assert_eq!(line, "error: tuned: is a run, expected a model's folder");
    }
    let config = fs::read_to_string(place.join("adapter/adapter_config.json")).expect("text");
    let tensors = fs::read(place.join("adapter/adapter_model.safetensors")).expect("read");

    let known = "model.layers.0.self_attn.q_proj";
    assert!(config.contains(known), "{config}");
    place.write(
        "adapter/adapter_config.json",
        &config.replace(known, "model.layers.7.self_attn.q_proj"),
    );
    refused(
        "adapter: adapter_config.json: `target_modules` names model.layers.7.self_attn.q_proj, \
         which the model does not have",
    );
    place.write(
        "adapter/adapter_config.json",
        &config.replace("\"r\": 2", "\"r\": 3"),
    );
    refused("lora_A.weight has shape [2, 16], expected [3, 16]");
    place.write("adapter/adapter_config.json", &config);

    let cut = &tensors[..tensors.len() - 1];
    fs::write(place.join("adapter/adapter_model.safetensors"), cut).expect("written");
    refused("error: adapter: safetensors: ");
    fs::remove_file(place.join("adapter/adapter_model.safetensors")).expect("removed");
    refused("error: adapter/adapter_model.safetensors: ");
    fs::remove_file(place.join("adapter/adapter_config.json")).expect("removed");
    refused("error: adapter/adapter_config.json: ");
    fs::remove_dir(place.join("adapter")).expect("removed");
    refused("error: adapter/adapter_config.json: ");
}

/// A base of another width is refused by the first tensor that does not fit.
#[test]
fn an_adapter_of_another_model_is_refused() {
    let place = adapted("adapter-other", SMALL_MODEL, "[\"*.self_attn.*\"]");
    let config = SMALL_MODEL.replace("width = 16", "width = 24");
    place.write("wide.toml", &config);
    place.succeeds(&arguments("train wide.toml --out wide-run"));
    place.succeeds(&arguments("export wide-run wide"));
    let line = place.fails(&arguments("generate wide --prompt river --adapter adapter"));
    assert!(
        line.starts_with("error: adapter: adapter: base_model.model.model.layers.0.self_attn.")
            && line.ends_with("has shape [2, 16], expected [2, 24]"),
        "{line}"
    );
    let opening = Opening {
        adapter: Some(&place.join("adapter")),
        ..Opening::default()
    };
    let refused = Trained::open_as(&cpu(), &place.join("tuned"), opening);
    assert!(refused.is_err(), "a run takes no adapter");
}
