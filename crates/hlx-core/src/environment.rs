//! HLX's environment variables: which there are, and what their values may be.
//!
//! A value is read here alone, so that nonsense is refused in one line instead of being ignored.

use std::env;
use std::ffi::OsStr;
use std::ops::RangeInclusive;

use crate::error::CoreError;

/// More threads than any machine has processors.
pub const MAX_THREADS: usize = 4096;

/// The longest submission, in milliseconds: as good as no limit.
const MAX_SUBMISSION_MS: f64 = 1e12;

/// What a variable's value may be.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// A whole number.
    Number(RangeInclusive<u64>),
    /// A time in milliseconds, above 0.
    Milliseconds,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Any text; its reader says what is wrong with it.
    Text,
    /// Whatever the system takes for a path.
    Path,
    /// A secret, which no message may repeat; its reader checks it.
    Unread,
}

/// Every variable of the library, the program and their tests. Those that tests and benchmarks alone read
/// are texts.
const VARIABLES: &[(&str, Value)] = &[
    ("HLX_ADDRESS", Value::Text),
    ("HLX_ALLOW_NO_SECRET", Value::OneOf(&["1"])),
    ("HLX_CACHE_DIR", Value::Path),
    ("HLX_CLIENTS_NODE", Value::Path),
    ("HLX_CLIENTS_PYTHON", Value::Path),
    ("HLX_DEVICE", Value::Text),
    ("HLX_EXCHANGE", Value::OneOf(&["peers", "nccl", "host"])),
    ("HLX_EXHAUSTIVE", Value::Text),
    ("HLX_FUZZ_TARGET", Value::Text),
    ("HLX_LONG", Value::Text),
    ("HLX_MEMORY_LIMIT", Value::Number(1..=u64::MAX)),
    ("HLX_MPI", Value::Text),
    ("HLX_NCCL", Value::Text),
    ("HLX_PORT", Value::Number(1..=u16::MAX as u64)),
    ("HLX_RANK", Value::Number(0..=u32::MAX as u64)),
    ("HLX_RANK_FOLDER", Value::Path),
    ("HLX_RANK_SECRET", Value::Unread),
    ("HLX_SAMPLES_OF", Value::Text),
    ("HLX_SAMPLES_REPORT", Value::Path),
    ("HLX_SECRET", Value::Unread),
    ("HLX_SECRET_FILE", Value::Path),
    ("HLX_SIMD", Value::Text),
    ("HLX_STORE", Value::Path),
    ("HLX_SUBMISSION_MS", Value::Milliseconds),
    ("HLX_TEST_CASES", Value::OneOf(&["all", "chosen"])),
    ("HLX_TEST_DEVICES", Value::OneOf(&["all", "cpu", "vulkan"])),
    ("HLX_TEST_REPORT", Value::Path),
    ("HLX_THREADS", Value::Number(1..=MAX_THREADS as u64)),
    ("HLX_UNREAD", Value::Text),
    ("HLX_UNREAD_DIGEST", Value::Text),
    ("HLX_VALIDATION", Value::OneOf(&["0", "1"])),
    ("HLX_VALIDATION_LOG", Value::Path),
    ("HLX_WRITE_PAGE", Value::Text),
];

/// Checks the values of all variables that are set; an empty value is none.
///
/// # Errors
/// [`CoreError::Variable`] for the first value that means nothing.
pub fn check() -> Result<(), CoreError> {
    VARIABLES.iter().try_for_each(|(name, value)| {
        let found = env::var_os(name).unwrap_or_default();
        value.check(name, &found)
    })
}

/// The names of variables that begin with `HLX_` and that nothing reads, such as a misspelt one.
pub fn unknown() -> Vec<String> {
    let names = env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let is_unknown = |name: &String| {
        name.starts_with("HLX_") && VARIABLES.iter().all(|(known, _)| known != name)
    };
    let mut unknown: Vec<String> = names.filter(is_unknown).collect();
    unknown.sort();
    unknown
}

/// The text of a variable; `None` if it is not set, or empty.
///
/// # Errors
/// [`CoreError::Variable`] for a value that is not text, or that the variable cannot have.
pub fn text(name: &str) -> Result<Option<String>, CoreError> {
    let found = env::var_os(name).unwrap_or_default();
    if let Some((_, value)) = VARIABLES.iter().find(|(known, _)| *known == name) {
        value.check(name, &found)?;
    }
    match found.into_string() {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(found) => Err(refused(name, &found, "text in UTF-8")),
    }
}

/// The number of a variable that has one; `None` if it is not set, or means nothing, which opening a device
/// refuses.
pub(crate) fn number<N: std::str::FromStr>(name: &str) -> Option<N> {
    text(name).ok()??.trim().parse().ok()
}

impl Value {
    /// Fails for a value that the variable cannot have.
    fn check(&self, name: &str, found: &OsStr) -> Result<(), CoreError> {
        if found.is_empty() || matches!(self, Self::Path | Self::Unread) {
            return Ok(());
        }
        let text = found.to_str().map(str::trim);
        let is_good = |text: &str| match self {
            Self::Number(range) => text.parse().is_ok_and(|number| range.contains(&number)),
            Self::Milliseconds => text
                .parse::<f64>()
                .is_ok_and(|ms| ms > 0.0 && ms <= MAX_SUBMISSION_MS),
            Self::OneOf(words) => words.contains(&text),
            Self::Text | Self::Path | Self::Unread => true,
        };
        match text.is_some_and(is_good) {
            true => Ok(()),
            false => Err(refused(name, found, &self.expected())),
        }
    }

    /// What a message says the value may be.
    fn expected(&self) -> String {
        match self {
            Self::Number(range) if *range.end() == u64::MAX => {
                format!("a whole number, at least {}", range.start())
            }
            Self::Number(range) => {
                format!("a whole number from {} to {}", range.start(), range.end())
            }
            Self::Milliseconds => {
                format!("milliseconds, above 0 and at most {MAX_SUBMISSION_MS:e}")
            }
            Self::OneOf(words) => format!("{}, or nothing", words.join(", ")),
            Self::Text | Self::Path | Self::Unread => "text in UTF-8".to_owned(),
        }
    }
}

fn refused(name: &str, found: &OsStr, expected: &str) -> CoreError {
    CoreError::Variable {
        name: name.to_owned(),
        found: found.to_string_lossy().into_owned(),
        expected: expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_of(name: &str, found: &str) -> Result<(), String> {
        let (_, value) = VARIABLES
            .iter()
            .find(|(known, _)| *known == name)
            .expect("a variable");
        value
            .check(name, OsStr::new(found))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused_in_one_line() {
        for name in ["HLX_THREADS", "HLX_MEMORY_LIMIT", "HLX_PORT"] {
            for found in ["0", "-1", "4k", "1.5", "nan", "99999999999999999999"] {
                let line = check_of(name, found).expect_err(found);
                let start = format!("{name}={found}: expected a whole number");
                assert!(line.starts_with(&start), "{line}");
            }
            assert_eq!(check_of(name, " 8 "), Ok(()), "{name}");
            assert_eq!(check_of(name, ""), Ok(()), "{name}");
        }
        let line = check_of("HLX_THREADS", "4097").expect_err("refused");
        assert!(line.ends_with("from 1 to 4096"), "{line}");
        for found in ["0", "-3", "inf", "nan", "1e13", "fast"] {
            let line = check_of("HLX_SUBMISSION_MS", found).expect_err(found);
            assert!(line.contains("expected milliseconds"), "{line}");
        }
        assert_eq!(check_of("HLX_SUBMISSION_MS", "0.5"), Ok(()));
        let line = check_of("HLX_EXCHANGE", "pears").expect_err("refused");
        let expected = "HLX_EXCHANGE=pears: expected peers, nccl, host, or nothing";
        assert_eq!(line, expected);
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_no_text_is_not_taken_for_a_missing_one() {
        use std::os::unix::ffi::OsStrExt;
        let line = Value::Text
            .check("HLX_DEVICE", OsStr::from_bytes(b"cpu\xff"))
            .expect_err("refused");
        let expected = "HLX_DEVICE=cpu\u{fffd}: expected text in UTF-8";
        assert_eq!(line.to_string(), expected);
        assert!(
            Value::Path
                .check("HLX_STORE", OsStr::from_bytes(b"\xff"))
                .is_ok()
        );
    }

    /// Whoever adds a variable adds it to the list, or it is called unknown.
    #[test]
    fn every_variable_of_the_sources_is_in_the_list() {
        fn names(folder: &std::path::Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    names(&path, found);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    let text = std::fs::read_to_string(&path).expect("text");
                    let quoted = text.split("\"HLX_").skip(1);
                    let name = |rest: &str| rest.split('"').next().unwrap_or("").to_owned();
                    let is_name = |name: &String| {
                        !name.is_empty()
                            && name
                                .bytes()
                                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
                    };
                    found.extend(quoted.map(name).filter(is_name));
                }
            }
        }
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        // A package of the crate alone has no neighbours, whose sources are another's.
        for crate_folder in std::fs::read_dir(crates).expect("a folder").flatten() {
            let source = crate_folder.path().join("src");
            if source.is_dir() {
                names(&source, &mut found);
            }
        }
        assert!(found.iter().any(|name| name == "THREADS"), "{found:?}");
        for name in found {
            let name = format!("HLX_{name}");
            assert!(VARIABLES.iter().any(|(known, _)| *known == name), "{name}");
        }
    }
}
