//! Numbers that every reader of JSON reads alike.

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A whole number; above 2^53, where readers that know doubles alone lose digits, it is written as a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole(pub u64);

/// The largest number up to which doubles have all whole numbers.
const EXACT: u64 = 1 << 53;

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ..=EXACT => serializer.serialize_u64(self.0),
            large => serializer.serialize_str(&large.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Whole;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a whole number, above 2^53 as a string")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole, E> {
                match number {
                    ..=EXACT => Ok(Whole(number)),
                    _ => Err(E::custom(format!(
                        "{number} is above 2^53, expected a string"
                    ))),
                }
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Whole, E> {
                let number = text.parse::<u64>().ok().filter(|&number| number > EXACT);
                let number = number.filter(|number| number.to_string() == text);
                let wrong = || E::custom(format!("{text:?} is no whole number above 2^53"));
                number.map(Whole).ok_or_else(wrong)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// The shortest decimal that gives an f32 back, as the double that JSON has; a zero without its sign.
pub fn shortest(value: f32) -> f64 {
    let exact = f64::from(value);
    let short = value.to_string().parse().unwrap_or(exact);
    // Rounded twice, a decimal could give a neighbour.
    let number: f64 = if short as f32 == value { short } else { exact };
    number + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_strings_and_small_ones_are_not() {
        for (number, text) in [
            (0, "0"),
            (EXACT, "9007199254740992"),
            (EXACT + 1, "\"9007199254740993\""),
            (u64::MAX, "\"18446744073709551615\""),
        ] {
            let written = crate::canonical(&Whole(number)).expect("is written");
            assert_eq!(String::from_utf8_lossy(&written), text);
            assert_eq!(
                serde_json::from_str::<Whole>(text).expect("is read"),
                Whole(number)
            );
        }
        for wrong in [
            "9007199254740993",
            "\"7\"",
            "\"018446744073709551615\"",
            "-1",
            "1.5",
            "null",
        ] {
            assert!(serde_json::from_str::<Whole>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_shortest_decimal_gives_the_number_back() {
        assert_eq!((shortest(0.7), shortest(-0.0).to_bits()), (0.7, 0));
        for bits in (0..=u32::MAX).step_by(65_537) {
            let value = f32::from_bits(bits);
            if value.is_finite() {
                assert_eq!(shortest(value) as f32, value, "{bits:08x}");
            }
        }
    }
}
