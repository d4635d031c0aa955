//! What a folder's files say of generation, and tokens that are the likeliest.

mod common;

use common::{SMALL_MODEL, Scratch, text};
use hlx_autograd::{Tensor, no_grad};
use hlx_core::Arithmetic;
use hlx_nn::{CausalInput, CausalLm, CausalModel, Mode};
use hlx_train::generate::{TokenGeneration, generate_tokens};
use hlx_train::model_folder;
use hlx_train::sample::{Sampling, greedy};
use serde_json::{Value, json};

const WRITE: [&str; 6] = [
    "generate",
    "hub",
    "--prompt",
    "the river",
    "--max-tokens",
    "8",
];

fn settings(place: &Scratch, settings: &Value) {
    place.write("hub/generation_config.json", &settings.to_string());
}

#[test]
fn an_end_token_is_a_number_or_a_list_of_numbers() {
    let place = Scratch::exported("generation-ends", SMALL_MODEL);
    let written = place.succeeds(&WRITE);
    for ends in [json!(null), json!(279), json!([278, 279]), json!([])] {
        settings(&place, &json!({"eos_token_id": ends}));
        assert_eq!(place.succeeds(&WRITE), written, "{ends}");
    }
    // Every token ends the text before it begins.
    let all: Vec<u32> = (0..280).collect();
    settings(&place, &json!({"eos_token_id": all}));
    assert_eq!(place.succeeds(&WRITE), "\n");
    for ends in [
        json!("</s>"),
        json!(-1),
        json!(2.5),
        json!(1_u64 << 32),
        json!({"id": 2}),
        json!([2, "</s>"]),
        json!([[2]]),
        json!(true),
    ] {
        settings(&place, &json!({"eos_token_id": ends}));
        let expected = format!(
            "error: hub/generation_config.json: `eos_token_id` is {ends}, expected a token's number \
             or a list of them"
        );
        assert_eq!(place.fails(&WRITE), expected);
    }
    place.write("hub/generation_config.json", "[]");
    let line = place.fails(&WRITE);
    assert_eq!(line, "error: hub/generation_config.json: is no object");

    // config.json may name them too.
    settings(&place, &json!({}));
    let config = std::fs::read(place.join("hub/config.json")).expect("read");
    let mut config: Value = serde_json::from_slice(&config).expect("an object");
    config["eos_token_id"] = "</s>".into();
    place.write("hub/config.json", &config.to_string());
    let line = place.fails(&WRITE);
    assert!(
        line.starts_with("error: hub/config.json: `eos_token_id` is \"</s>\""),
        "{line}"
    );
}

#[test]
fn settings_that_change_a_text_and_are_not_known_are_refused_by_name() {
    let place = Scratch::exported("generation-settings", SMALL_MODEL);
    let written = place.succeeds(&WRITE);
    let usual = json!({
        "num_beams": 1, "min_length": 0, "guidance_scale": 1.0, "typical_p": 1.0, "suppress_tokens": [],
        "bad_words_ids": null, "token_healing": false, "length_penalty": 1.2, "max_length": 4,
        "temperature": 0.6, "top_p": 0.9, "transformers_version": "5.23.0", "pad_token_id": 3,
        "sequence_bias": {}, "cache_implementation": "hybrid",
    });
    settings(&place, &usual);
    assert_eq!(place.succeeds(&WRITE), written);
    for (name, value) in [
        ("num_beams", json!(4)),
        ("min_length", json!(5)),
        ("no_repeat_ngram_size", json!(3)),
        ("suppress_tokens", json!([3])),
        ("forced_bos_token_id", json!(0)),
        ("stop_strings", json!("river")),
        ("typical_p", json!(0.9)),
        ("token_healing", json!(true)),
        ("exponential_decay_length_penalty", json!([5, 1.1])),
    ] {
        settings(&place, &json!({name: value}));
        let expected = format!(
            "error: hub/generation_config.json: `{name}` is {value}, which is not known here"
        );
        assert_eq!(place.fails(&WRITE), expected);
    }
    // A loss has no such settings.
    place.succeeds(&["perplexity", "hub", "--data", "a.txt", "--length", "16"]);

    // What the options stand for is said where it is not done.
    settings(
        &place,
        &json!({"do_sample": true, "repetition_penalty": 1.2, "eos_token_id": 0}),
    );
    let told = |more: &[&str]| {
        let output = place
            .hlx(&[&WRITE[..], more].concat())
            .output()
            .expect("starts");
        assert!(output.status.success());
        text(&output.stderr)
    };
    let plain = told(&[]);
    assert_eq!(plain.lines().count(), 2, "{plain}");
    assert!(plain.contains("`do_sample` is true") && plain.contains("`repetition_penalty` is 1.2"));
    assert_eq!(
        told(&["--temperature", "1", "--repetition-penalty", "1.2"]),
        ""
    );
}

/// The likeliest tokens by whole passes, searched on the host.
fn searched(model: &CausalLm, prompt: &[u32], n: usize) -> Vec<u32> {
    let device = model.device().expect("built");
    let mut ids = prompt.to_vec();
    for _ in 0..n {
        let held = &ids[ids.len().saturating_sub(model.max_positions())..];
        let input = Tensor::from_slice::<u32>(&device, held, &[1, held.len()]).expect("made");
        let all = || model.logits(&CausalInput::new(&input), &Mode::eval());
        let logits = no_grad(all)
            .expect("computed")
            .to_vec::<f32>()
            .expect("downloads");
        ids.push(greedy(&logits[logits.len() - model.vocabulary()..]) as u32);
    }
    ids.split_off(prompt.len())
}

/// With a cache, in a batch, after the model's positions, on every device, the text is that of a search on the
/// host. The model's embedding has equal rows, so that logits are equal too.
#[test]
fn the_likeliest_tokens_are_those_of_a_search_on_the_host() {
    likeliest_tokens_are_found(Arithmetic::Portable);
}

/// Rows have digits of their own, whatever is computed with them.
#[test]
fn so_they_are_over_integers() {
    likeliest_tokens_are_found(Arithmetic::Integer);
}

fn likeliest_tokens_are_found(arithmetic: Arithmetic) {
    let place = Scratch::exported(&format!("generation-{arithmetic}"), SMALL_MODEL);
    let prompts = [vec![5, 9, 2], vec![1], vec![7, 7, 7, 7, 7, 7, 3]];
    let mut texts = Vec::new();
    for device in hlx_core::testing::own_devices() {
        let opened = model_folder::open(&device, &place.join("hub"), Some(arithmetic));
        let model = opened.expect("opens");
        let device = model.device().expect("built");
        assert_eq!(device.arithmetic(), arithmetic);
        let weights = model.weights();
        let table = weights.get("model.embed_tokens.weight").expect("there");
        let table = table.tensor().expect("built").detach();
        let mut rows = table.to_vec::<f32>().expect("downloads");
        // Token 2 k + 1 is token 2 k: of the two, the first is taken.
        for pair in rows.chunks_mut(2 * 16) {
            let (first, second) = pair.split_at_mut(16);
            second.copy_from_slice(first);
        }
        let buffer = table.buffer().expect("a buffer");
        device.upload(&buffer, &rows).expect("uploads");
        let options = TokenGeneration {
            slides: true,
            ..TokenGeneration::new(66, Sampling::default(), Vec::new())
        };
        let found = generate_tokens(&model, &prompts, &options, &mut |_, _| Ok(false));
        let found = found.expect("generates");
        for (prompt, found) in prompts.iter().zip(&found) {
            assert_eq!(*found, searched(&model, prompt, 66), "{}", device.info());
            assert!(found.iter().all(|id| id % 2 == 0), "{found:?}");
        }
        texts.push(found);
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
}
