//! `hlx`: trains, evaluates and runs HLX's models from the command line.

mod audit;
mod chat;
mod contract;
mod crew;
mod data;
mod demo;
mod digest;
mod doctor;
mod eval;
mod generate;
mod golden;
mod import;
mod interrupt;
mod key;
mod loading;
mod log;
mod logits;
mod lora;
mod next;
mod numbers;
mod output;
mod perplexity;
mod plot;
mod print;
mod progress;
mod quantize;
mod receipts;
mod report;
mod run;
mod runs;
mod screen;
mod serve;
mod shell;
mod store;
mod terminal;
mod tokenizer;
mod train;
mod tui;
mod usage;
mod verify;
mod weights;
mod zoo;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use hlx_core::Device;

/// Neural networks with the same bits on any Vulkan GPU and on the CPU.
#[derive(Parser)]
#[command(name = "hlx", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Train a model as a configuration file says.
    Train(train::Arguments),
    /// Measure a trained model's loss on a file.
    Eval(eval::Arguments),
    /// Continue a text, or answer an input, with a trained model.
    Generate(generate::Arguments),
    /// Hold a conversation with a model by its chat template.
    Chat(chat::Arguments),
    /// Serve models by OpenAI's and Anthropic's interfaces.
    Serve(serve::Arguments),
    /// Measure a server with OpenAI's interface as its clients see it.
    BenchServe(hlx_serve::bench::Arguments),
    /// Write a run's low-rank adapters as PEFT's files, or a model that they are merged into.
    Lora(lora::Arguments),
    /// Measure the perplexity of a text by windows that overlap.
    Perplexity(perplexity::Arguments),
    /// Bring in a model from a Hugging Face folder or a GGUF file.
    Import(import::Import),
    /// Write a model as a Hugging Face folder.
    Export(import::Export),
    /// Write a model as a GGUF file, with weights of 4 to 8 bits.
    Quantize(quantize::Arguments),
    /// Write a model's logits, and its gradients, for given token ids.
    Logits(logits::Arguments),
    /// Make and show the keys that sign receipts.
    Key(key::Arguments),
    /// Print the SHA-256 over the parameters, and over the optimizer's state.
    Digest(digest::Arguments),
    /// Recompute a run, the golden runs, or answers by their receipts: are the bits equal, and where do they first differ?
    Verify(verify::Arguments),
    /// Recompute random stretches of a run and sign what was found, or check such a certificate.
    Audit(audit::Arguments),
    /// Small models to start from, whose results are published by digest.
    Zoo(zoo::Arguments),
    /// Turn text into token shards, and verify them.
    Data(data::Arguments),
    /// Train tokenizers.
    Tokenizer(tokenizer::Arguments),
    /// Draw a run's loss curve as SVG.
    Plot(plot::Arguments),
    /// Show one or several runs as one HTML file, and as Markdown.
    Report(runs::report::Arguments),
    /// Find the first difference of two runs: configuration, step, tensor.
    Compare(runs::compare::Arguments),
    /// Watch a run that another process trains.
    Watch(runs::watch::Arguments),
    /// List the runs below a folder.
    List(runs::list::Arguments),
    /// List the devices, their limits and what the start-up probe found.
    Doctor(doctor::Arguments),
    /// Small experiments through the real kernels.
    Demo(demo::Arguments),
    /// Keep bytes and tensors under their SHA-256.
    Store(store::Arguments),
    /// Execute a contract: a kernel or a pipeline over tensors of the store.
    Run(run::Arguments),
    /// Make contracts, and show them.
    Contract(contract::Arguments),
    /// Print the script that makes a shell complete this program's command line.
    Completions(shell::Completions),
    /// Write the manual: a page for this program and for each verb.
    Man(shell::Manual),
}

/// The device to run on.
#[derive(clap::Args)]
struct DeviceArgument {
    /// auto, cpu, vulkan or vulkan:N; the environment variable HLX_DEVICE wins.
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: String,
}

impl DeviceArgument {
    fn open(&self) -> Result<Device> {
        Ok(Device::open_from_env(&self.device)?)
    }
}

fn main() -> ExitCode {
    log::start();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::print(error),
    };
    if let Err(error) = hlx_core::environment::check() {
        print::error(&error.into());
        return ExitCode::from(usage::STATUS);
    }
    log::warn_of_unknown_variables();
    run(arguments.verb)
}

/// Runs another verb of the program, as if it had been started with these arguments.
fn dispatch(arguments: &[String]) -> ExitCode {
    let program = std::iter::once("hlx");
    let line = program.chain(arguments.iter().map(String::as_str));
    match Arguments::try_parse_from(line) {
        Ok(arguments) => run(arguments.verb),
        Err(error) => usage::print(error),
    }
}

fn run(verb: Verb) -> ExitCode {
    let done = match verb {
        Verb::Train(arguments) => return train::run(&arguments),
        Verb::Eval(arguments) => eval::run(&arguments),
        Verb::Generate(arguments) => generate::run(&arguments),
        Verb::Chat(arguments) => chat::run(&arguments),
        Verb::Serve(arguments) => serve::run(&arguments),
        Verb::BenchServe(arguments) => hlx_serve::bench::run(&arguments),
        Verb::Lora(arguments) => lora::run(&arguments),
        Verb::Perplexity(arguments) => perplexity::run(&arguments),
        Verb::Import(arguments) => import::import(&arguments),
        Verb::Export(arguments) => import::export(&arguments),
        Verb::Quantize(arguments) => quantize::run(&arguments),
        Verb::Logits(arguments) => logits::run(&arguments),
        Verb::Key(arguments) => key::run(&arguments),
        Verb::Digest(arguments) => digest::run(&arguments),
        Verb::Verify(arguments) => return verify::run(&arguments),
        Verb::Audit(arguments) => return audit::run(&arguments),
        Verb::Zoo(arguments) => return zoo::run(&arguments, dispatch),
        Verb::Data(arguments) => data::run(&arguments),
        Verb::Tokenizer(arguments) => tokenizer::run(&arguments),
        Verb::Plot(arguments) => plot::run(&arguments),
        Verb::Report(arguments) => runs::report::run(&arguments),
        Verb::Compare(arguments) => return runs::compare::run(&arguments),
        Verb::Watch(arguments) => runs::watch::run(&arguments),
        Verb::List(arguments) => runs::list::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::Store(arguments) => store::run(&arguments),
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Contract(arguments) => contract::run(&arguments),
        Verb::Completions(arguments) => shell::completions(&arguments),
        Verb::Man(arguments) => shell::manual(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if print::is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print::error(&error);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::Arguments;

    /// Also those that no test runs.
    #[test]
    fn the_program_takes_every_command_of_the_pages() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut wrong = Vec::new();
        let mut count = 0;
        for page in pages::pages(&root).expect("reads") {
            for block in page.blocks.iter().filter(|block| block.language == "sh") {
                for command in pages::commands(&block.code) {
                    let calls = ["hlx", "./hlx"].map(|program| pages::calls(&command, program));
                    for call in calls.concat() {
                        count += 1;
                        if let Err(error) = Arguments::try_parse_from(&call) {
                            let place = format!("{}:{}", page.name, block.line);
                            wrong.push(format!("{place}: {command}\n{error}"));
                        }
                    }
                }
            }
        }
        assert!(count > 80, "{count} commands");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
