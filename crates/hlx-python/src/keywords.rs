//! Lines of the library's crates in the words of Python: an option of the program is a keyword there.

use hlx_autograd::AutogradError;
use hlx_core::CoreError;
use hlx_nn::NnError;
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
    let is_of_device = matches!(error.downcast_ref(), Some(NnError::Core(_)));
    if is_of_device || error.is::<CoreError>() || error.is::<AutogradError>() {
        return of_anyhow(error);
    }
    let line = in_keywords(&format!("{error:#}"));
    raised(Kind::Value, format!("{operation}: {line}"))
}

/// A line in the words of Python.
pub fn in_keywords(line: &str) -> String {
    let mut line = line.to_owned();
    for (option, keyword) in WORDS {
        line = line.replace(option, keyword);
    }
    line
}
