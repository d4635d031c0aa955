//! `hlx bench-serve`: measures a server with OpenAI's interface as its clients see it.

mod client;
mod engine;
mod requests;
mod table;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use self::client::{Client, Measured};
use self::requests::{Api, Span, body};
use self::table::Level;
use anyhow::{Context as _, Result, ensure};

/// The arguments of `hlx bench-serve`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where the server is, such as http://127.0.0.1:8000; with --engine the folder of a model.
    url: String,
    /// Measure HLX's engine in this program, without a server: what a server can reach at best.
    #[arg(long)]
    engine: bool,
    /// For --engine: answers that grow at the same time.
    #[arg(long, value_name = "N", default_value_t = 64)]
    places: usize,
    /// For --engine: tokens of a prompt and its answer; the model's positions if left out.
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// For --engine: auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: String,
    /// The model; the first that the server lists if left out.
    #[arg(long)]
    model: Option<String>,
    /// Numbers of clients that ask at the same time, one measurement each.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 8, 64])]
    clients: Vec<usize>,
    /// Requests of each client, one after the other.
    #[arg(long, value_name = "N", default_value_t = 4)]
    requests: usize,
    /// Words of a prompt, one number or drawn from two; no two prompts begin alike.
    #[arg(long, value_name = "N|N-N", default_value = "128")]
    words: Span,
    /// Tokens of an answer, one number or drawn from two.
    #[arg(long, value_name = "N|N-N", default_value = "128")]
    max_tokens: Span,
    /// The route that is measured.
    #[arg(long, value_enum, default_value_t = Api::Completions)]
    api: Api,
    /// A JSON object whose fields are added to each request; those that are null are left out of it.
    #[arg(long, value_name = "JSON")]
    body: Option<String>,
    /// Seconds after which a request has failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
    /// The temperature.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Ask for answers that the model's end token does not end (HLX, vLLM and others have `ignore_eos`).
    #[arg(long)]
    ignore_eos: bool,
    /// A file with the API key.
    #[arg(long, value_name = "FILE")]
    api_key: Option<PathBuf>,
    /// Print a JSON object for each number of clients.
    #[arg(long)]
    json: bool,
}

/// Measures, and prints a table.
///
/// # Errors
/// Arguments that are wrong, and a server that answers no request.
pub fn run(arguments: &Arguments) -> Result<()> {
    let is_whole = arguments.requests > 0 && arguments.clients.iter().all(|&n| n > 0);
    ensure!(is_whole, "--clients, --requests: expected at least 1");
    if arguments.engine {
        return engine::run(arguments);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.context("threads")?.block_on(async {
        let key = arguments
            .api_key
            .as_deref()
            .map(hlx_core::files::read_settings_text);
        let key = key.transpose().context("--api-key")?;
        let timeout = Duration::from_secs(arguments.timeout);
        let key = key.as_deref().map(str::trim);
        let client = Client::new(&arguments.url, key, arguments.api, timeout)?;
        let client = Arc::new(client);
        let model = match &arguments.model {
            Some(model) => model.clone(),
            None => client.first_model().await?,
        };
        // One request that is not measured: servers record and compile at their first.
        client.ask(&body(arguments, &model, usize::MAX)?).await?;
        head(arguments)?;
        for (at, &n_clients) in arguments.clients.iter().enumerate() {
            let level = measure(&client, arguments, &model, n_clients, first_of(at)).await?;
            show(arguments, &level)?;
        }
        Ok(())
    })
}

/// The number of the first prompt of a measurement.
fn first_of(at: usize) -> usize {
    at * 1_000_000
}

fn head(arguments: &Arguments) -> Result<()> {
    if !arguments.json {
        writeln!(std::io::stdout(), "{}", Level::HEAD)?;
    }
    Ok(())
}

fn show(arguments: &Arguments, level: &Level) -> Result<()> {
    let mut out = std::io::stdout();
    match arguments.json {
        true => writeln!(out, "{}", level.json())?,
        false => writeln!(out, "{level}")?,
    }
    Ok(())
}

/// Lets clients ask at the same time.
async fn measure(
    client: &Arc<Client>,
    arguments: &Arguments,
    model: &str,
    n_clients: usize,
    first: usize,
) -> Result<Level> {
    let n_requests = n_clients * arguments.requests;
    let bodies = (0..n_requests).map(|n| body(arguments, model, first + n));
    let bodies = Arc::new(bodies.collect::<Result<Vec<String>>>()?);
    let (begun, asked) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let progress = tokio::spawn(progress(n_clients, n_requests, Arc::clone(&asked)));
    let tasks: Vec<_> = (0..n_clients)
        .map(|_| {
            let (client, bodies, asked) =
                (Arc::clone(client), Arc::clone(&bodies), Arc::clone(&asked));
            tokio::spawn(async move {
                let mut all: Vec<Result<Measured>> = Vec::new();
                while let Some(body) = bodies.get(asked.fetch_add(1, Ordering::Relaxed)) {
                    all.push(client.ask(body).await);
                }
                all
            })
        })
        .collect();
    let mut level = Level::new(n_clients);
    for task in tasks {
        for found in task.await? {
            match found {
                Ok(measured) => level.add(&measured),
                Err(error) => level.fail(&error),
            }
        }
    }
    level.end(begun.elapsed());
    progress.abort();
    wipe();
    ensure!(
        level.has_answers(),
        "no request was answered: {}",
        level.last_error()
    );
    Ok(level)
}

/// Says on a terminal how many requests have begun.
async fn progress(n_clients: usize, n_requests: usize, asked: Arc<AtomicUsize>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let n = asked.load(Ordering::Relaxed).min(n_requests);
        // Nothing depends on the line.
        let _ = write!(
            std::io::stderr(),
            "\r{n_clients} clients: request {n} of {n_requests}"
        );
    }
}

/// Wipes the line of the progress.
fn wipe() {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[2K");
    }
}
