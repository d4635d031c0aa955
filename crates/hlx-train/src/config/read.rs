//! Reading a configuration file, with the line and the key of whatever is wrong in it.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use hlx_core::files;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::bounds::most;
use super::{Config, Override};

impl Config {
    /// Reads a file, applies overrides in order, fills in defaults and checks every value.
    ///
    /// # Errors
    /// One line with the file, the line and the key: an unreadable file, malformed TOML, an
    /// unknown or missing key, a value of the wrong type or out of its range.
    pub fn load(path: &Path, overrides: &[Override]) -> Result<Self> {
        let name = path.display().to_string();
        let text = files::read_settings_text(path).with_context(|| name.clone())?;
        Self::parse(&text, &name, overrides)
    }

    /// As [`Config::load`], from text; `name` stands for the file in messages.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, name: &str, overrides: &[Override]) -> Result<Self> {
        let mut config: Self = match toml::from_str(text) {
            Ok(config) => config,
            Err(error) => return Err(toml_error(text, name, &error)),
        };
        let small = with_large_as_texts(text);
        let mut table: Table =
            toml::from_str(&small).map_err(|error| toml_error(&small, name, &error))?;
        for one in overrides {
            set(&mut table, one)?;
            config = table.clone().try_into().map_err(|error: toml::de::Error| {
                let message = ranged(&one_line(error.message()), &one.key);
                anyhow!("--set {}: {message}", one.text)
            })?;
        }
        let train = table.get("train").and_then(Value::as_table);
        let has_batch_size = train.is_some_and(|train| train.contains_key("batch_size"));
        config
            .check_bounds()
            .and_then(|()| config.resolve(has_batch_size))
            .and_then(|()| config.check_bounds())
            .and_then(|()| config.check())
            .map_err(|fault| place(text, name, overrides, fault.key, &fault.reason))?;
        Ok(config)
    }
}

/// Replaces the value under a dotted key.
fn set(table: &mut Table, change: &Override) -> Result<()> {
    let mut parts: Vec<&str> = change.key.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    let mut inner = table;
    for part in parts {
        let next = inner
            .entry(part)
            .or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(next) = next else {
            bail!("--set {}: `{part}` is no section", change.text);
        };
        inner = next;
    }
    inner.insert(last.to_owned(), change.value.clone());
    Ok(())
}

/// Names the file, the line and the key of an error of the TOML reader.
fn toml_error(text: &str, name: &str, error: &toml::de::Error) -> anyhow::Error {
    let message = one_line(error.message());
    let Some(span) = error.span() else {
        return anyhow!("{name}: {message}");
    };
    let line = line_of(text, span.start);
    match key_at(text, &span) {
        Some(key) => anyhow!("{name}:{line}: {key}: {}", ranged(&message, &key)),
        None => anyhow!("{name}:{line}: {message}"),
    }
}

/// A message of the reader with what a key may be in the place of a type of Rust.
fn ranged(message: &str, key: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let found = found.replace("` as i128", "`").replace("` as u128", "`");
    match expected {
        "u64" | "u32" | "usize" => {
            format!("{found}, expected a whole number from 0 to {}", most(key))
        }
        "f64" | "f32" => {
            format!("{found}, expected a number from -1e100 to 1e100, such as 0.5 or 1e20")
        }
        "a boolean" => format!("{found}, expected true or false without quotes"),
        _ => format!("{found}, expected {expected}"),
    }
}

/// A TOML text whose whole numbers from 2^63 on, which its tables do not hold, are texts.
fn with_large_as_texts(text: &str) -> String {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut large = Vec::new();
    table
        .get_ref()
        .values()
        .for_each(|value| find_large(value, &mut large));
    large.sort_by_key(|span: &Range<usize>| span.start);
    let mut changed = text.to_owned();
    for span in large.into_iter().rev() {
        changed.insert(span.end, '"');
        changed.insert(span.start, '"');
    }
    changed
}

fn find_large(value: &Spanned<DeValue<'_>>, found: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Integer(number)
            if i64::from_str_radix(number.as_str(), number.radix()).is_err() =>
        {
            found.push(value.span());
        }
        DeValue::Array(values) => values.iter().for_each(|value| find_large(value, found)),
        DeValue::Table(table) => table.values().for_each(|value| find_large(value, found)),
        _ => {}
    }
}

/// Names the override or the line that gave a faulty value.
fn place(text: &str, name: &str, overrides: &[Override], key: &str, reason: &str) -> anyhow::Error {
    if let Some(change) = overrides.iter().rev().find(|change| change.key == key) {
        return anyhow!("--set {}: {reason}", change.text);
    }
    let section = key.split('.').next().unwrap_or(key);
    let found = keys(text);
    let line = [key, section].into_iter().find_map(|wanted| {
        let (_, span) = found.iter().find(|(path, _)| path == wanted)?;
        Some(line_of(text, span.start))
    });
    match line {
        Some(line) => anyhow!("{name}:{line}: {key}: {reason}"),
        None => anyhow!("{name}: {key}: {reason}"),
    }
}

/// The deepest key whose name or value holds the span's start.
fn key_at(text: &str, span: &Range<usize>) -> Option<String> {
    let holds = |(_, range): &&(String, Range<usize>)| range.contains(&span.start);
    keys(text)
        .iter()
        .filter(holds)
        .max_by_key(|(path, _)| path.len())
        .map(|(path, _)| path.clone())
}

/// Every key as a dotted path, with the bytes from its name to the end of its value.
fn keys(text: &str) -> Vec<(String, Range<usize>)> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut found = Vec::new();
    collect(table.get_ref(), "", &mut found);
    found
}

fn collect(table: &DeTable<'_>, prefix: &str, found: &mut Vec<(String, Range<usize>)>) {
    for (key, value) in table {
        let path = format!("{prefix}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            collect(inner, &format!("{path}."), found);
        }
        found.push((path, key.span().start..value.span().end.max(key.span().end)));
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes()
        .take(offset)
        .filter(|&byte| byte == b'\n')
        .count()
        + 1
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[model]\npreset = \"tiny\"\n\n[data]\npath = \"a.jsonl\"\n\
                        format = \"pairs\"\n\n[train]\nepochs = 2\nbatch_size = 24\n";

    fn fails(text: &str, sets: &[&str]) -> String {
        let overrides: Vec<Override> = sets.iter().map(|set| set.parse().expect("set")).collect();
        let error = Config::parse(text, "a.toml", &overrides).expect_err("must fail");
        let line = format!("{error:#}");
        assert!(!line.contains('\n'), "{line}");
        line
    }

    #[test]
    fn defaults_are_resolved() {
        let config = Config::parse(GOOD, "a.toml", &[]).expect("good");
        assert_eq!(config.shards(), 8);
        assert_eq!(config.micro_batch_size(), 24);
        assert_eq!(config.model.feed_forward_width, Some(1024));
        let again = Config::parse(&config.to_toml().expect("toml"), "b.toml", &[]).expect("again");
        assert_eq!(config, again);
    }

    #[test]
    fn weight_decay_defaults_to_what_pytorch_has_for_the_optimizer() {
        for (optimizer, decay) in [("adamw", 0.01), ("adam", 0.0), ("sgd", 0.0)] {
            let set = format!("train.optimizer={optimizer}").parse().expect("set");
            let config = Config::parse(GOOD, "a.toml", &[set]).expect("good");
            assert_eq!(config.train.weight_decay, Some(decay), "{optimizer}");
        }
    }

    #[test]
    fn a_target_below_the_floor_of_the_smoothed_loss_is_warned_of() {
        let warnings = |smoothing: &str, target: &str| {
            let sets = [smoothing, target].map(|set| set.parse().expect("set"));
            let config = Config::parse(GOOD, "a.toml", &sets).expect("good");
            config.train.warnings(256)
        };
        // -0.9 ln 0.9 - 0.1 ln 0.1 + 0.1 ln 256, up to the share of the right byte.
        let found = warnings("train.label_smoothing=0.1", "train.target_loss=0.8");
        assert!(found[0].contains("0.8 is below 0.87"), "{found:?}");
        assert_eq!(found.len(), 1);
        let none = Vec::<String>::new();
        assert_eq!(
            warnings("train.label_smoothing=0.1", "train.target_loss=0.9"),
            none
        );
        assert_eq!(
            warnings("train.label_smoothing=0", "train.target_loss=0"),
            none
        );
    }

    #[test]
    fn overrides_replace_values() {
        let sets = [
            "train.max_steps=40",
            "train.schedule=linear",
            "model.width=64",
        ];
        let overrides: Vec<Override> = sets.iter().map(|set| set.parse().expect("set")).collect();
        let config = Config::parse(GOOD, "a.toml", &overrides).expect("good");
        assert_eq!(config.train.max_steps, Some(40));
        assert_eq!(config.train.schedule, crate::config::ScheduleKind::Linear);
        assert_eq!(config.model.width, Some(64));
    }

    #[test]
    fn a_batch_in_tokens_is_the_batch_in_samples() {
        let in_tokens = GOOD.replace("batch_size = 24", "batch_tokens = 1536");
        let config = Config::parse(&in_tokens, "a.toml", &[]).expect("good");
        let samples = GOOD.replace("24", "12");
        assert_eq!(
            config,
            Config::parse(&samples, "a.toml", &[]).expect("good")
        );
        let odd = fails(&in_tokens.replace("1536", "1500"), &[]);
        assert_eq!(
            odd,
            "a.toml:10: train.batch_tokens: 1500 is no multiple of the 128 positions"
        );
        let both = fails(&format!("{GOOD}batch_tokens = 1536\n"), &[]);
        let expected = "train.batch_tokens: stands beside batch_size, expected one of them";
        assert!(both.ends_with(expected), "{both}");
    }

    #[test]
    fn faults_name_key_and_line() {
        let unknown = format!("{GOOD}colour = 3\n");
        assert!(fails(&unknown, &[]).starts_with("a.toml:11: train.colour: unknown field"));
        let wrong = GOOD.replace("batch_size = 24", "batch_size = \"many\"");
        assert!(fails(&wrong, &[]).starts_with("a.toml:10: train.batch_size: invalid type"));
        let zero = GOOD.replace("24", "0");
        assert!(fails(&zero, &[]).starts_with("a.toml:10: train.batch_size: 0 is not"));
        assert!(fails("seed = = 1\n", &[]).starts_with("a.toml:1:"));
        assert!(fails(&GOOD.replace("path", "paht"), &[]).contains("a.toml:5: data.paht"));
        assert!(fails(&GOOD.replace("epochs = 2\n", ""), &[]).contains("train.epochs: is missing"));
    }

    #[test]
    fn faults_name_the_override() {
        assert!(fails(GOOD, &["train.steps=4"]).starts_with("--set train.steps=4: unknown field"));
        assert!(fails(GOOD, &["model.n_heads=3"]).starts_with("--set model.n_heads=3: 3 does not"));
        assert!(fails(GOOD, &["train.micro_batch_size=5"]).contains("does not divide batch_size"));
        assert!("train".parse::<Override>().is_err());
    }

    #[test]
    fn micro_batches_keep_the_tree() {
        let odd = GOOD.replace("24", "24\nshards = 4");
        for good in [1, 2, 3, 6, 12, 24] {
            let set = format!("train.micro_batch_size={good}")
                .parse()
                .expect("set");
            assert!(Config::parse(&odd, "a.toml", &[set]).is_ok(), "{good}");
        }
        for bad in [4, 8, 5] {
            fails(&odd, &[&format!("train.micro_batch_size={bad}")]);
        }
    }
}
