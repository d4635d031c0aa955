//! Lines of the library's crates in the words of Python: an option of the program is a keyword there.

use pyo3::prelude::*;

use crate::error::{Kind, of_anyhow, raised};

/// Options of the program that its errors name, and the keywords in their place.
const WORDS: [(&str, &str); 17] = [
    (
        "--resume goes on with it, another --out keeps it",
        "resume=True goes on with it, another run= keeps it",
    ),
    (
        "--out names an empty or a new folder",
        "run= names an empty or a new folder",
    ),
    ("(--data says where it lies)", "(data= says where it lies)"),
    ("(--set train.init_from=", "(train.init_from = "),
    ("--micro-batch-size", "micro_batch_size"),
    ("--from ", "from_step "),
    ("--to ", "to_step "),
    ("--set ", "set: "),
    ("--length", "length"),
    ("(--date YYYY-MM-DD)", "(date=\"YYYY-MM-DD\")"),
    ("(--format text)", "(format=\"text\")"),
    ("(--bos)", "(bos=True)"),
    ("--bos, --no-bos and --no-eos are", "bos and eos are"),
    (
        "the same command goes on with it",
        "the same call goes on with it",
    ),
    ("--chat-template: ", "chat_template: "),
    ("--pair-separator: ", "pair_separator: "),
    ("--separator: ", "separator: "),
];

/// The exception for an error of an operation.
pub fn of_run(operation: &str, error: anyhow::Error) -> PyErr {
    let is_plain = error.downcast_ref::<hlx_core::CoreError>().is_none();
    let line = in_keywords(&format!("{error:#}"));
    match is_plain {
        true => raised(Kind::Value, format!("{operation}: {line}")),
        false => of_anyhow(error),
    }
}

/// A line in the words of Python.
pub fn in_keywords(line: &str) -> String {
    let mut line = line.to_owned();
    for (option, keyword) in WORDS {
        line = line.replace(option, keyword);
    }
    line
}
