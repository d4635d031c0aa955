//! Objects: people, books, points, measures, dates, times, and fields of any name.

use super::draw::Draw;
use super::number::{Style, any_number, count, number, ordinal, spoken};
use super::phrase::{Phrase, Said};
use super::values::{bare_handle, flag, key, name, word};
use super::words::capitalised;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [usize; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// What is measured, its units' names and signs.
const MEASURES: [(&str, &[(&str, &str)]); 4] = [
    (
        "weight",
        &[("kilograms", "kg"), ("grams", "g"), ("tons", "t")],
    ),
    (
        "length",
        &[("metres", "m"), ("centimetres", "cm"), ("kilometres", "km")],
    ),
    (
        "time",
        &[("seconds", "s"), ("minutes", "min"), ("hours", "h")],
    ),
    ("volume", &[("litres", "l"), ("millilitres", "ml")]),
];

/// An object.
pub(super) fn object(draw: &mut Draw) -> Said {
    Said::any_of(
        draw,
        &[
            (4, person),
            (2, book),
            (3, point),
            (3, measure),
            (3, date),
            (2, time),
            (5, fields),
            (1, state),
        ],
    )
}

fn person(draw: &mut Draw) -> Said {
    let name = name(draw);
    if draw.percent(35) {
        let value = format!("{{name:{}}}", name.value);
        let templates = [
            "person called {0}",
            "a person named {0}",
            "somebody called {0}",
        ];
        return Said::new(draw, &templates, &[&name.phrase], value);
    }
    let years = draw.below(100);
    let style = Style::without_and(draw);
    let age = super::number::whole(draw, years, style);
    let value = format!("{{name:{},age:{}}}", name.value, age.value);
    let templates = [
        "person called {0} aged {1}",
        "a person named {0} of age {1}",
        "{0}, a person of {1} years",
        "person called {0} who is {1} years old",
    ];
    Said::new(draw, &templates, &[&name.phrase, &age.phrase], value)
}

fn book(draw: &mut Draw) -> Said {
    let title = name(draw);
    if draw.percent(40) {
        let value = format!("{{title:{}}}", title.value);
        let templates = [
            "book named {0}",
            "a book called {0}",
            "book with the title {0}",
        ];
        return Said::new(draw, &templates, &[&title.phrase], value);
    }
    let author = name(draw);
    let value = format!("{{title:{},author:{}}}", title.value, author.value);
    let templates = [
        "book named {0} by {1}",
        "a book called {0} by {1}",
        "the book {0} by {1}",
    ];
    Said::new(draw, &templates, &[&title.phrase, &author.phrase], value)
}

fn point(draw: &mut Draw) -> Said {
    let style = Style::without_and(draw);
    let (x, y) = (number(draw, style), number(draw, style));
    let value = format!("{{x:{},y:{}}}", x.value, y.value);
    let templates = [
        "point at {0} and {1}",
        "the point {0}, {1}",
        "point with x {0} and y {1}",
    ];
    Said::new(draw, &templates, &[&x.phrase, &y.phrase], value)
}

fn measure(draw: &mut Draw) -> Said {
    let (what, units) = MEASURES[draw.below(MEASURES.len())];
    let (unit, sign) = units[draw.below(units.len())];
    let amount = any_number(draw);
    let value = format!("{{amount:{},unit:\"{sign}\"}}", amount.value);
    let (what, unit) = (Phrase::content(what), Phrase::content(unit));
    let templates = ["{0} of {1} {2}", "a {0} of {1} {2}", "{1} {2} of {0}"];
    Said::new(draw, &templates, &[&what, &amount.phrase, &unit], value)
}

fn date(draw: &mut Draw) -> Said {
    let month = draw.below(12);
    let day = 1 + draw.below(DAYS[month]);
    let value = format!("{{month:{},day:{day}}}", month + 1);
    let month = Phrase::content(&capitalised(MONTHS[month]));
    let ordinal = Phrase::content(&ordinal(day));
    let figure = Phrase::content(&day.to_string());
    let templates = [
        "{1} of {0}",
        "the {1} of {0}",
        "{0} the {1}",
        "{2} {0}",
        "{0} {2}",
    ];
    Said::new(draw, &templates, &[&month, &ordinal, &figure], value)
}

fn time(draw: &mut Draw) -> Said {
    let hour = 1 + draw.below(12);
    let style = Style::without_and(draw);
    let hour_words = Phrase::content(&spoken(hour, style));
    let (templates, minute): (&[&str], usize) = match draw.below(4) {
        0 => (&["{0} o'clock", "at {0} o'clock"], 0),
        1 => (&["!half past {0}", "at !half past {0}"], 30),
        2 => (&["!quarter past {0}", "at a !quarter past {0}"], 15),
        _ => {
            let minute = 1 + draw.below(59);
            let minutes = Phrase::content(&spoken(minute, style));
            let value = format!("{{hour:{hour},minute:{minute}}}");
            let templates = [
                "{1} past {0}",
                "{1} minutes past {0}",
                "{1} minutes after {0}",
            ];
            return Said::new(draw, &templates, &[&hour_words, &minutes], value);
        }
    };
    let value = format!("{{hour:{hour},minute:{minute}}}");
    Said::new(draw, templates, &[&hour_words], value)
}

/// One to three fields of any name.
fn fields(draw: &mut Draw) -> Said {
    let n = draw.weighted(&[(3, 1), (3, 2), (1, 3)]);
    let mut keys: Vec<String> = Vec::new();
    let mut phrase: Option<Phrase> = None;
    let mut written = Vec::new();
    while written.len() < n {
        let key = key(draw);
        if keys.contains(&key.value) {
            continue;
        }
        let value = field_value(draw);
        let field = Phrase::say(draw, &["{0} {1}"], &[&key.phrase, &value.phrase]);
        phrase = Some(match phrase {
            Some(before) => Phrase::say(draw, &["{0} and {1}"], &[&before, &field]),
            None => field,
        });
        written.push(format!("{}:{}", key.value, value.value));
        keys.push(key.value);
    }
    let phrase = phrase.unwrap_or_default();
    let templates = ["object with {0}", "an object with {0}", "record with {0}"];
    Said::new(
        draw,
        &templates,
        &[&phrase],
        format!("{{{}}}", written.join(",")),
    )
}

fn field_value(draw: &mut Draw) -> Said {
    match draw.below(10) {
        0..6 => {
            let style = Style::without_and(draw);
            count(draw, style)
        }
        6..8 => flag(draw),
        _ => {
            let word = word(draw);
            Said::new(
                draw,
                &["the word {0}", "text {0}"],
                &[&word.phrase],
                word.value,
            )
        }
    }
}

/// A thing that is open or closed.
fn state(draw: &mut Draw) -> Said {
    let thing = bare_handle(draw);
    let (word, value) = draw.weighted(&[(1, ("open", "TRUE")), (1, ("closed", "FALSE"))]);
    let word = Phrase::content(word);
    let value = format!("{{open:{value}}}");
    let templates = ["{0} that is {1}", "a {0} which is {1}"];
    Said::new(draw, &templates, &[&thing.phrase, &word], value)
}
