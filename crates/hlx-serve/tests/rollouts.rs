//! The sampler and the trainer are one program: the log-probabilities of a rollout are those that training computes for
//! its tokens, bit for bit, on whatever device each of the two runs.

mod common;

use std::sync::Arc;
use std::sync::mpsc::channel;

use common::text_model;
use hlx_autograd::{IGNORE_INDEX, Tensor};
use hlx_core::Device;
use hlx_train::engine::{Engine, Event, Limits, Request};
use hlx_train::model_folder::gradients;
use hlx_train::opening::Opened;
use hlx_train::sample::Sampling;

/// A prompt with its continuation, and the bits of the log-probability of each of the continuation's tokens.
#[derive(Debug, PartialEq)]
struct Rollout {
    prompt: Vec<u32>,
    answer: Vec<u32>,
    logprobs: Vec<u32>,
}

/// Rollouts that the engine of a device samples at the same time.
fn sampled(device: &Device) -> Vec<Rollout> {
    let engine = Engine::start(Arc::new(text_model(device)), Limits::default()).expect("starts");
    let requests = (0..6_u32).map(|number| {
        let prompt: Vec<u32> = (0..3 + 7 * number)
            .map(|at| 32 + (at * 31 + number) % 90)
            .collect();
        Request {
            sampling: Sampling {
                temperature: 0.8 + 0.1 * number as f32,
                top_p: 0.95,
                seed: 9,
                ..Sampling::default()
            },
            stream: number,
            logprobs: Some(0),
            ignores_end: true,
            ..Request::new(prompt, 10 + number as usize)
        }
    });
    let answers: Vec<_> = requests
        .map(|request| {
            let (sender, events) = channel();
            let prompt = request.prompt.clone();
            let listen = Box::new(move |event| _ = sender.send(event));
            (
                engine.submit(request, listen).expect("is taken"),
                prompt,
                events,
            )
        })
        .collect();
    let rollout = |(_ticket, prompt, events): (_, Vec<u32>, std::sync::mpsc::Receiver<Event>)| {
        let tokens = events.iter().flat_map(|event| match event {
            Event::Piece { tokens, .. } => tokens,
            _ => Vec::new(),
        });
        let known = tokens.filter_map(|token| token.logprobs);
        let (answer, logprobs) = known.map(|one| (one.id, one.own.to_bits())).unzip();
        Rollout {
            prompt,
            answer,
            logprobs,
        }
    };
    answers.into_iter().map(rollout).collect()
}

/// The log-probabilities of the rollouts' tokens by one pass of training over all of them, with its backward pass.
fn trained(device: &Device, rollouts: &[Rollout]) -> Vec<Vec<u32>> {
    let Opened::Whole(model) = text_model(device).model else {
        panic!("the model is held in f32");
    };
    let lengths = rollouts
        .iter()
        .map(|one| one.prompt.len() + one.answer.len() - 1);
    let time = lengths.max().expect("rollouts");
    let (mut ids, mut targets) = (Vec::new(), Vec::new());
    for Rollout { prompt, answer, .. } in rollouts {
        let end = ids.len() + time;
        ids.extend(prompt.iter().chain(&answer[..answer.len() - 1]));
        ids.resize(end, 0);
        targets.extend(prompt.iter().skip(1).map(|_| IGNORE_INDEX));
        targets.extend(answer);
        targets.resize(end, IGNORE_INDEX);
    }
    let shape = [rollouts.len(), time];
    let ids = Tensor::from_slice::<u32>(device, &ids, &shape).expect("is made");
    let ids = ids.with_samples(0).expect("has samples");
    let numbers: Vec<i32> = targets.iter().map(|&id| id as i32).collect();
    let numbers = Tensor::from_slice::<i32>(device, &numbers, &shape).expect("is made");
    let logits = gradients(&model, &ids, &numbers)
        .expect("are computed")
        .logits;
    let targets = Tensor::from_slice::<u32>(device, &targets, &shape).expect("is made");
    let one = Tensor::from_slice(device, &[1.0], &[1]).expect("is made");
    let (_, losses) = logits
        .cross_entropy_with_rows(&targets, &one, 0.0)
        .expect("is computed");
    let losses = losses.to_vec::<f32>().expect("is read");
    let rows = rollouts.iter().zip(losses.chunks(time));
    rows.map(|(one, losses)| {
        let first = one.prompt.len() - 1;
        let mine = &losses[first..first + one.answer.len()];
        mine.iter().map(|loss| (0.0 - loss).to_bits()).collect()
    })
    .collect()
}

#[test]
fn log_probabilities_of_rollouts_are_those_of_training_on_every_device() {
    let devices = hlx_core::testing::own_devices();
    let rollouts: Vec<Vec<Rollout>> = devices.iter().map(sampled).collect();
    for (sampler, rollouts_of) in devices.iter().zip(&rollouts) {
        assert_eq!(*rollouts_of, rollouts[0], "sampled on {}", sampler.info());
        let n_tokens: usize = rollouts_of.iter().map(|one| one.logprobs.len()).sum();
        assert_eq!(n_tokens, 75);
        let expected: Vec<_> = rollouts_of.iter().map(|one| one.logprobs.clone()).collect();
        for trainer in &devices {
            let found = trained(trainer, rollouts_of);
            assert_eq!(
                found,
                expected,
                "sampled on {}, trained on {}",
                sampler.info(),
                trainer.info()
            );
        }
    }
}
