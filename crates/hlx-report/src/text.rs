//! Numbers, times and command lines as they are read.

use std::path::Path;
use std::time::{Duration, SystemTime};

/// 3323392 as 3,323,392.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<&str> = groups
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// A number with five significant digits, as the tables have it: `1.4832`, `12,346`, `3.0000e-4`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match value {
        _ if !value.is_finite() => "not finite".to_owned(),
        _ if value == 0.0 => "0".to_owned(),
        _ if size < 1e-3 => format!("{value:.4e}"),
        _ if size < 10.0 => format!("{value:.4}"),
        _ if size < 100.0 => format!("{value:.3}"),
        _ if size < 1000.0 => format!("{value:.2}"),
        _ if size < 1e15 && value > 0.0 => with_commas(value.round() as u64),
        _ => format!("{value:.4e}"),
    }
}

/// A count as a chart's axis has it: `500`, `20k`, `1.5M`.
pub fn short(value: f64) -> String {
    let trimmed = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        format!("{text}{unit}")
    };
    match value.abs() {
        size if size >= 1e9 => trimmed(value / 1e9, "G"),
        size if size >= 1e6 => trimmed(value / 1e6, "M"),
        size if size >= 1e4 => trimmed(value / 1e3, "k"),
        size if size >= 1.0 || size == 0.0 => trimmed(value, ""),
        size if size < 1e-4 => format!("{value:.1e}").replace(".0e", "e"),
        _ => {
            let text = format!("{value:.6}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// A time as it is read: `45 s`, `12 min`, `3 h 20 min`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        ..100.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{minutes} min"),
        ..172_800.0 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

/// A moment as RFC 3339 writes it, in UTC, to the second.
pub fn moment(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// A moment of RFC 3339 in UTC as it is read: `2026-11-27 22:26:29 UTC`.
pub fn spoken(moment: &str) -> String {
    match moment.strip_suffix('Z') {
        Some(time) => format!("{} UTC", time.replace('T', " ")),
        None => moment.to_owned(),
    }
}

/// A word of a command line as a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./=:,+@%\\".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The last part of a path, or all of it where it has none.
pub fn name_of(path: &Path) -> String {
    let resolved = path.canonicalize();
    let path = resolved.as_deref().unwrap_or(path);
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("train.max_steps=40"), "train.max_steps=40");
        assert_eq!(quoted("my run"), "'my run'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn moments_read_well() {
        assert_eq!(spoken("2026-11-27T22:26:29Z"), "2026-11-27 22:26:29 UTC");
        assert_eq!(spoken("yesterday"), "yesterday");
    }

    #[test]
    fn numbers_read_well() {
        let numbers = [1.483_21, 12_345.6, 0.000_3, 0.0, f64::NAN, 57.123_4, -2.0];
        assert_eq!(
            numbers.map(number),
            [
                "1.4832",
                "12,346",
                "3.0000e-4",
                "0",
                "not finite",
                "57.123",
                "-2.0000"
            ]
        );
        let counts = [0.0, 500.0, 20_000.0, 1_500_000.0, 0.25, 2e-5];
        assert_eq!(
            counts.map(short),
            ["0", "500", "20k", "1.5M", "0.25", "2e-5"]
        );
        let times = [0.5, 45.0, 700.0, 12_000.0, 300_000.0];
        assert_eq!(
            times.map(|seconds| duration(Duration::from_secs_f64(seconds))),
            ["0.5 s", "45 s", "12 min", "3 h 20 min", "3.5 days"]
        );
    }
}
