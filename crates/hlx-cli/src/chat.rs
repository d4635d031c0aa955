//! `hlx chat`: a conversation with a model on the terminal.

use std::io::{BufRead, IsTerminal};

use anyhow::{Context as _, Result, ensure};
use hlx_train::chat::Conversation;
use hlx_train::generate::{TokenGeneration, Wanted};

use crate::generate::DrawingArguments;
use crate::numbers::{MAX_TOKENS, within};
use crate::print::Streamed;
use crate::weights::ModelArguments;
use crate::{next, print};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// What the model is told before the conversation begins.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The date that the chat template finds: YYYY-MM-DD, with HH:MM or HH:MM:SS after a T.
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Tokens of an answer at most.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = within::<usize>(0..=MAX_TOKENS), allow_negative_numbers = true)]
    max_tokens: usize,
    #[command(flatten)]
    drawing: DrawingArguments,
    /// End an answer before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// For a model of pairs without a chat template: put no separator after what is said.
    #[arg(long)]
    raw: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let sampling = arguments.drawing.sampling()?;
    let model = arguments.model.text_model_to_write(&Wanted {
        sampling,
        max_tokens: arguments.max_tokens,
        n_texts: 1,
    })?;
    let folder = || arguments.model.path.display().to_string();
    ensure!(
        model.tokenizer.chat_template().is_some() || model.preparation.answers_inputs(),
        "{}: has no chat template, which lays a conversation out as text; {} goes on from a text",
        folder(),
        next::generate(&arguments.model.path, "TEXT")
    );
    let stdin = std::io::stdin();
    ensure!(
        stdin.is_terminal() && std::io::stdout().is_terminal(),
        "a conversation needs a terminal; hlx generate answers a prompt without one"
    );
    let conversation = Conversation::new(&model, arguments.system.as_deref());
    let mut conversation = conversation.with_context(folder)?;
    if arguments.raw {
        conversation = conversation.raw()?;
    }
    if let Some(date) = &arguments.date {
        conversation = conversation.dated(date)?;
    }
    let ends = model.end_tokens.clone();
    let options = TokenGeneration::new(arguments.max_tokens, sampling, ends);
    print::say!("/exit ends the conversation, /clear forgets it")?;
    let mut line = String::new();
    loop {
        print::text("> ")?;
        line.clear();
        let n_read = stdin.lock().read_line(&mut line);
        if n_read.context("standard input")? == 0 {
            print::say!("")?;
            return Ok(());
        }
        match line.trim() {
            "" => {}
            "/exit" => return Ok(()),
            "/clear" => conversation.clear(),
            text => {
                let mut shown = Streamed::default();
                let mut tell = |new: &str| shown.print(new.as_bytes());
                match conversation.say(text, &options, &arguments.stop, &mut tell) {
                    Ok(_) => print::text("\n")?,
                    Err(error) if print::is_of_output(&error) => return Err(error),
                    Err(error) => print::error(&error),
                }
            }
        }
    }
}
