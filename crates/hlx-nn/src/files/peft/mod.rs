//! Adapters in the files of the library PEFT.

mod config;
mod tensors;

pub use config::{PEFT_CONFIG_FILE, peft_adapts_output, read_peft_config};
pub use tensors::{PEFT_FILE, is_own_peft_config, peft_config};
