//! Adapters in the files of the library PEFT.

mod config;
mod module_adapter;
mod modules;
mod names;
mod patterns;
mod targets;
mod tensors;

pub use config::read_peft_config;
pub use modules::peft_unties_output;
pub use names::PEFT_CONFIG_FILE;
pub use tensors::{PEFT_FILE, is_own_peft_config, peft_config};
