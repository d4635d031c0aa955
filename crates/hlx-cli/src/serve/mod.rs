//! `hlx serve`: opens models and serves them.

mod named;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_core::{Device, environment};
use hlx_receipt::{Certificate, SigningKey};
use hlx_serve::{ReceiptSettings, Served, Settings, router, serve};
use hlx_train::audit::names_weights;
use hlx_train::engine::Limits;
use hlx_train::generate::{TextModel, Wanted};
use hlx_train::receipts::{files_of_model, training_of};
use hlx_train::sample::Sampling;

use crate::weights::WeightsArguments;

use named::{Named, devices_of};

/// Threads of the server beside those of the engines at most.
const MOST_THREADS: usize = 8;

/// The arguments of `hlx serve`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Run folders, imported models, Hugging Face folders or GGUF files; NAME=FOLDER gives one another name than its
    /// folder's or its file's, and FOLDER@DEVICE puts one on devices of its own.
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<String>,
    /// The address to listen at; other machines reach 0.0.0.0.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The port; 0 takes a free one.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// auto, cpu, vulkan or vulkan:N, or several with commas between them, which answer the requests of each model
    /// together; the environment variable HLX_DEVICE wins.
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: String,
    #[command(flatten)]
    weights: WeightsArguments,
    /// A file with a chat template (Jinja) for all models, in the place of their own.
    #[arg(long, value_name = "FILE")]
    chat_template: Option<PathBuf>,
    /// A file with an API key in each line; without one, everyone who reaches the server may ask.
    #[arg(long, value_name = "FILE")]
    api_keys: Option<PathBuf>,
    /// An origin of pages that may ask, or *; may be given several times.
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Answers of a model that a step on each of its devices appends to, at most.
    #[arg(long, value_name = "N", default_value_t = 16)]
    places: usize,
    /// Tokens of a prompt and its answer; the model's positions if left out.
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// Tokens that a model's cache has room for, whose memory is allocated at the start; if left out those of all places, as
    /// far as the device's memory holds them.
    #[arg(long, value_name = "N")]
    cache_tokens: Option<usize>,
    /// Requests of a model that wait for a place; more are refused.
    #[arg(long, value_name = "N", default_value_t = 256)]
    queue: usize,
    /// Tokens of a prompt that are read at a time, between the steps of other answers.
    #[arg(long, value_name = "N", default_value_t = 256)]
    chunk: usize,
    /// Compute every prompt from its first token on. No answer changes.
    #[arg(long)]
    no_prefix_cache: bool,
    /// How long a client may take to send a request, and how long it may read nothing, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u32,
    /// The private key that signs receipts (hlx key new); without one, a key is made that ends with the server.
    #[arg(long, value_name = "FILE", conflicts_with = "no_receipts")]
    key: Option<PathBuf>,
    /// Write the receipt of every answer to this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "no_receipts")]
    receipts: Option<PathBuf>,
    /// A certificate of an audit (hlx audit) of the run that has trained a model; the receipts of its answers name it.
    #[arg(long, value_name = "FILE", conflicts_with = "no_receipts")]
    audit: Option<PathBuf>,
    /// Give no receipts.
    #[arg(long)]
    no_receipts: bool,
}

/// Serves models until a signal ends the server.
///
/// # Errors
/// Models that cannot be opened, an address that cannot be listened at, files of keys and templates.
pub fn run(arguments: &Arguments) -> Result<()> {
    // What takes no time is checked before models are opened.
    let settings = settings(arguments)?;
    let certificate = arguments.audit.as_deref().map(certificate).transpose()?;
    let models = named(&arguments.models)?;
    let address = (arguments.host.as_str(), arguments.port);
    let listener = TcpListener::bind(address);
    let listener = listener.with_context(|| format!("{}:{}", address.0, address.1))?;
    if let Some(folder) = &arguments.receipts {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| folder.display().to_string())?;
    }
    let opened = models.iter().map(|model| open(model, arguments));
    let mut opened = opened.collect::<Result<Vec<Served>>>()?;
    if let Some((path, certificate)) = arguments.audit.as_deref().zip(certificate.as_ref()) {
        opened = with_audit(
            opened,
            &models,
            path,
            certificate,
            arguments.weights.opening().average,
        )?;
    }
    let models = opened;
    // The engine's thread has a core of its own, and the CPU device needs all others.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).clamp(1, MOST_THREADS))
        .enable_all()
        .build();
    runtime.context("the server's threads")?.block_on(async {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tracing::info!("listening at http://{}", listener.local_addr()?);
        let router = router(models, &settings)?;
        serve(listener, router, &settings, signal()).await;
        Ok(())
    })
}

/// Reads a certificate, whose signature must be its key's.
fn certificate(path: &Path) -> Result<Certificate> {
    let bytes = hlx_train::audit::certificate_bytes(path)?;
    Certificate::open(&bytes).with_context(|| path.display().to_string())
}

/// Gives a certificate to the models whose training it covers: one at least.
fn with_audit(
    opened: Vec<Served>,
    models: &[Named],
    path: &Path,
    certificate: &Certificate,
    average: bool,
) -> Result<Vec<Served>> {
    let mut against = None;
    let mut covers = 0;
    let mut all = Vec::with_capacity(opened.len());
    for (served, model) in opened.into_iter().zip(models) {
        let digests = served.digests();
        let training = training_of(&model.folder, average, digests)?;
        let weights = digests.weights_sha256;
        let named = names_weights(certificate, &weights, &model.folder, training.as_ref());
        all.push(match named {
            Ok(()) => {
                covers += 1;
                served.with_audit(certificate.sha256)
            }
            Err(reason) => {
                against.get_or_insert(reason);
                served
            }
        });
    }
    match against {
        Some(reason) if covers == 0 => Err(reason.context(format!(
            "{}: is not of the training of a model that is served",
            path.display()
        ))),
        _ => Ok(all),
    }
}

/// What the server takes, from whom, and whose receipts it gives.
fn settings(arguments: &Arguments) -> Result<Settings> {
    let api_keys = match &arguments.api_keys {
        Some(path) => keys(path)?,
        None => Vec::new(),
    };
    let settings = Settings {
        api_keys,
        cors: arguments.cors.clone(),
        patience: Duration::from_secs(arguments.patience.into()),
        ..Settings::default()
    };
    settings.check()?;
    let receipts = receipts(arguments)?;
    Ok(Settings {
        receipts,
        ..settings
    })
}

/// The models of arguments, each with a name of its own.
fn named(arguments: &[String]) -> Result<Vec<Named>> {
    let mut models: Vec<Named> = Vec::new();
    for argument in arguments {
        let model = Named::parse(argument)?;
        if models.iter().any(|one| one.id == model.id) {
            let id = model.id;
            bail!("{id}: two models have this name; NAME=FOLDER gives one another");
        }
        models.push(model);
    }
    Ok(models)
}

/// Opens a model on its devices and starts its engine.
fn open(named: &Named, arguments: &Arguments) -> Result<Served> {
    let Named {
        id,
        folder,
        devices,
    } = named;
    let limits = Limits {
        places: arguments.places,
        capacity: arguments.context,
        cache_tokens: arguments.cache_tokens,
        queue: arguments.queue,
        chunk: arguments.chunk,
        reuses_prefixes: !arguments.no_prefix_cache,
    };
    let opening = arguments.weights.opening();
    // What requests have where they say nothing.
    let wanted = Wanted {
        sampling: Sampling {
            temperature: 1.0,
            ..Sampling::default()
        },
        max_tokens: 16,
        n_texts: 1,
    };
    let usual_devices = devices_of(&arguments.device);
    let devices = open_devices(devices.as_deref().unwrap_or(&usual_devices))?;
    // The files' digests are computed while they are read.
    let (files, texts) = std::thread::scope(|scope| {
        let files = !arguments.no_receipts;
        let files = files.then(|| scope.spawn(|| files_of_model(folder, opening.adapter)));
        let open = |device: &Device| {
            tracing::info!("{id}: {} on {}", folder.display(), device.info());
            TextModel::open_to_write(device, folder, opening, &wanted)
        };
        let texts = devices.iter().map(open).collect::<Result<Vec<_>>>();
        (files.map(|files| files.join()), texts)
    });
    let texts = texts?;
    texts.iter().take(1).for_each(TextModel::warn_of_pairs);
    let mut model = Served::start_on(id, texts, limits)?;
    match files {
        None => {}
        Some(Ok(files)) => model = model.with_files(files?),
        Some(Err(_)) => bail!("{id}: the digests of its files could not be computed"),
    }
    if let Some(path) = &arguments.chat_template {
        let source = hlx_core::files::read_settings_text(path);
        let source = source.with_context(|| path.display().to_string())?;
        model = model.with_template(&source)?;
    }
    Ok(model)
}

/// Whose receipts the server gives, unless it gives none.
fn receipts(arguments: &Arguments) -> Result<Option<ReceiptSettings>> {
    if arguments.no_receipts {
        return Ok(None);
    }
    let key = match &arguments.key {
        Some(path) => SigningKey::open(path)?,
        None => SigningKey::random()?,
    };
    let whose = match arguments.key.is_some() {
        true => "",
        false => ", which ends with this server (--key FILE gives one that stays)",
    };
    tracing::info!("receipts are signed by the key {}{whose}", key.public());
    Ok(Some(ReceiptSettings {
        key,
        folder: arguments.receipts.clone(),
    }))
}

/// Ends with Ctrl-C or SIGTERM.
async fn signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut term) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
            return;
        }
    }
    // A signal that cannot be caught ends the program by itself.
    let _ = tokio::signal::ctrl_c().await;
}

fn keys(path: &Path) -> Result<Vec<String>> {
    let file = hlx_core::files::read_settings_text(path);
    let file = file.with_context(|| path.display().to_string())?;
    let lines = file.lines().map(str::trim).filter(|line| !line.is_empty());
    let keys: Vec<String> = lines.map(str::to_owned).collect();
    ensure!(!keys.is_empty(), "{}: holds no key", path.display());
    Ok(keys)
}

/// Opens devices, which belong to one engine.
///
/// # Errors
/// One that is named twice, and those of [`Device::open_from_env`].
fn open_devices(names: &[String]) -> Result<Vec<Device>> {
    let names = match environment::text("HLX_DEVICE")? {
        Some(_) => &names[..1],
        None => names,
    };
    let mut devices: Vec<Device> = Vec::new();
    for name in names {
        let device = Device::open_from_env(name)?;
        let selector = &device.info().selector;
        let is_known = devices.iter().any(|one| one.info().selector == *selector);
        ensure!(!is_known, "--device: {selector} is named twice");
        devices.push(device);
    }
    Ok(devices)
}
