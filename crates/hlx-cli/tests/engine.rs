//! The engine: answers of requests that come and go are those of the same requests alone.

mod common;
#[path = "engine/devices.rs"]
mod devices;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use common::{SMALL_MODEL, Scratch};
use hlx_core::Device;
use hlx_core::arith::philox4x32;
use hlx_nn::CausalModel;
use hlx_train::engine::{
    Engine, Event, Finish, Limits, Logprobs, Refused, Request, Ticket, Token, Usage,
};
use hlx_train::generate::{TextModel, TokenGeneration};
use hlx_train::opening::Opening;
use hlx_train::sample::Sampling;

fn open(place: &Scratch, device: &Device) -> Arc<TextModel> {
    let text = TextModel::open(device, &place.join("run"), Opening::default());
    Arc::new(text.expect("opens"))
}

fn start(text: &Arc<TextModel>, limits: Limits) -> Engine {
    Engine::start(Arc::clone(text), limits).expect("starts")
}

/// All that is known of an answer; `usage.reused` depends on what was there before, and is left out.
#[derive(Debug, PartialEq)]
struct Answer {
    text: String,
    tokens: Vec<Token>,
    prompt: Vec<Logprobs>,
    end_token: Option<Token>,
    finish: Finish,
    n_tokens: [usize; 2],
    digest: Option<String>,
}

fn ask(engine: &Engine, request: Request) -> (Ticket, Receiver<Event>) {
    let (sender, events) = channel();
    let listen = Box::new(move |event| _ = sender.send(event));
    (engine.submit(request, listen).expect("is taken"), events)
}

fn collect(events: &Receiver<Event>) -> (Answer, Usage) {
    let (mut text, mut tokens, mut prompt) = (String::new(), Vec::new(), Vec::new());
    loop {
        match events.recv().expect("it ends with an event") {
            Event::Prompt { logprobs } => prompt = logprobs,
            Event::Piece {
                text: new,
                tokens: with,
            } => {
                text += &new;
                tokens.extend(with);
            }
            Event::End {
                finish,
                end_token,
                usage,
                digest,
                ..
            } => {
                let answer = Answer {
                    text,
                    tokens,
                    end_token,
                    prompt,
                    finish,
                    n_tokens: [usage.prompt, usage.answer],
                    digest,
                };
                return (answer, usage);
            }
        }
    }
}

fn answer(engine: &Engine, request: Request) -> Answer {
    let (_ticket, events) = ask(engine, request);
    collect(&events).0
}

/// Requests of every kind; many begin alike.
fn requests(text: &TextModel, n: u32) -> Vec<Request> {
    let word = |n: u32, place: u32| philox4x32([n, place, 0, 0], [7, 7])[0] as usize;
    let beginnings = [
        "the river of light",
        "it's lighter than",
        "12 of them; the river",
        "l",
    ];
    let ends = [
        "",
        " the last one",
        ", 12 of them",
        " light light light",
        " x",
    ];
    let all = (0..n).map(|at| {
        let pick = |place, n: usize| word(at, place) % n;
        let prompt = beginnings[pick(0, 4)].to_owned() + ends[pick(1, 5)];
        let mut ids = text.encode(&prompt).expect("encodes");
        // More than a page of the cache.
        if pick(16, 3) == 0 {
            let long = text.encode(beginnings[pick(17, 2)]).expect("encodes");
            ids = long.into_iter().cycle().take(34).chain(ids).collect();
            ids.truncate(60);
        }
        let drawing = Sampling {
            temperature: [0.0, 0.8, 1.3][pick(2, 3)],
            top_p: [1.0, 0.9][pick(3, 2)],
            top_k: [0, 20][pick(4, 2)],
            repetition_penalty: [1.0, 1.0, 1.2][pick(5, 3)],
            seed: word(at, 6) as u64 % 5,
            ..Sampling::default()
        };
        Request {
            sampling: drawing,
            stream: pick(7, 2) as u32,
            stop: match pick(8, 4) {
                0 => vec![b"er".to_vec(), b" 1".to_vec()],
                _ => Vec::new(),
            },
            presence_penalty: [0.0, 0.0, 0.5][pick(9, 3)],
            frequency_penalty: [0.0, 0.0, -0.5][pick(10, 3)],
            logit_bias: match pick(11, 4) {
                0 => vec![(5, 2.0), (9, -100.0)],
                _ => Vec::new(),
            },
            logprobs: [None, Some(0), Some(4)][pick(12, 3)],
            prompt_logprobs: [None, None, None, Some(2)][pick(13, 4)],
            digests: pick(14, 2) == 0,
            ..Request::new(ids, 1 + pick(15, 50))
        }
    });
    all.collect()
}

#[test]
fn a_flood_of_requests_gets_what_each_gets_alone() {
    let place = Scratch::exported("engine-flood", SMALL_MODEL);
    let mut of_devices = Vec::new();
    for device in hlx_core::testing::own_devices() {
        let text = open(&place, &device);
        // The others are fewer: a software driver takes its time.
        let requests = requests(&text, if of_devices.is_empty() { 200 } else { 40 });
        let n = requests.len() as u64;
        let alone = Limits {
            places: 1,
            reuses_prefixes: false,
            ..Limits::default()
        };
        let engine = start(&text, alone);
        let expected: Vec<Answer> = requests
            .iter()
            .map(|request| answer(&engine, request.clone()))
            .collect();
        assert_eq!(engine.counts().reused_tokens, 0);
        drop(engine);
        let all = [
            (7, 3, true, None),
            (16, 256, false, None),
            // Five pages, and three, of which a request has up to two.
            (7, 100, true, Some(5 * 32)),
            (5, 8, false, Some(3 * 32 + 31)),
        ];
        let some = if of_devices.is_empty() { 0..4 } else { 1..3 };
        for (places, chunk, reuses_prefixes, cache_tokens) in all[some].iter().copied() {
            let engine = start(
                &text,
                Limits {
                    places,
                    chunk,
                    reuses_prefixes,
                    cache_tokens,
                    ..Limits::default()
                },
            );
            let asked: Vec<_> = requests
                .iter()
                .map(|one| ask(&engine, one.clone()))
                .collect();
            for (at, (_ticket, events)) in asked.iter().enumerate() {
                let (found, usage) = collect(events);
                assert_eq!(
                    found,
                    expected[at],
                    "{:?} on {}",
                    requests[at],
                    device.info()
                );
                assert!(reuses_prefixes || usage.reused == 0);
            }
            let counts = engine.counts();
            assert_eq!((counts.answered, counts.waiting, counts.running), (n, 0, 0));
            assert_eq!(counts.reused_tokens > 0, reuses_prefixes);
            assert!(counts.step_tokens > counts.steps, "answers grew together");
            let n_pages = cache_tokens.map_or(2 * places, |tokens| tokens / 32);
            assert_eq!(counts.pages, n_pages);
            assert_eq!(counts.preempted > 0, cache_tokens.is_some());
            assert_pages_are_free(&engine);
        }
        of_devices.push(expected);
    }
    let alike = |one: &Vec<Answer>| one[..] == of_devices[0][..one.len()];
    assert!(of_devices.iter().all(alike));
    let finishes: Vec<&Finish> = of_devices[0].iter().map(|one| &one.finish).collect();
    assert!(finishes.contains(&&Finish::Length));
    assert!(
        finishes
            .iter()
            .any(|one| matches!(one, Finish::Stop(Some(_))))
    );
}

/// Pages are counted behind a round, which the last answer does not wait for.
fn assert_pages_are_free(engine: &Engine) {
    for _ in 0..10_000 {
        let counts = engine.counts();
        if (counts.free_pages, counts.shared_pages) == (counts.pages, 0) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{:?}", engine.counts());
}

/// The texts of `hlx generate` with the same seed, for every number of texts.
#[test]
fn an_answer_is_the_text_that_generate_writes() {
    let place = Scratch::exported("engine-text", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device);
    let engine = start(&text, Limits::default());
    let sampling = Sampling {
        temperature: 1.1,
        min_p: 0.01,
        repetition_penalty: 1.1,
        seed: 11,
        ..Sampling::default()
    };
    let prompts = ["the river", "light"].map(|prompt| text.encode(prompt).expect("encodes"));
    for sampling in [sampling, Sampling::default()] {
        // 70 tokens are more than the positions hold.
        for max_tokens in [1, 20, 70] {
            let options = TokenGeneration {
                n_texts: 2,
                ..TokenGeneration::new(max_tokens, sampling, text.end_tokens.clone())
            };
            let written = text.write(&prompts, &options, &[], &mut |_, _| Ok(()));
            let written = written.expect("writes");
            for (number, expected) in written.iter().enumerate() {
                let request = Request {
                    sampling,
                    stream: number as u32 % 2,
                    ..Request::new(prompts[number / 2].clone(), max_tokens)
                };
                assert_eq!(answer(&engine, request).text, *expected);
            }
        }
    }
}

/// Log-probabilities of a prompt's tokens are those that the tokens have as an answer.
#[test]
fn a_prompt_has_the_log_probabilities_of_the_answer_that_it_was() {
    let place = Scratch::exported("engine-logprobs", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device);
    let engine = start(
        &text,
        Limits {
            chunk: 4,
            ..Limits::default()
        },
    );
    let prompt = text.encode("the river of").expect("encodes");
    let wanted = Request {
        logprobs: Some(3),
        ignores_end: true,
        ..Request::new(prompt.clone(), 12)
    };
    let written = answer(&engine, wanted);
    let ids = prompt
        .iter()
        .copied()
        .chain(written.tokens.iter().map(|token| token.id));
    let echoed = Request {
        prompt_logprobs: Some(3),
        ..Request::new(ids.collect(), 0)
    };
    let echoed = answer(&engine, echoed);
    assert_eq!(
        (echoed.finish, echoed.n_tokens),
        (Finish::Length, [prompt.len() + 12, 0])
    );
    let found = &echoed.prompt[prompt.len() - 1..];
    let expected: Vec<_> = written
        .tokens
        .iter()
        .filter_map(|one| one.logprobs.clone())
        .collect();
    assert_eq!((found, found.len()), (&expected[..], 12));
}

/// A conversation that goes on is read behind what was read before, also where other requests came in between; the
/// answer is that of a new engine.
#[test]
fn a_conversation_is_not_read_again() {
    let place = Scratch::exported("engine-prefix", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device);
    let limits = Limits {
        places: 3,
        ..Limits::default()
    };
    let engine = start(&text, limits);
    let ids = text.encode("the river of light").expect("encodes");
    let mut ids: Vec<u32> = ids.into_iter().cycle().take(30).collect();
    for turn in 0..3 {
        let request = Request {
            ignores_end: true,
            digests: true,
            ..Request::new(ids.clone(), 6)
        };
        let (_ticket, events) = ask(&engine, request.clone());
        let (found, usage) = collect(&events);
        // The full page.
        let held = if turn == 0 { 0 } else { 32 };
        assert_eq!(usage.reused, held, "turn {turn}");
        assert_eq!(answer(&start(&text, limits), request), found);
        ids.extend(found.tokens.iter().map(|token| token.id));
        ids.extend([5, 9]);
        answer(&engine, Request::new(vec![7 + turn, 8], 3));
    }
}

/// Requests of one prompt at the same time: it is read once, and the others share its page.
#[test]
fn a_prompt_is_read_once_for_several_answers() {
    let place = Scratch::exported("engine-several", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device);
    let ids = text.encode("the river of light").expect("encodes");
    let prompt: Vec<u32> = ids.into_iter().cycle().take(40).collect();
    let request = |stream| Request {
        stream,
        sampling: Sampling {
            temperature: 1.0,
            seed: 3,
            ..Sampling::default()
        },
        digests: true,
        ..Request::new(prompt.clone(), 9)
    };
    let engine = start(&text, Limits::default());
    let (mut requests, mut all) = (Vec::new(), Vec::new());
    for stream in 0..4 {
        let (sender, events) = channel();
        let listen: hlx_train::engine::Listen = Box::new(move |event| _ = sender.send(event));
        requests.push((request(stream), listen));
        all.push(events);
    }
    let _tickets = engine.submit_all(requests).expect("taken");
    for (stream, events) in all.iter().enumerate() {
        let (found, usage) = collect(events);
        assert_eq!(usage.reused, if stream == 0 { 0 } else { 32 });
        let limits = Limits {
            reuses_prefixes: false,
            ..Limits::default()
        };
        assert_eq!(found, answer(&start(&text, limits), request(stream as u32)));
    }
    assert_pages_are_free(&engine);
}

/// A cache of fewer pages than the answers need: the youngest gives its own back, and its answer is the same.
#[test]
fn the_youngest_request_gives_its_pages_back_and_is_computed_again() {
    let place = Scratch::exported("engine-preempted", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device);
    let limits = Limits {
        cache_tokens: Some(3 * 32),
        ..Limits::default()
    };
    let engine = start(&text, limits);
    let request = |seed| Request {
        sampling: Sampling {
            temperature: 1.0,
            seed,
            ..Sampling::default()
        },
        ignores_end: true,
        digests: true,
        logprobs: Some(2),
        prompt_logprobs: (seed == 1).then_some(1),
        ..Request::new(vec![7 + seed as u32; 20], 30)
    };
    let asked: Vec<_> = (0..3).map(|seed| ask(&engine, request(seed))).collect();
    for (seed, (_ticket, events)) in asked.iter().enumerate() {
        let alone = start(&text, Limits::default());
        assert_eq!(collect(events).0, answer(&alone, request(seed as u64)));
    }
    assert!(engine.counts().preempted > 0);
    assert_pages_are_free(&engine);
    // What has been preempted can be dropped, too.
    let asked: Vec<_> = (0..3).map(|seed| ask(&engine, request(seed))).collect();
    drop(asked);
    assert_pages_are_free(&engine);
    // What can never fit is refused.
    let limits = Limits {
        cache_tokens: Some(63),
        ..limits
    };
    let engine = start(&text, limits);
    assert_eq!(engine.capacity(), 32);
    let fault = engine.check(&Request::new(vec![1; 33], 1));
    assert_eq!(fault.expect_err("too long").name, "prompt");
    let error = Engine::start(
        Arc::clone(&text),
        Limits {
            cache_tokens: Some(31),
            ..limits
        },
    );
    let error = error.expect_err("no page").to_string();
    assert!(error.contains("expected at least 32"), "{error}");
}

#[test]
fn requests_end_when_their_tickets_are_dropped_and_no_more_are_taken_than_may_wait() {
    let place = Scratch::exported("engine-queue", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device);
    let limits = Limits {
        places: 1,
        queue: 2,
        ..Limits::default()
    };
    let engine = start(&text, limits);
    let prompt = text.encode("the river").expect("encodes");
    let long = Request {
        ignores_end: true,
        ..Request::new(prompt.clone(), 60)
    };
    // More at once than may wait: none is taken.
    let listen = || -> hlx_train::engine::Listen { Box::new(|_| ()) };
    let three = (0..3).map(|_| (long.clone(), listen())).collect();
    let refused = engine.submit_all(three).expect_err("three");
    assert_eq!(refused, Refused::Busy { waiting: 0 });
    // The second waits for the first's place; when its ticket is dropped, it ends without an event of its own.
    let (_first, first_events) = ask(&engine, long.clone());
    let (second, second_events) = ask(&engine, long.clone());
    drop(second);
    let (found, _) = collect(&first_events);
    assert_eq!(found.n_tokens[1], 60.min(64 + 1 - prompt.len()));
    let (_third, third_events) = ask(&engine, long.clone());
    assert_eq!(collect(&third_events).0, found);
    let ends = second_events
        .iter()
        .filter(|event| matches!(event, Event::End { .. }));
    assert_eq!(ends.count(), 0);
    assert_eq!(engine.counts().cancelled, 1);
    // What was taken before the end is answered.
    let (_last, last_events) = ask(&engine, long.clone());
    engine.end();
    assert_eq!(
        engine.submit(long, listen()).expect_err("ended"),
        Refused::Ended
    );
    assert_eq!(collect(&last_events).0, found);
}

#[test]
fn what_cannot_be_answered_is_refused_by_the_argument_s_name() {
    let place = Scratch::exported("engine-faults", SMALL_MODEL);
    let device = hlx_core::testing::cpu().expect("opens");
    let text = open(&place, &device);
    let engine = start(
        &text,
        Limits {
            capacity: Some(32),
            ..Limits::default()
        },
    );
    let good = Request::new(vec![1, 2, 3], 4);
    let vocabulary = text.model.vocabulary() as u32;
    let with = |change: &dyn Fn(&mut Request)| {
        let mut request = good.clone();
        change(&mut request);
        engine.check(&request).expect_err("it is wrong")
    };
    for (name, fault) in [
        ("prompt", with(&|one| one.prompt.clear())),
        ("prompt", with(&|one| one.prompt = vec![1; 33])),
        ("prompt", with(&|one| one.prompt = vec![vocabulary])),
        (
            "temperature",
            with(&|one| one.sampling.temperature = f32::NAN),
        ),
        ("top_p", with(&|one| one.sampling.top_p = 0.0)),
        ("presence_penalty", with(&|one| one.presence_penalty = 2.5)),
        (
            "frequency_penalty",
            with(&|one| one.frequency_penalty = f32::NAN),
        ),
        (
            "logit_bias",
            with(&|one| one.logit_bias = vec![(vocabulary, 1.0)]),
        ),
        ("logit_bias", with(&|one| one.logit_bias = vec![(1, 101.0)])),
        ("logprobs", with(&|one| one.logprobs = Some(101))),
    ] {
        assert_eq!(fault.name, name, "{fault:?}");
    }
    // The last position predicts one more token.
    let full = Request {
        ignores_end: true,
        ..Request::new(vec![1; 32], 5)
    };
    let found = answer(&engine, full);
    assert_eq!((found.finish, found.n_tokens), (Finish::Length, [32, 1]));
    for capacity in [0, 65] {
        let limits = Limits {
            capacity: Some(capacity),
            ..Limits::default()
        };
        let error = Engine::start(Arc::clone(&text), limits).expect_err("refused");
        assert!(
            error
                .to_string()
                .contains("expected 1 to the model's 64 positions"),
            "{error}"
        );
    }
}

#[test]
fn an_embedding_has_the_length_1_and_the_same_bits_beside_others() {
    let place = Scratch::exported("engine-embedding", SMALL_MODEL);
    let mut found = Vec::new();
    for device in hlx_core::testing::own_devices() {
        let text = open(&place, &device);
        let engine = start(&text, Limits::default());
        let embed = |prompt: &str| {
            let (sender, receiver) = channel();
            let tokens = text.encode(prompt).expect("encodes");
            let ticket = engine.embed(tokens, Box::new(move |one| _ = sender.send(one)));
            let embedding = receiver.recv().expect("an answer").expect("an embedding");
            drop(ticket.expect("taken"));
            embedding
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>()
        };
        let alone = embed("the river of light");
        let (_ticket, events) = ask(&engine, Request::new(vec![1, 2], 30));
        assert_eq!(embed("the river of light"), alone);
        assert_ne!(embed("12"), alone);
        collect(&events);
        let squares = alone
            .iter()
            .map(|bits| f64::from(f32::from_bits(*bits)).powi(2));
        assert!((squares.sum::<f64>() - 1.0).abs() < 1e-5);
        assert_eq!(alone.len(), 16);
        found.push(alone);
    }
    assert!(found.iter().all(|one| *one == found[0]));
}
