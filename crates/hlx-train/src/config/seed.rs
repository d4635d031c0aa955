//! Seeds: any number of 64 bits. TOML has none from 2^63 on, so that such a seed is a text in it.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

/// Reads a seed as it is written: decimal, or hexadecimal after `0x`.
///
/// # Errors
/// What is expected.
pub fn parse_seed(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let read = match plain.strip_prefix("0x").or(plain.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => plain.parse(),
    };
    // A sign is none of a number without one.
    let read = read.ok().filter(|_| !text.contains('+'));
    read.ok_or_else(|| {
        format!(
            "expected a whole number from 0 to {}, decimal or behind 0x",
            u64::MAX
        )
    })
}

pub(super) fn serialize<S: Serializer>(seed: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    match i64::try_from(*seed) {
        Ok(_) => serializer.serialize_u64(*seed),
        Err(_) => serializer.serialize_str(&seed.to_string()),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Seed)
}

struct Seed;

impl Visitor<'_> for Seed {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u64")
    }

    fn visit_u64<E: Error>(self, seed: u64) -> Result<u64, E> {
        Ok(seed)
    }

    fn visit_i64<E: Error>(self, seed: i64) -> Result<u64, E> {
        let wrong = |_| E::invalid_value(serde::de::Unexpected::Signed(seed), &self);
        u64::try_from(seed).map_err(wrong)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse_seed(text).map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    const REST: &str = "[model]\npreset = \"tiny\"\n\n[data]\npath = \"a.txt\"\nformat = \"text\"\n\n\
                        [train]\nmax_steps = 4\n";

    fn read(seed: &str, sets: &[&str]) -> anyhow::Result<Config> {
        let sets: Vec<_> = sets.iter().map(|set| set.parse().expect("set")).collect();
        Config::parse(&format!("seed = {seed}\n{REST}"), "a.toml", &sets)
    }

    #[test]
    fn seeds_have_64_bits_in_files_in_overrides_and_in_what_a_run_writes() {
        for (written, seed) in [
            ("9223372036854775807", i64::MAX as u64),
            ("9223372036854775808", 1 << 63),
            ("18446744073709551615", u64::MAX),
            ("\"18_446_744_073_709_551_615\"", u64::MAX),
            ("\"0xffffffffffffffff\"", u64::MAX),
            ("0x10", 16),
        ] {
            let config = read(written, &[]).expect(written);
            assert_eq!(config.seed, seed, "{written}");
            let set = format!("seed={written}");
            assert_eq!(read("1", &[&set]).expect(written).seed, seed, "{set}");
            let text = config.to_toml().expect("TOML");
            assert_eq!(Config::parse(&text, "b.toml", &[]).expect("again"), config);
        }
    }

    #[test]
    fn a_number_that_a_key_cannot_have_is_named_with_its_key_and_its_range() {
        for seed in [
            "-1",
            "18446744073709551616",
            "1e3",
            "1.5",
            "\"a\"",
            "\"-1\"",
            "nan",
            "true",
            "[1]",
        ] {
            for line in [read(seed, &[]), read("1", &[&format!("seed={seed}")])] {
                let line = format!("{:#}", line.expect_err(seed));
                let key = line.starts_with("a.toml:1: seed: ") || line.starts_with("--set seed=");
                assert!(key && !line.contains('\n'), "{line}");
                let range = ", expected a whole number from 0 to 18446744073709551615";
                assert!(line.ends_with(range), "{line}");
            }
        }
        for (set, range) in [
            (
                "train.max_steps=1e6",
                "a whole number from 0 to 9007199254740992",
            ),
            (
                "train.max_steps=99999999999999999999",
                "a whole number from 0 to 9007199254740992",
            ),
            ("train.batch_size=-1", "a whole number from 0 to 1048576"),
            ("model.width=32.0", "a whole number from 0 to 16777216"),
            (
                "train.learning_rate=abc",
                "a number from -1e100 to 1e100, such as 0.5 or 1e20",
            ),
            ("train.recompute=1", "true or false without quotes"),
        ] {
            let line = format!("{:#}", read("1", &[set]).expect_err(set));
            assert!(
                line.starts_with(&format!("--set {set}: invalid ")),
                "{line}"
            );
            assert!(line.ends_with(&format!(", expected {range}")), "{line}");
        }
    }
}
