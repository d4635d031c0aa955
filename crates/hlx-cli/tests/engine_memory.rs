//! A long flood of the engine, in a process of its own: `HLX_LONG=1` runs it.
#![cfg(target_os = "linux")]

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;

use common::{SMALL_MODEL, Scratch};
use hlx_train::engine::{Engine, Event, Limits, Request};
use hlx_train::generate::TextModel;
use hlx_train::opening::Opening;
use hlx_train::sample::Sampling;

/// The memory of this process in kB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    number.expect("a number of kB")
}

/// What is allocated does not grow after the first rounds, and the answers of all rounds are those of the first.
#[test]
fn a_long_flood_holds_no_more_memory_than_a_short_one() {
    if std::env::var_os("HLX_LONG").is_none() {
        hlx_core::testing::left_out("a flood of 22,100 requests", "HLX_LONG is not set");
        return;
    }
    let place = Scratch::exported("engine-long", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = TextModel::open(&device, &place.join("run"), Opening::default());
    let text = Arc::new(text.expect("opens"));
    let engine = Engine::start(Arc::clone(&text), Limits::default()).expect("starts");
    let request = |at: usize| {
        let prompt = ["the river", "light", "12 of them", "it's lighter"][at % 4];
        let mut request = Request::new(text.encode(prompt).expect("encodes"), 1 + at % 50);
        request.sampling = Sampling {
            temperature: [0.0, 1.0][at % 2],
            seed: at as u64,
            ..Sampling::default()
        };
        request.logprobs = [None, Some(3)][at / 4 % 2];
        request
    };
    let round = || -> Vec<Vec<u32>> {
        let ask = |at: usize| {
            let (sender, events) = channel();
            let listen = Box::new(move |event| _ = sender.send(event));
            (
                engine.submit(request(at), listen).expect("is taken"),
                events,
            )
        };
        let asked: Vec<_> = (0..100).map(ask).collect();
        let tokens = asked.iter().map(|(_, events)| {
            let pieces = events.iter().filter_map(|event| match event {
                Event::Piece { tokens, .. } => Some(tokens),
                Event::Prompt { .. } | Event::End { .. } => None,
            });
            pieces.flatten().map(|token| token.id).collect()
        });
        tokens.collect()
    };
    let first = round();
    (0..20).for_each(|_| assert_eq!(round(), first));
    let before = resident();
    (0..200).for_each(|_| assert_eq!(round(), first));
    let after = resident();
    assert!(after < before + 10_000, "{before} kB, then {after} kB");
}
