//! Connections: each has a task, which ends once its client is silent for too long.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;

use crate::app::Settings;

/// How long the server takes no connections once the system has no room for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers requests until `ends` is done; answers that grow then have the settings' grace.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    settings: &Settings,
    ends: impl Future<Output = ()> + Send + 'static,
) {
    let (told, ended) = watch::channel(false);
    // Each connection holds a sender.
    let (open, mut all_closed) = mpsc::channel::<()>(1);
    let mut ends = pin!(ends);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut ends => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if has_left(&error) => continue,
            Err(error) => {
                tracing::warn!("no connection is taken: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // A chunk goes out when it is there, not when the one before it has been acknowledged.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::warn!("a connection without TCP_NODELAY: {error}");
        }
        let (router, patience) = (router.clone(), settings.patience);
        let (ended, open) = (ended.clone(), open.clone());
        tokio::spawn(async move {
            converse(stream, router, patience, ended).await;
            drop(open);
        });
    }
    drop((listener, open));
    // Without connections nobody listens.
    let _ = told.send(true);
    tokio::select! {
        _ = all_closed.recv() => {}
        () = tokio::time::sleep(settings.grace) => {}
    }
}

/// Whether a client has left before its connection was taken.
fn has_left(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    [ConnectionAborted, ConnectionRefused, ConnectionReset].contains(&error.kind())
}

/// Answers the requests of a connection.
async fn converse(
    stream: TcpStream,
    router: Router,
    patience: Duration,
    mut ended: watch::Receiver<bool>,
) {
    let io = TokioIo::new(Impatient::new(stream, patience));
    let mut builder = Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(patience);
    let mut connection = pin!(builder.serve_connection(io, TowerToHyperService::new(router)));
    let done = tokio::select! {
        done = connection.as_mut() => Some(done),
        // The sender lives longer than the connections.
        () = async { _ = ended.wait_for(|ended| *ended).await } => None,
    };
    let done = match done {
        Some(done) => done,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = done {
        tracing::debug!("a connection ends: {error}");
    }
}

/// A stream that fails once its client has read nothing for some time.
struct Impatient {
    stream: TcpStream,
    patience: Duration,
    /// Runs while the client reads nothing.
    waits: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            waits: None,
        }
    }

    fn written(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let patience = self.patience;
        let wait = || Box::pin(tokio::time::sleep(patience));
        ready!(self.waits.get_or_insert_with(wait).as_mut().poll(context));
        let reason = "the client reads nothing";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
