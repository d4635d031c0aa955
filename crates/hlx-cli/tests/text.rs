//! Text from models with a tokenizer: from runs and model folders, with a cache, in batches, as answers
//! in a conversation.

mod common;

use common::{SMALL_MODEL, Scratch};
use hlx_autograd::{DType, Tensor, no_grad};
use hlx_core::Device;
use hlx_io::{load_safetensors, save_npy, save_safetensors};
use hlx_nn::{CausalInput, CausalModel, Mode};
use hlx_text::{ChatTemplate, Message, Tokenizer};
use hlx_train::chat::Conversation;
use hlx_train::generate::{TextModel, TokenGeneration, generate_tokens};
use hlx_train::opening::Opening;
use hlx_train::sample::{Sampling, greedy};

const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}\
                        {% if add_generation_prompt %}assistant:{% endif %}";

fn open(place: &Scratch, device: &Device, model: &str) -> TextModel {
    TextModel::open(device, &place.join(model), Opening::default()).expect("opens")
}

fn drawing() -> Sampling {
    Sampling {
        temperature: 1.2,
        top_p: 0.98,
        seed: 3,
        ..Sampling::default()
    }
}

/// Greedy tokens by whole passes, without a cache.
fn uncached(text: &TextModel, prompt: &[u32], n: usize) -> Vec<u32> {
    let mut ids = prompt.to_vec();
    for _ in 0..n {
        let device = text.model.device().expect("built");
        let input = Tensor::from_slice::<u32>(&device, &ids, &[1, ids.len()]).expect("made");
        let all = || text.model.logits(&CausalInput::new(&input), &Mode::eval());
        let logits = no_grad(all)
            .expect("computed")
            .to_vec::<f32>()
            .expect("downloads");
        let last = &logits[logits.len() - text.model.vocabulary()..];
        ids.push(greedy(last) as u32);
    }
    ids.split_off(prompt.len())
}

#[test]
fn a_prompt_has_one_text_on_every_device_in_every_batch_from_run_and_folder() {
    let place = Scratch::exported("text", SMALL_MODEL);
    let prompts = ["the river", "light", "it's lighter than the last one, 12"];
    let mut texts = Vec::new();
    for device in hlx_core::testing::own_devices() {
        for folder in ["run", "hub"] {
            let text = open(&place, &device, folder);
            let ids = prompts.map(|prompt| text.encode(prompt).expect("encodes"));
            let options = TokenGeneration {
                n_texts: 2,
                ..TokenGeneration::new(12, drawing(), text.end_tokens.clone())
            };
            let mut told = vec![String::new(); 6];
            let mut tell = |number: usize, new: &str| {
                told[number] += new;
                Ok(())
            };
            let together = text.write(&ids, &options, &[], &mut tell).expect("writes");
            assert_eq!(told, together);
            for (number, ids) in ids.iter().enumerate() {
                let alone =
                    text.write(std::slice::from_ref(ids), &options, &[], &mut |_, _| Ok(()));
                let expected = &together[2 * number..2 * number + 2];
                assert_eq!(alone.expect("writes"), expected, "{}", prompts[number]);
            }
            texts.push(together);
        }
        let text = open(&place, &device, "run");
        let prompt = text.encode(prompts[0]).expect("encodes");
        let options = TokenGeneration::new(9, Sampling::default(), Vec::new());
        let found = generate_tokens(
            &text.model,
            std::slice::from_ref(&prompt),
            &options,
            &mut |_, _| Ok(false),
        );
        assert_eq!(
            found.expect("generates")[0],
            uncached(&text, &prompt, 9),
            "{}",
            device.info()
        );
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
    assert_ne!(texts[0][0], texts[0][1], "two draws of a prompt");
}

#[test]
fn a_text_ends_at_a_stop_a_stop_token_and_the_end_of_the_positions() {
    let place = Scratch::exported("text-ends", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device, "run");
    let ids = [text.encode("the river of").expect("encodes")];
    let none = |_: usize, _: &str| Ok(());
    let options = TokenGeneration::new(20, drawing(), Vec::new());
    let whole = text
        .write(&ids, &options, &[], &mut { none })
        .expect("writes");
    let middle = whole[0].char_indices().nth(5).expect("long enough").0;
    let stop: String = whole[0][middle..].chars().take(3).collect();
    let mut told = String::new();
    let mut tell = |_: usize, new: &str| {
        told += new;
        Ok(())
    };
    let stopped = text.write(&ids, &options, std::slice::from_ref(&stop), &mut tell);
    let end = whole[0].find(&stop).expect("it is there");
    assert_eq!(
        (&stopped.expect("writes")[0][..], &told[..]),
        (&whole[0][..end], &whole[0][..end])
    );

    let all = generate_tokens(&text.model, &ids, &options, &mut |_, _| Ok(false)).expect("draws");
    let options = TokenGeneration::new(20, drawing(), vec![all[0][4]]);
    let first = all[0]
        .iter()
        .position(|id| *id == all[0][4])
        .expect("it is there");
    let cut = generate_tokens(&text.model, &ids, &options, &mut |_, _| Ok(false)).expect("draws");
    assert_eq!(cut[0], all[0][..first]);

    // The last position predicts one more token, which takes none.
    let options = TokenGeneration::new(500, drawing(), Vec::new());
    let full = generate_tokens(&text.model, &ids, &options, &mut |_, _| Ok(false)).expect("draws");
    assert_eq!(ids[0].len() + full[0].len(), 64 + 1);
    // A sequence that slides continues with the last positions.
    let options = TokenGeneration {
        slides: true,
        ..TokenGeneration::new(60, drawing(), Vec::new())
    };
    let slid = generate_tokens(&text.model, &ids, &options, &mut |_, _| Ok(false)).expect("draws");
    let held = full[0].len().min(60);
    assert_eq!((slid[0].len(), &slid[0][..held]), (60, &full[0][..held]));
}

#[test]
fn a_conversation_is_laid_out_by_the_template_and_remembered() {
    let place = Scratch::exported("chat", SMALL_MODEL);
    place.write("hub/chat_template.jinja", TEMPLATE);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device, "hub");
    let mut conversation = Conversation::new(&text, Some("be kind")).expect("begins");
    let options = TokenGeneration::new(4, Sampling::default(), text.end_tokens.clone());
    let mut told = String::new();
    let mut tell = |new: &str| {
        told += new;
        Ok(())
    };
    let answer = conversation
        .say("light", &options, &[], &mut tell)
        .expect("answers");
    assert_eq!(answer, told);
    let ids = text
        .tokenizer
        .encode("system: be kind\nuser: light\nassistant:")
        .expect("encodes");
    let alone = text
        .write(&[ids], &options, &[], &mut |_, _| Ok(()))
        .expect("writes");
    assert_eq!(answer, alone[0]);
    let roles: Vec<String> = conversation
        .messages()
        .iter()
        .map(|one| one.role())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant"]);

    // A prompt that does not fit is not remembered.
    let long = "one two three ".repeat(40);
    let error = conversation
        .say(&long, &options, &[], &mut |_| Ok(()))
        .expect_err("too long");
    assert!(
        error
            .to_string()
            .ends_with("positions, and the model has 64: clear it, or say less"),
        "{error}"
    );
    assert_eq!(conversation.messages().len(), 3);
    conversation.clear();
    assert_eq!(conversation.messages().len(), 1);

    // A later answer continues from what was read, with the text of the whole conversation.
    let mut conversation = Conversation::new(&text, None).expect("begins");
    for said in ["light", "a"] {
        let mut messages = conversation.messages().to_vec();
        messages.push(Message::new("user", said));
        let template = ChatTemplate::of(&text.tokenizer).expect("a template");
        let prompt = template.render(&messages, true).expect("renders");
        let ids = text.tokenizer.encode(&prompt).expect("encodes");
        let alone = text.write(&[ids], &options, &[], &mut |_, _| Ok(()));
        let answer = conversation.say(said, &options, &[], &mut |_| Ok(()));
        assert_eq!(answer.expect("answers"), alone.expect("writes")[0]);
    }

    // A template that raises says so with its line, and nothing is remembered.
    place.write(
        "hub/chat_template.jinja",
        "{{ messages[0].content }}\n{{ raise_exception('roles must alternate') }}",
    );
    let raising = open(&place, &device, "hub");
    let mut conversation = Conversation::new(&raising, None).expect("begins");
    let error = conversation.say("light", &options, &[], &mut |_| Ok(()));
    let error = error.expect_err("it raises").to_string();
    assert_eq!(error, "chat_template: line 2: roles must alternate");
    assert!(conversation.messages().is_empty());

    let plain = open(&place, &device, "run");
    let error = Conversation::new(&plain, None).expect_err("no template");
    assert!(
        error
            .to_string()
            .contains("the tokenizer has no chat template beside it"),
        "{error}"
    );
    let line = place.fails(&["chat", "hub"]);
    assert!(
        line.starts_with("error: a conversation needs a terminal"),
        "{line}"
    );
}

#[test]
fn the_program_writes_and_says_what_it_cannot() {
    let place = Scratch::exported("text-program", SMALL_MODEL);
    let write = |model: &str| {
        let options = ["--max-tokens", "6", "--temperature", "1", "--seed", "2"];
        place.succeeds(&[&["generate", model, "--prompt", "the river"], &options[..]].concat())
    };
    let written = write("run");
    assert!(written.len() > 3, "{written}");
    assert_eq!(written, write("hub"));
    let line = place.fails(&["generate", "nowhere", "--prompt", "a"]);
    assert!(line.contains("nowhere: is no run folder"), "{line}");
    let line = place.fails(&["generate", "run", "--prompt", &"river 1 ".repeat(60)]);
    assert!(line.ends_with("positions, and the model has 64"), "{line}");
    let line = place.fails(&["generate", "hub", "--prompt", "a", "--average"]);
    assert!(line.contains("has no moving average"), "{line}");
    std::fs::remove_file(place.join("hub/tokenizer.json")).expect("removed");
    let line = place.fails(&["generate", "hub", "--prompt", "a"]);
    assert_eq!(line, "error: hub: holds no tokenizer.json");
    let wide = "tokenizer train --vocab 290 -o hub/tokenizer.json a.txt pairs.jsonl";
    place.succeeds(&wide.split(' ').collect::<Vec<_>>());
    // A tokenizer with more tokens than the model opens; a prompt with one of them is refused.
    place.succeeds(&["generate", "hub", "--prompt", "a", "--max-tokens", "2"]);
    let wide = Tokenizer::open(place.join("hub")).expect("a tokenizer");
    let text = wide.decode(&[285]).expect("decodes");
    let line = place.fails(&["generate", "hub", "--prompt", &text]);
    assert!(
        line.starts_with("error: the prompt has the token `"),
        "{line}"
    );
    assert!(
        line.ends_with("` (285), and the model only 280 tokens"),
        "{line}"
    );

    // A text within one window has the perplexity of its evaluation; a folder measures like its run.
    place.write("short.txt", "the river of light, 12 of them");
    let measure = |model: &str| -> serde_json::Value {
        let line = place.succeeds(&["perplexity", model, "--data", "short.txt", "--json"]);
        let found: serde_json::Value = serde_json::from_str(&line).expect("an object");
        found["perplexity"].clone()
    };
    let found = measure("run");
    assert_eq!(found["n_bytes"], 30);
    let prepare = "data prepare --no-eos --tokenizer tokenizer.json -o short short.txt";
    let prepare: Vec<&str> = prepare.split(' ').collect();
    place.succeeds(&prepare);
    let set = ["--set", "data.length=64"];
    place.succeeds(&[&["train", "config.toml", "--out", "long"][..], &set].concat());
    let line = place.succeeds(&["eval", "long", "--data", "short", "--json"]);
    let evaluated: serde_json::Value = serde_json::from_str(&line).expect("an object");
    let long = measure("long");
    assert_eq!(long["loss"], evaluated["evaluation"]["loss"]);
    assert_eq!(long["n_tokens"], evaluated["evaluation"]["n_tokens"]);
    std::fs::copy(
        place.join("tokenizer.json"),
        place.join("hub/tokenizer.json"),
    )
    .expect("copied");
    assert_eq!(measure("hub"), found);

    // Samples are written at evaluations.
    let sets = [
        "data.eval_fraction=0.2",
        "train.eval_every=2",
        "sample={prompts = [\"the river\"]}",
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    let all = [&["train", "config.toml", "--out", "sampled"], &sets[..]].concat();
    let printed = place.succeeds(&all);
    assert!(printed.contains("| the river"), "{printed}");
}

/// `--dtype` gives a run, its export and its import the text of the rounded model; a folder stored in 16 bits
/// has it by itself.
#[test]
fn matrices_in_16_bits_give_the_text_of_the_rounded_model() {
    let place = Scratch::exported("text-dtype", SMALL_MODEL);
    place.succeeds(&["import", "hub", "--out", "mine"]);
    let options = "--prompt river --max-tokens 12 --temperature 1 --seed 4";
    let options: Vec<&str> = options.split(' ').collect();
    let write = |model: &str, dtype: &[&str]| {
        place.succeeds(&[&["generate", model][..], &options, dtype].concat())
    };
    let ids = Tensor::from_slice::<u32>(
        &hlx_core::testing::cpu().expect("opens"),
        &[5, 9, 2],
        &[1, 3],
    );
    save_npy(&place.join("ids.npy"), &ids.expect("made")).expect("written");
    let logits = |model: &str, dtype: &[&str]| {
        let plain = ["logits", model, "--ids", "ids.npy", "--out", "l.npy"];
        place.succeeds(&[&plain[..], dtype].concat());
        std::fs::read(place.join("l.npy")).expect("written")
    };
    let measured = |arguments: &[&str], dtype: &[&str]| {
        place.succeeds(&[arguments, dtype, &["--json"]].concat())
    };
    place.write("short.txt", "the river of light, 12 of them");
    let perplexity = ["perplexity", "run", "--data", "short.txt"];
    for (dtype, stored) in [("bf16", DType::BF16), ("f16", DType::F16)] {
        store_in(&place, stored);
        let said = ["--dtype", dtype];
        let whole = ["--dtype", "f32"];
        let expected = (write("stored", &whole), logits("stored", &whole));
        assert_ne!(expected.1, logits("run", &[]), "{dtype} changes nothing");
        for model in ["run", "hub", "mine", "stored"] {
            let found = (write(model, &said), logits(model, &said));
            assert_eq!(found, expected, "{model} {dtype}");
        }
        assert_eq!(write("stored", &[]), expected.0);
        assert_ne!(measured(&perplexity, &said), measured(&perplexity, &[]));
        let of_folder = ["perplexity", "stored", "--data", "short.txt"];
        let value = |text: &str| -> serde_json::Value {
            let found: serde_json::Value = serde_json::from_str(text).expect("an object");
            found["perplexity"].clone()
        };
        let of_run = value(&measured(&perplexity, &said));
        assert_eq!(of_run, value(&measured(&of_folder, &[])));
        assert_ne!(
            measured(&["eval", "run"], &said),
            measured(&["eval", "run"], &[])
        );
    }
    let plain = ["logits", "run", "--ids", "ids.npy", "--out", "l.npy"];
    let more = ["--targets", "ids.npy", "--gradients", "g.safetensors"];
    let line = place.fails(&[&plain[..], &more, &["--dtype", "bf16"]].concat());
    assert!(line.starts_with("error: --gradients: "), "{line}");
}

/// Writes the folder `hub` as `stored`, with its matrices in a type of 16 bits.
fn store_in(place: &Scratch, dtype: DType) {
    let (from, to) = (place.join("hub"), place.join("stored"));
    std::fs::create_dir_all(&to).expect("made");
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(from.join(name), to.join(name)).expect("copied");
    }
    let device = hlx_core::testing::cpu().expect("opens");
    let mut tensors = load_safetensors(&device, &from.join("model.safetensors")).expect("read");
    for tensor in tensors.values_mut().filter(|tensor| tensor.rank() == 2) {
        *tensor = tensor.to_dtype(dtype).expect("rounded");
    }
    save_safetensors(&to.join("model.safetensors"), &tensors).expect("written");
}

/// A model that knows its records by heart answers all of them; one that does not, few or none.
#[test]
fn exact_answers_are_counted_over_records_held_out_and_all() {
    let place = Scratch::exported("exact", SMALL_MODEL);
    let sets = [
        "data.path=pairs",
        "data.rows=padded",
        "data.length=24",
        "data.eval_fraction=0.1",
        "train.batch_size=8",
        "train.schedule=constant",
    ];
    let evaluated = |run: &str, steps: &str, more: &[&str]| -> serde_json::Value {
        let steps = format!("train.max_steps={steps}");
        let all = [&sets[..], &[&steps]].concat();
        let all: Vec<&str> = all.iter().flat_map(|set| ["--set", *set]).collect();
        place.succeeds(&[&["train", "config.toml", "--out", run], &all[..]].concat());
        let line = place.succeeds(&[&["eval", run, "--exact", "--json"], more].concat());
        serde_json::from_str(&line).expect("an object")
    };
    let learnt = evaluated("learnt", "400", &[]);
    assert_eq!(learnt["answers"], 40);
    assert!(learnt["exact_answers"].as_u64() > Some(30), "{learnt}");
    let fresh = evaluated("fresh", "1", &["--held-out"]);
    assert!(fresh["answers"].as_u64() < Some(10), "{fresh}");
    assert_eq!(fresh["exact_answers"], 0);
    let line = place.fails(&["eval", "run", "--exact"]);
    assert_eq!(
        line,
        "error: --exact: document 0 is no record of input and output"
    );
}
