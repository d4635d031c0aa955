//! Numbers in English words and in digits.

use super::draw::Draw;
use super::phrase::{Phrase, Said};

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] = [
    "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];
const ORDINALS: [&str; 20] = [
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
];

/// How a number is spoken.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// `one hundred and five`, not `one hundred five`.
    pub and: bool,
    /// `forty-two`, not `forty two`.
    pub hyphen: bool,
}

impl Style {
    /// Without `and`, for phrases in which `and` parts two numbers.
    pub fn without_and(draw: &mut Draw) -> Self {
        Self {
            and: false,
            hyphen: draw.percent(15),
        }
    }

    fn any(draw: &mut Draw) -> Self {
        Self {
            and: draw.percent(25),
            hyphen: draw.percent(15),
        }
    }
}

/// A number below a million in words.
pub(super) fn spoken(n: usize, style: Style) -> String {
    let (hyphen, and) = (
        if style.hyphen { "-" } else { " " },
        if style.and { " and " } else { " " },
    );
    let join = |head: String, between: &str, rest: usize| match rest {
        0 => head,
        _ => head + between + &spoken(rest, style),
    };
    match n {
        0..20 => SMALL[n].to_owned(),
        20..100 => join(TENS[n / 10].to_owned(), hyphen, n % 10),
        100..1000 => join(spoken(n / 100, style) + " hundred", and, n % 100),
        _ => {
            let between = if n % 1000 < 100 { and } else { " " };
            join(spoken(n / 1000, style) + " thousand", between, n % 1000)
        }
    }
}

/// `first` to `thirty first`.
pub(super) fn ordinal(n: usize) -> String {
    match n {
        0..20 => ORDINALS[n].to_owned(),
        20 => "twentieth".to_owned(),
        30 => "thirtieth".to_owned(),
        _ => format!("{} {}", TENS[n / 10], ORDINALS[n % 10]),
    }
}

/// A whole number: small ones are more frequent.
pub(super) fn size(draw: &mut Draw) -> usize {
    let below = draw.weighted(&[(40, 21), (30, 100), (18, 1000), (9, 10_000), (3, 100_000)]);
    draw.below(below)
}

/// A whole number in words or digits.
pub(super) fn whole(draw: &mut Draw, n: usize, style: Style) -> Said {
    let phrase = if draw.percent(20) {
        n.to_string()
    } else {
        spoken(n, style)
    };
    Said {
        phrase: Phrase::content(&phrase),
        value: n.to_string(),
    }
}

/// A number at or above zero: whole.
pub(super) fn count(draw: &mut Draw, style: Style) -> Said {
    let n = size(draw);
    whole(draw, n, style)
}

/// Any number: whole, with decimals, a half, below zero.
pub(super) fn number(draw: &mut Draw, style: Style) -> Said {
    let said = match draw.below(100) {
        0..80 => count(draw, style),
        80..94 => decimal(draw, style),
        _ => half(draw, style),
    };
    let is_zero = said.value.chars().all(|c| c == '0' || c == '.');
    if is_zero || !draw.percent(10) {
        return said;
    }
    let value = format!("-{}", said.value);
    Said::new(
        draw,
        &["!minus {0}", "!negative {0}"],
        &[&said.phrase],
        value,
    )
}

/// As [`number`], in any style.
pub(super) fn any_number(draw: &mut Draw) -> Said {
    let style = Style::any(draw);
    number(draw, style)
}

/// `three point one four`, with one to three places and no zero at the end.
fn decimal(draw: &mut Draw, style: Style) -> Said {
    let most = if draw.percent(70) { 21 } else { 100 };
    let whole = draw.below(most);
    let places = 1 + draw.below(3);
    let mut digits: Vec<usize> = (1..places).map(|_| draw.below(10)).collect();
    digits.push(1 + draw.below(9));
    let figures: String = digits.iter().map(usize::to_string).collect();
    let value = format!("{whole}.{figures}");
    let phrase = if draw.percent(20) {
        value.clone()
    } else {
        let after: Vec<&str> = digits.iter().map(|&digit| SMALL[digit]).collect();
        format!("{} point {}", spoken(whole, style), after.join(" "))
    };
    Said {
        phrase: Phrase::content(&phrase),
        value,
    }
}

/// Halves and quarters.
fn half(draw: &mut Draw, style: Style) -> Said {
    let (fraction, alone, with) = draw.weighted(&[
        (2, ("5", "one half", "a half")),
        (1, ("25", "one quarter", "a quarter")),
        (1, ("75", "three quarters", "three quarters")),
    ]);
    let whole = draw.below(20);
    let phrase = match whole {
        0 => alone.to_owned(),
        // `and` belongs to the number here, so phrases that part numbers by `and` say `point`.
        _ if style.and => format!("{} and {with}", spoken(whole, style)),
        _ => return decimal(draw, style),
    };
    Said {
        phrase: Phrase::content(&phrase),
        value: format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spoken_as_people_do() {
        let plain = Style {
            and: false,
            hyphen: false,
        };
        let british = Style {
            and: true,
            hyphen: true,
        };
        for (n, one, other) in [
            (0, "zero", "zero"),
            (17, "seventeen", "seventeen"),
            (40, "forty", "forty"),
            (42, "forty two", "forty-two"),
            (105, "one hundred five", "one hundred and five"),
            (2001, "two thousand one", "two thousand and one"),
            (
                45_300,
                "forty five thousand three hundred",
                "forty-five thousand three hundred",
            ),
        ] {
            assert_eq!(spoken(n, plain), one);
            assert_eq!(spoken(n, british), other);
        }
        assert_eq!(ordinal(1), "first");
        assert_eq!(ordinal(20), "twentieth");
        assert_eq!(ordinal(31), "thirty first");
    }
}
