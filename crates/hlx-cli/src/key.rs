//! `hlx key`: the Ed25519 keys that sign receipts.

use std::path::PathBuf;

use anyhow::Result;
use hlx_receipt::{PublicKey, SigningKey, public_path};

use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Make a key: a private file that only you can read, and the public key beside it, FILE.pub.
    New {
        /// The new file (PKCS#8 in PEM); one that is there is left as it is.
        #[arg(value_name = "FILE")]
        path: PathBuf,
    },
    /// Print the public key of a private or a public file.
    Show {
        /// The file.
        #[arg(value_name = "FILE")]
        path: PathBuf,
        /// Print it as PEM, as other programs read it.
        #[arg(long)]
        pem: bool,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Verb::New { path } => {
            let key = SigningKey::random()?;
            key.create(path)?;
            say!("private    {}", path.display())?;
            say!("public     {}", public_path(path).display())?;
            say!("key        {}", key.public())
        }
        Verb::Show { path, pem } => {
            let key = PublicKey::open(path)?;
            match pem {
                true => say!("{}", key.to_pem()?.trim_end()),
                false => say!("{key}"),
            }
        }
    }
}
