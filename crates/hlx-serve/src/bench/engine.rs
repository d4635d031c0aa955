//! The engine alone, with the requests of the clients of a server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use hlx_core::Device;
use hlx_train::engine::{Engine, Event, Finish, Limits, Request};
use hlx_train::generate::TextModel;
use hlx_train::opening::Opening;

use super::client::Measured;
use super::requests::{max_tokens, prompt};
use super::table::Level;
use super::{Arguments, first_of, head, show};

/// Measures the engine of a model's folder.
pub fn run(arguments: &Arguments) -> Result<()> {
    let device = Device::open_from_env(&arguments.device)?;
    let text = TextModel::open(&device, Path::new(&arguments.url), Opening::default())?;
    let limits = Limits {
        places: arguments.places,
        capacity: arguments.context,
        queue: usize::MAX,
        ..Limits::default()
    };
    let engine = Engine::start(Arc::new(text), limits)?;
    ask(&engine, arguments, usize::MAX)?;
    head(arguments)?;
    for (at, &n_clients) in arguments.clients.iter().enumerate() {
        show(
            arguments,
            &measure(&engine, arguments, n_clients, first_of(at))?,
        )?;
    }
    Ok(())
}

fn measure(
    engine: &Engine,
    arguments: &Arguments,
    n_clients: usize,
    first: usize,
) -> Result<Level> {
    let (begun, asked) = (Instant::now(), AtomicUsize::new(0));
    let n_requests = n_clients * arguments.requests;
    let client = || {
        let mut all = Vec::new();
        loop {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            if number >= n_requests {
                return all;
            }
            all.push(ask(engine, arguments, first + number));
        }
    };
    let found = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..n_clients).map(|_| scope.spawn(client)).collect();
        let joined = clients.into_iter().map(|one| one.join());
        joined.collect::<std::thread::Result<Vec<_>>>()
    });
    let mut level = Level::new(n_clients);
    for one in found
        .map_err(|_| anyhow!("a client has panicked"))?
        .into_iter()
        .flatten()
    {
        match one {
            Ok(measured) => level.add(&measured),
            Err(error) => level.fail(&error),
        }
    }
    level.end(begun.elapsed());
    if !level.has_answers() {
        bail!("no request was answered: {}", level.last_error());
    }
    Ok(level)
}

fn ask(engine: &Engine, arguments: &Arguments, number: usize) -> Result<Measured> {
    let begun = Instant::now();
    let text = engine.text();
    let prompt = prompt(arguments, number);
    let ids = text.preparation.prompt(&text.tokenizer, &prompt, false)?;
    let mut request = Request::new(ids, max_tokens(arguments, number));
    request.sampling.temperature = arguments.temperature;
    request.sampling.seed = 1;
    request.ignores_end = arguments.ignore_eos;
    let (sender, events) = channel();
    let ticket = engine.submit(request, Box::new(move |event| _ = sender.send(event)));
    let ticket = ticket.map_err(|refused| anyhow!("{refused:?}"))?;
    let mut times: Vec<Duration> = Vec::new();
    for event in events {
        match event {
            Event::Piece { text, .. } if !text.is_empty() => {
                times.push(begun.elapsed());
            }
            Event::Prompt { .. } | Event::Piece { .. } => {}
            Event::End { finish, usage, .. } => {
                if let Finish::Failed(reason) = finish {
                    bail!(reason);
                }
                let whole = begun.elapsed();
                drop(ticket);
                let first = *times.first().context("the answer has no text")?;
                return Ok(Measured {
                    first,
                    rest: *times.last().unwrap_or(&first) - first,
                    whole,
                    gaps: times.windows(2).map(|pair| pair[1] - pair[0]).collect(),
                    is_guess: false,
                    n_prompt: usage.prompt as u64,
                    n_tokens: usage.answer as u64,
                });
            }
        }
    }
    bail!("the engine has ended before the answer")
}
