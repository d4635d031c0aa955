//! `hlx bench-serve` against a server.

mod common;

use clap::Parser;
use common::Server;
use hlx_serve::{Settings, bench};
use hlx_train::engine::Limits;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    arguments: bench::Arguments,
}

fn measure(server: &Server, more: &[&str]) -> anyhow::Result<()> {
    let url = format!("http://{}/v1", server.address);
    let usual = [
        "bench-serve",
        &url,
        "--requests",
        "2",
        "--words",
        "2-5",
        "--json",
    ];
    let arguments = Program::try_parse_from(usual.iter().chain(more))?;
    bench::run(&arguments.arguments)
}

/// Every request is sent, and counted as it ended.
#[test]
fn a_server_is_measured() {
    let server = Server::start(Limits::default(), Settings::default());
    let usual = ["--clients", "1,3", "--max-tokens", "2-6", "--ignore-eos"];
    measure(&server, &usual).expect("measures");
    measure(&server, &[&usual[..], &["--api", "chat"]].concat()).expect("measures");
    let counted = server.get("/metrics").body;
    for route in ["/v1/completions", "/v1/chat/completions"] {
        // One that is not measured, 2 of one client and 6 of three.
        let line = format!("hlx_http_requests_total{{route=\"{route}\",status=\"200\"}} 9\n");
        assert!(counted.contains(&line), "{counted}");
    }
    let failed = |more: &[&str]| format!("{:#}", measure(&server, more).expect_err("fails"));
    assert!(failed(&["--model", "none"]).contains("404"));
    assert!(failed(&["--body", "[]"]).contains("--body"));
    assert!(failed(&["--body", "{\"max_tokens\": -1}"]).contains("max_tokens"));
    assert!(failed(&["--clients", "0"]).contains("--clients"));
    assert!(failed(&["--words", "9-3"]).contains("--words"));
}
