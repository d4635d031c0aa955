//! Several devices answer the requests of one model: nobody sees which one it was.

use std::sync::Arc;
use std::sync::mpsc::channel;

use hlx_core::Device;
use hlx_train::engine::{Engine, Event, Limits, Request};
use hlx_train::generate::TextModel;

use super::common::{SMALL_MODEL, Scratch};
use super::{Answer, answer, ask, collect, open, requests, start};

/// A model on two devices of the processor, and on those under test.
fn texts(place: &Scratch) -> Vec<Arc<TextModel>> {
    let cpu = || hlx_core::testing::cpu().expect("opens");
    let mut devices: Vec<Device> = vec![cpu(), cpu()];
    devices.extend(hlx_core::testing::vulkan_devices());
    devices.iter().map(|device| open(place, device)).collect()
}

fn alone(text: &Arc<TextModel>, requests: &[Request]) -> Vec<Answer> {
    let limits = Limits {
        places: 1,
        reuses_prefixes: false,
        ..Limits::default()
    };
    let engine = start(text, limits);
    let answers = requests.iter().map(|one| answer(&engine, one.clone()));
    answers.collect()
}

#[test]
fn a_flood_over_devices_gets_what_each_request_gets_alone() {
    let place = Scratch::exported("engine-devices", SMALL_MODEL);
    let texts = texts(&place);
    let requests = requests(&texts[0], 80);
    let expected = alone(&texts[0], &requests);
    for (places, reuses_prefixes) in [(3, true), (8, false)] {
        let limits = Limits {
            places,
            chunk: 5,
            reuses_prefixes,
            ..Limits::default()
        };
        let engine = Engine::start_on(texts.clone(), limits).expect("starts");
        let asked: Vec<_> = requests
            .iter()
            .map(|one| ask(&engine, one.clone()))
            .collect();
        for (at, (_ticket, events)) in asked.iter().enumerate() {
            assert_eq!(collect(events).0, expected[at], "{:?}", requests[at]);
        }
        let (all, devices) = (engine.counts(), engine.devices());
        assert_eq!((all.answered, all.waiting, all.running), (80, 0, 0));
        assert_eq!(devices.len(), texts.len());
        for one in &devices {
            assert!(one.is_open && one.counts.answered > 0, "{one:?}");
        }
        let answered = devices.iter().map(|one| one.counts.answered);
        assert_eq!(answered.sum::<u64>(), 80);
    }
}

/// The first device is withdrawn in the middle of an answer, while others wait and grow on it.
#[test]
fn the_answers_of_a_device_that_is_withdrawn_are_continued_by_others() {
    let place = Scratch::exported("engine-withdrawn", SMALL_MODEL);
    let texts = texts(&place);
    let mut requests = requests(&texts[0], 40);
    requests[0] = Request {
        ignores_end: true,
        digests: true,
        ..Request::new(texts[0].encode("the river").expect("encodes"), 40)
    };
    let expected = alone(&texts[0], &requests);
    let limits = Limits {
        places: 4,
        ..Limits::default()
    };
    let engine = Engine::start_on(texts.clone(), limits).expect("starts");
    let (sender, first_events) = channel();
    let (reached, is_reached) = channel();
    let (goes_on, waits) = channel::<()>();
    let mut n_events = 0;
    let listen = move |event: Event| {
        n_events += 1;
        sender.send(event).expect("is listened to");
        if n_events == 5 {
            reached.send(()).expect("is waited for");
            // The engine's thread waits here, until the test lets it go on.
            let _ = waits.recv();
        }
    };
    let first = engine.submit(requests[0].clone(), Box::new(listen));
    let first = first.expect("is taken");
    let others: Vec<_> = requests[1..]
        .iter()
        .map(|one| ask(&engine, one.clone()))
        .collect();
    is_reached.recv().expect("the answer grows");
    let devices = engine.devices();
    // With nothing to do anywhere, the first device takes the first request.
    assert!(devices[0].counts.running > 0, "{devices:?}");
    assert!(engine.withdraw(0));
    goes_on.send(()).expect("the thread waits");
    assert_eq!(collect(&first_events).0, expected[0]);
    drop(first);
    for (at, (_ticket, events)) in others.iter().enumerate() {
        assert_eq!(
            collect(events).0,
            expected[at + 1],
            "{:?}",
            requests[at + 1]
        );
    }
    let devices = engine.devices();
    assert!(!devices[0].is_open && devices[1].is_open);
    assert_eq!(devices[0].counts.running, 0);
    assert_eq!(engine.counts().answered, 40);
    // The last device stays.
    for device in 1..devices.len() {
        assert_eq!(engine.withdraw(device), device + 1 < devices.len());
    }
    assert_eq!(answer(&engine, requests[0].clone()), expected[0]);
    let answers = expected.iter().chain(&expected[..1]);
    let n_tokens: usize = answers.map(|one| one.n_tokens[1]).sum();
    assert!(
        engine.counts().answer_tokens > n_tokens as u64,
        "what the first device had was drawn again"
    );
}
