//! `hlx zoo`: the recipes of the repository, their cards, and what was published of the smallest.

use std::fs;
use std::path::{Path, PathBuf};

use hlx_train::config::Config;
use serde_json::Value;

use crate::common::{Scratch, status};

fn zoo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../zoo")
}

/// The zoo in a folder of its own, without the weights.
fn copied(place: &Scratch) {
    for folder in ["recipes", "data/xor"] {
        let (from, to) = (zoo().join(folder), place.join("zoo").join(folder));
        fs::create_dir_all(&to).expect("made");
        for entry in fs::read_dir(from).expect("a folder") {
            let path = entry.expect("an entry").path();
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
        }
    }
    for name in ["zoo.json", "results.json"] {
        fs::copy(zoo().join(name), place.join("zoo").join(name)).expect("copied");
    }
}

#[test]
fn every_recipe_has_a_configuration_a_result_and_its_card() {
    let place = Scratch::new("zoo");
    let folder = zoo().display().to_string();
    let line = place.succeeds(&["zoo", "list", "--json", "--zoo", &folder]);
    let listed: Value = serde_json::from_str(&line).expect("JSON");
    let recipes = listed["recipes"].as_array().expect("a list");
    assert!(recipes.len() >= 10);
    for recipe in recipes {
        let name = recipe["name"].as_str().expect("a name");
        Config::load(&zoo().join(format!("recipes/{name}.toml")), &[]).expect(name);
        let published = recipe["published"].as_array().expect("a list");
        assert!(!published.is_empty(), "{name}: no result is published");
        let card = place.succeeds(&["zoo", "card", name, "--zoo", &folder]);
        let written = fs::read_to_string(zoo().join(format!("cards/{name}.md"))).expect(name);
        assert_eq!(
            card.trim_end(),
            written.trim_end(),
            "`hlx zoo card --write` renews it"
        );
    }
    let weights = fs::read_dir(zoo().join("weights")).expect("a folder");
    let sizes = weights.map(|entry| entry.expect("an entry").metadata().expect("is known").len());
    assert!(sizes.sum::<u64>() < 4 << 20);
}

#[test]
fn the_smallest_recipe_has_its_published_digest_and_another_one_differs() {
    let place = Scratch::new("zoo");
    copied(&place);
    let text = place.succeeds(&["zoo", "train", "xor"]);
    assert!(
        text.contains("100.00%") && text.contains(": equal"),
        "{text}"
    );
    let (code, _, error) = status(&place, &["zoo", "train", "xor"]);
    assert_eq!((code, error.lines().count()), (2, 1), "{error}");
    assert!(
        error.contains("holds a run already: `hlx zoo verify xor`"),
        "{error}"
    );
    let text = place.succeeds(&["zoo", "train", "xor", "--resume"]);
    assert!(text.contains(": equal"), "{text}");
    let text = place.succeeds(&["zoo", "verify", "xor"]);
    assert!(
        text.contains(": equal") && text.contains("equal      up to step 200"),
        "{text}"
    );
    let recipe = place.join("zoo/recipes/xor.toml");
    let changed = fs::read_to_string(&recipe)
        .expect("reads")
        .replace("seed = 1", "seed = 2");
    fs::write(&recipe, changed).expect("writes");
    let (code, text, _) = status(&place, &["zoo", "train", "xor", "--run", "other"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("\ndiffers    "), "{text}");
    let (code, text, _) = status(&place, &["zoo", "verify", "xor", "--run", "other"]);
    assert_eq!((code, text.lines().count()), (1, 2), "{text}");
}

#[test]
fn published_weights_have_their_digest_and_a_run_makes_the_same_file() {
    const NAME: &str = "shakespeare-llama";
    let place = Scratch::new("zoo");
    copied(&place);
    let file = place.join(&format!("zoo/weights/{NAME}.gguf"));
    fs::create_dir_all(file.parent().expect("a folder")).expect("made");
    let published = fs::read(zoo().join(format!("weights/{NAME}.gguf"))).expect("weights");
    fs::write(&file, &published).expect("written");
    let quick = ["zoo", "verify", NAME, "--quick"];
    let text = place.succeeds(&quick);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.starts_with("weights ") && text.contains(": equal"),
        "{text}"
    );
    let mut damaged = published;
    *damaged.last_mut().expect("bytes") ^= 1;
    fs::write(&file, &damaged).expect("written");
    let (code, text, _) = status(&place, &quick);
    assert_eq!((code, text.lines().count()), (1, 2), "{text}");
    // The same recipe, of fewer steps and a text of a few lines.
    for (name, from, to) in [
        (
            "zoo.json",
            "\"vocabulary\": 512".to_owned(),
            "\"vocabulary\": 280",
        ),
        (
            &format!("recipes/{NAME}.toml"),
            "max_steps = 1200".to_owned(),
            "max_steps = 4",
        ),
    ] {
        let path = place.join("zoo").join(name);
        let text = fs::read_to_string(&path).expect("reads");
        assert!(text.contains(&from), "{name}");
        fs::write(&path, text.replace(&from, to)).expect("writes");
    }
    let line = "the river of light, 12 of them; it's lighter than the last one\n";
    place.write("lines.txt", &line.repeat(200));
    let train = ["zoo", "train", NAME, "--data", "lines.txt"];
    place.succeeds(&[&train[..], &["--publish"]].concat());
    assert_ne!(fs::read(&file).expect("weights"), damaged);
    // Results are in the order of the data's digests, and the first with weights tells what the file has.
    let results = place.join("zoo/results.json");
    let read = fs::read_to_string(&results).expect("reads");
    let mut results_of_all: Vec<Value> = serde_json::from_str(&read).expect("JSON");
    results_of_all.retain(|one| one["name"] != NAME || one["steps"] == 4);
    let kept = serde_json::to_string(&results_of_all).expect("JSON");
    fs::write(&results, &kept).expect("writes");
    let text = place.succeeds(&quick);
    assert!(text.contains(", of this run: equal"), "{text}");
    assert_eq!(text.matches(": equal").count(), 3, "{text}");
    let weights = results_of_all.iter().find(|one| one["name"] == NAME);
    let weights = weights.and_then(|one| one["weights"].as_str());
    let weights = weights.expect("a digest");
    fs::write(&results, kept.replace(weights, &"0".repeat(64))).expect("writes");
    let (code, text, _) = status(&place, &quick);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains(&format!("\ndiffers    {weights}")), "{text}");
}

#[test]
fn what_the_zoo_cannot_do_has_a_line() {
    let place = Scratch::new("zoo");
    copied(&place);
    let cases: [(&[&str], &str); 7] = [
        (
            &["list", "--zoo", "none"],
            "none: is no zoo: it holds no zoo.json",
        ),
        (&["train", "gpt9"], "gpt9: is no recipe, expected xor, "),
        (
            &["train", "shakespeare-gpt"],
            "shakespeare-gpt needs its data: --data names a file",
        ),
        (
            &["train", "xor", "--data", "a"],
            "--data: xor has its own data",
        ),
        (
            &["train", "ascii-lora"],
            "`hlx zoo train ascii-pairs` comes first",
        ),
        (
            &["verify", "xor"],
            "runs/zoo/xor: is not there: `hlx zoo train xor` trains one",
        ),
        (
            &["chat", "ascii-pairs"],
            "runs/zoo/ascii-pairs: is not there",
        ),
    ];
    for (arguments, words) in cases {
        let (code, _, stderr) = status(&place, &[&["zoo"], arguments].concat());
        assert_eq!(
            (code, stderr.lines().count()),
            (2, 1),
            "{arguments:?}: {stderr}"
        );
        assert!(stderr.contains(words), "{stderr}");
    }
}
