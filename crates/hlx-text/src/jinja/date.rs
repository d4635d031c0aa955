//! The date that templates find by `strftime_now`: one that is stated, so that equal inputs give equal texts.

use super::error::{Result, fault};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// A day and a time, of no time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    year: i64,
    month: i64,
    day: i64,
    seconds: i64,
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn days_of(month: i64, year: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Date {
    /// The date of those who state none.
    pub const FIXED: Self = Self {
        year: 2024,
        month: 7,
        day: 26,
        seconds: 0,
    };

    /// Reads `YYYY-MM-DD`, with `HH:MM` or `HH:MM:SS` after a blank or a `T`.
    pub fn parse(text: &str) -> Option<Self> {
        let (day, time) = match text.split_once(['T', ' ']) {
            Some((day, time)) => (day, time),
            None => (text, "00:00"),
        };
        let numbers = |text: &str, sign: char, widths: &[usize]| {
            let parts: Vec<&str> = text.split(sign).collect();
            let fits =
                parts.len() <= widths.len() && parts.iter().zip(widths).all(|(a, b)| a.len() == *b);
            let digits = parts
                .iter()
                .all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            let numbers = parts
                .iter()
                .map(|part| part.parse().ok())
                .collect::<Option<Vec<i64>>>();
            numbers.filter(|_| fits && digits)
        };
        let [year, month, day] = numbers(day, '-', &[4, 2, 2])?[..] else {
            return None;
        };
        let time = numbers(time, ':', &[2, 2, 2])?;
        let (&hour, &minute) = (time.first()?, time.get(1)?);
        let second = time.get(2).copied().unwrap_or(0);
        let is_day =
            year > 0 && (1..=12).contains(&month) && day > 0 && day <= days_of(month, year);
        let is_time = hour < 24 && minute < 60 && second < 60;
        (is_day && is_time).then_some(Self {
            year,
            month,
            day,
            seconds: hour * 3600 + minute * 60 + second,
        })
    }

    /// The day of the year, from 1 on.
    fn ordinal(&self) -> i64 {
        (1..self.month)
            .map(|month| days_of(month, self.year))
            .sum::<i64>()
            + self.day
    }

    /// The day of the week; 0 is Sunday.
    fn weekday(&self) -> i64 {
        let before = self.year - 1;
        (before * 365 + before / 4 - before / 100 + before / 400 + self.ordinal()) % 7
    }

    /// The year and the number of the week by ISO 8601.
    fn iso_week(&self) -> (i64, i64) {
        let weekday = (self.weekday() + 6) % 7;
        let week = (self.ordinal() - weekday + 9) / 7;
        let weeks = |year: i64| {
            let first = Self {
                year,
                month: 1,
                day: 1,
                seconds: 0,
            }
            .weekday();
            52 + i64::from(first == 4 || (first == 3 && is_leap(year)))
        };
        match week {
            0 => (self.year - 1, weeks(self.year - 1)),
            week if week > weeks(self.year) => (self.year + 1, 1),
            week => (self.year, week),
        }
    }

    /// C's `strftime` with English names, as Python has it without a locale.
    ///
    /// # Errors
    /// Formats that C does not have.
    pub fn format(&self, format: &str) -> Result<String> {
        super::bounds::check_width("strftime_now", format.len())?;
        let mut text = String::new();
        let mut chars = format.chars();
        while let Some(char) = chars.next() {
            if char != '%' {
                text.push(char);
                continue;
            }
            let Some(mut kind) = chars.next() else {
                return Err(fault!("strftime_now: the format ends with `%`"));
            };
            // `%-d` leaves out zeros before a number.
            let is_short = kind == '-';
            if is_short {
                kind = chars.next().unwrap_or('-');
            }
            let part = self.part(kind)?;
            let short = part.trim_start_matches(['0', ' ']);
            match is_short
                && !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte == b' ' || byte.is_ascii_digit())
            {
                true if short.is_empty() => text.push('0'),
                true => text.push_str(short),
                false => text.push_str(&part),
            }
        }
        Ok(text)
    }

    fn part(&self, kind: char) -> Result<String> {
        let (hour, minute, second) = (
            self.seconds / 3600,
            self.seconds / 60 % 60,
            self.seconds % 60,
        );
        let half = if hour % 12 == 0 { 12 } else { hour % 12 };
        let month = MONTHS[(self.month - 1) as usize];
        let day = DAYS[self.weekday() as usize];
        let week = |first: i64| (self.ordinal() + 6 - (self.weekday() + 7 - first) % 7) / 7;
        Ok(match kind {
            'a' => day[..3].to_owned(),
            'A' => day.to_owned(),
            'b' | 'h' => month[..3].to_owned(),
            'B' => month.to_owned(),
            'C' => format!("{:02}", self.year / 100),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'f' => "000000".to_owned(),
            'g' => format!("{:02}", self.iso_week().0 % 100),
            'G' => format!("{:04}", self.iso_week().0),
            'H' => format!("{hour:02}"),
            'I' => format!("{half:02}"),
            'j' => format!("{:03}", self.ordinal()),
            'k' => format!("{hour:2}"),
            'l' => format!("{half:2}"),
            'm' => format!("{:02}", self.month),
            'M' => format!("{minute:02}"),
            'n' => "\n".to_owned(),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'P' => if hour < 12 { "am" } else { "pm" }.to_owned(),
            's' => self.timestamp().to_string(),
            'S' => format!("{second:02}"),
            't' => "\t".to_owned(),
            'u' => ((self.weekday() + 6) % 7 + 1).to_string(),
            'U' => format!("{:02}", week(0)),
            'V' => format!("{:02}", self.iso_week().1),
            'w' => self.weekday().to_string(),
            'W' => format!("{:02}", week(1)),
            'y' => format!("{:02}", self.year % 100),
            'Y' => self.year.to_string(),
            'z' | 'Z' => String::new(),
            '%' => "%".to_owned(),
            'c' => self.format("%a %b %e %H:%M:%S %Y")?,
            'D' | 'x' => self.format("%m/%d/%y")?,
            'F' => self.format("%Y-%m-%d")?,
            'r' => self.format("%I:%M:%S %p")?,
            'R' => self.format("%H:%M")?,
            'T' | 'X' => self.format("%H:%M:%S")?,
            other => return Err(fault!("strftime_now: `%{other}` is no part of a date")),
        })
    }

    /// Seconds since 1970.
    fn timestamp(&self) -> i64 {
        let before = self.year - 1;
        let days = before * 365 + before / 4 - before / 100 + before / 400 + self.ordinal();
        (days - 719_163) * 86_400 + self.seconds
    }
}
