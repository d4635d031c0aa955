//! Adapters in the files of the library PEFT.

mod config;
mod modules;
mod patterns;
mod targets;
mod tensors;

pub use config::{PEFT_CONFIG_FILE, read_peft_config};
pub use modules::peft_unties_output;
pub use tensors::{PEFT_FILE, is_own_peft_config, peft_config};
