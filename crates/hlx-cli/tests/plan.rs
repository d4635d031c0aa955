//! `hlx train --plan`: what a run takes, without allocating it.

mod common;

use common::Scratch;

/// The plan of a run as JSON, and whether the program says that it fits.
fn plan(place: &Scratch, sets: &[&str]) -> (serde_json::Value, bool) {
    let mut arguments = vec![
        "train",
        "config.toml",
        "--plan",
        "--json",
        "--device",
        "cpu",
    ];
    for set in sets {
        arguments.extend(["--set", set]);
    }
    let output = place.hlx(&arguments).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let plan = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (plan, output.status.success())
}

fn bytes(plan: &serde_json::Value, key: &str) -> u64 {
    plan[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} in {plan}"))
}

/// The plan of a small run has the figures of the run itself, which holds memory in blocks of 32 MiB.
#[test]
fn a_plan_is_what_the_run_takes() {
    let place = Scratch::new("plan");
    let cpu = hlx_core::testing::cpu().expect("the CPU device opens");
    for sets in [
        &["model.width=36"][..],
        &[
            "model.width=36",
            "train.micro_batch_size=2",
            "train.optimizer=adamw8bit",
        ],
    ] {
        let (plan, fits) = plan(&place, sets);
        assert!(fits && plan["fits"] == true && plan["kind"] == "plan");
        let trainer = place.trainer(&cpu, &format!("run-{}", sets.len()), sets);
        let (planned, taken) = (bytes(&plan, "total_bytes"), trainer.memory().total_bytes());
        assert!(
            planned <= taken && taken - planned <= 64 << 20,
            "{planned} {taken}"
        );
        let words = trainer.weights().n_words() as u64;
        assert_eq!(bytes(&plan, "parameter_bytes"), 4 * words);
        let state = bytes(&plan, "optimizer_bytes");
        match sets.len() {
            1 => assert_eq!(state, 8 * words),
            _ => assert!(state < 5 * words, "{state} of {words}"),
        }
    }
    assert!(!place.join("runs").exists());
}

/// A model of three billion parameters, with AdamW 51 GB: the plan takes no memory for it, and names the optimizers with less state.
#[test]
fn a_plan_of_a_model_that_no_device_holds() {
    let place = Scratch::new("plan-large");
    let sets = ["model.width=8192", "model.n_layers=4", "model.n_heads=64"];
    let (plan, fits) = plan(&place, &sets);
    assert!(!fits && plan["fits"] == false);
    assert!(bytes(&plan, "n_parameters") > 3_000_000_000);
    let others = plan["optimizers"].as_array().expect("a list");
    let names: Vec<_> = others.iter().map(|other| &other["optimizer"]).collect();
    assert_eq!(names, ["adamw8bit", "adafactor"]);
    let words = bytes(&plan, "parameter_bytes") / 4;
    let of_8bit = bytes(&others[0], "optimizer_bytes");
    assert!(
        of_8bit > 2 * words && of_8bit < 21 * words / 10,
        "{of_8bit}"
    );
    assert!(bytes(&others[1], "optimizer_bytes") < words / 100);
}
