//! One model on several devices: answers are those of one device, and counters say which devices gave them.

mod common;

use common::{Server, text_model};
use hlx_core::Device;
use hlx_serve::{Served, Settings};
use hlx_train::engine::Limits;
use serde_json::{Value, json};

fn counter(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("{name} in {text}"))
}

/// Forty prompts at once, for which one device has too few places.
fn ask(server: &Server) -> Value {
    let prompts: Vec<String> = (0..40).map(|n| format!("{n} of them; the river")).collect();
    let body = json!({
        "model": "m", "prompt": prompts, "seed": 3, "max_tokens": 20, "ignore_eos": true, "logit_digests": true,
    });
    server.post("/v1/completions", &body).json()["choices"].take()
}

#[test]
fn answers_over_devices_are_those_of_one() {
    let cpu = || hlx_core::testing::cpu().expect("opens");
    let serve = |devices: &[Device]| {
        let texts = devices.iter().map(text_model).collect();
        let limits = Limits {
            places: 3,
            ..Limits::default()
        };
        let served = Served::start_on("m", texts, limits).expect("starts");
        Server::start_models(vec![served], Settings::default())
    };
    let expected = ask(&serve(&[cpu()]));
    assert_eq!(expected.as_array().map(Vec::len), Some(40));
    let mut devices = vec![cpu()];
    devices.extend(hlx_core::testing::vulkan_devices());
    if devices.len() == 1 {
        devices.push(cpu());
    }
    let server = serve(&devices);
    assert_eq!(ask(&server), expected);
    let text = server.get("/metrics").body;
    let answered = "requests_answered_total{model=\"m\"";
    assert_eq!(counter(&text, &format!("hlx_{answered}}}")), 40);
    for device in &devices {
        let labels = format!(",device=\"{}\"}}", device.info().selector);
        let n = counter(&text, &format!("hlx_device_{answered}{labels}"));
        assert!(n > 0, "{text}");
        let open = format!("hlx_device_open{{model=\"m\"{labels}");
        assert_eq!(counter(&text, &open), 1);
    }
}
