//! What holds of every verb of the program: where it prints, what it escapes, and which numbers it takes.

#[path = "../common/mod.rs"]
mod common;
mod doctor;
mod escapes;
#[cfg(unix)]
mod json;
mod next;
mod numbers;
#[cfg(unix)]
mod output;
mod shell;
mod variables;
mod zoo;
