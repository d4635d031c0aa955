//! The log of the library's crates, and panics, as lines on standard error whose control characters are
//! escaped.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::env;
use std::io::{self, IsTerminal};

use hlx_core::{environment, printable};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::terminal::{self, Stderr};
use crate::{loading, print};

/// The variable that selects what is logged.
const FILTER: &str = "RUST_LOG";

/// Starts the log; what `RUST_LOG` selects, else warnings and errors, and what the server says.
pub fn start() {
    std::panic::set_hook(Box::new(|panic| {
        terminal::give_back();
        print::on_stderr(&format!("{panic}\n"));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            print::on_stderr(&format!("{trace}\n"));
        }
    }));
    let usual = || EnvFilter::new("warn,hlx::serve=info,hlx_serve=info");
    let named = env::var_os(FILTER).filter(|filter| !filter.is_empty());
    let filter = named.as_ref().map(|_| EnvFilter::try_from_default_env());
    let (filter, wrong) = match filter {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (usual(), Some(error)),
        None => (usual(), None),
    };
    let fields = debug_fn(|writer, field, value| {
        let value = format!("{value:?}");
        match field.name() {
            "message" => writer.write_str(&printable(&value)),
            name => write!(writer, "{name}={}", printable(&value)),
        }
    });
    let lines = tracing_subscriber::fmt::layer()
        .fmt_fields(fields.delimited(" "))
        .with_writer(|| Stderr)
        .with_ansi(io::stderr().is_terminal())
        // Standard error that is closed is not a reason to panic.
        .log_internal_errors(false)
        .with_filter(filter);
    let log = tracing_subscriber::registry().with(lines);
    match io::stderr().is_terminal() {
        true => log.with(loading::layer()).init(),
        false => log.init(),
    }
    if let Some(error) = wrong {
        tracing::warn!("{FILTER}: {error}; warnings and errors are logged");
    }
}

/// Names the variables that begin with `HLX_` and that nothing reads: one may be misspelt. Ranks that rank 0 has
/// started leave it to rank 0.
pub fn warn_of_unknown_variables() {
    let unknown = environment::unknown();
    let is_started = env::var_os("HLX_RANK").is_some();
    if !unknown.is_empty() && !is_started {
        let names = unknown.join(", ");
        tracing::warn!("{names}: no environment variable of HLX, and not read");
    }
}
