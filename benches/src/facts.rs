//! The facts above a table: when, where and how it was measured.

use std::time::{SystemTime, UNIX_EPOCH};

use hlx_core::Device;

/// The facts of a run on a device.
pub fn facts(device: &Device) -> Vec<(String, String)> {
    let info = device.info();
    let command = command(std::env::args().skip(1));
    let mut facts = vec![
        ("date".to_owned(), today()),
        ("device".to_owned(), info.name.clone()),
        ("driver".to_owned(), info.driver.clone()),
        ("command".to_owned(), command),
    ];
    if device.is_cpu() {
        facts.push(("threads".to_owned(), device.cpu_threads().to_string()));
    }
    facts
}

/// Options whose values are places on the machine that measured.
const PLACES: [&str; 10] = [
    "--pytorch",
    "--csv",
    "--compare",
    "--out",
    "--script",
    "--python",
    "--peer",
    "--scripts",
    "--programs",
    "--hlx",
];

/// The command that repeats a run, without places.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let mut arguments = arguments.peekable();
    let mut command = match arguments.next_if(|argument| argument == "prove") {
        Some(_) => "cargo xtask prove".to_owned(),
        None => "cargo xtask bench".to_owned(),
    };
    while let Some(argument) = arguments.next() {
        if PLACES.contains(&argument.as_str()) {
            arguments.next();
        } else if !PLACES
            .iter()
            .any(|place| argument.starts_with(&format!("{place}=")))
        {
            command += " ";
            command += &argument;
        }
    }
    command
}

/// Today's date in UTC, 2026-11-21.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since.map_or(0, |since| since.as_secs() / 86_400) as i64)
}

/// The date this many days after 1970-01-01 (Hinnant, "chrono-compatible low-level date
/// algorithms": years begin in March, eras have 400 of them).
fn date(days: i64) -> String {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::{command, date};

    #[test]
    fn commands_name_no_places() {
        let words = "peers --out /a/b --rounds 5 --script=/c.py --quick".split(' ');
        let text = command(words.map(str::to_owned));
        assert_eq!(text, "cargo xtask bench peers --rounds 5 --quick");
    }

    #[test]
    fn dates_are_the_calendars() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(19_782), "2024-02-29");
        assert_eq!(date(20_453), "2025-12-31");
        assert_eq!(date(20_454), "2026-01-01");
    }
}
