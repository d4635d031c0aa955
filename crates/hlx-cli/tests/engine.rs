//! The engine: answers of requests that come and go are those of the same requests alone.

mod common;

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
            ..Request::new(text.encode(&prompt).expect("encodes"), 1 + pick(15, 50))
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
        for (places, chunk, reuses_prefixes) in [(7, 3, true), (16, 256, false)] {
            let engine = start(
                &text,
                Limits {
                    places,
                    chunk,
                    reuses_prefixes,
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
    let mut ids = text.encode("the river of light").expect("encodes");
    for turn in 0..3 {
        let request = Request {
            ignores_end: true,
            digests: true,
            ..Request::new(ids.clone(), 6)
        };
        let (_ticket, events) = ask(&engine, request.clone());
        let (found, usage) = collect(&events);
        // All but the last token of what was said, which was drawn and not read.
        let held = if turn == 0 { 0 } else { ids.len() - 3 };
        assert_eq!(usage.reused, held, "turn {turn}");
        assert_eq!(answer(&start(&text, limits), request), found);
        ids.extend(found.tokens.iter().map(|token| token.id));
        ids.extend([5, 9]);
        answer(&engine, Request::new(vec![7 + turn, 8], 3));
    }
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
