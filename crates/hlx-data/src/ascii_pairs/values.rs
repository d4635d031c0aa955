//! Numbers, texts, flags, handles and lists.

use super::draw::Draw;
use super::number::{self, Style, any_number, spoken};
use super::phrase::{Phrase, Said};
use super::words::{capitalised, invented, person, thing, thing_with_quality};

/// A value alone.
pub(super) fn alone(draw: &mut Draw) -> Said {
    Said::any_of(
        draw,
        &[
            (4, number_alone),
            (4, text_alone),
            (1, flag_alone),
            (3, handle_alone),
            (5, list),
        ],
    )
}

fn number_alone(draw: &mut Draw) -> Said {
    let number = any_number(draw);
    let templates = [
        "number {0}",
        "the number {0}",
        "{0}",
        "value {0}",
        "{0} as a number",
    ];
    Said::new(draw, &templates, &[&number.phrase], number.value)
}

/// One to three words in quotes.
pub(super) fn text(draw: &mut Draw) -> Said {
    let mut words = thing_with_quality(draw);
    if draw.percent(20) {
        words.push(thing(draw));
    }
    let text = words.join(" ");
    Said {
        phrase: Phrase::content(&text),
        value: format!("\"{text}\""),
    }
}

/// One word in quotes.
pub(super) fn word(draw: &mut Draw) -> Said {
    let word = thing(draw);
    Said {
        phrase: Phrase::content(&word),
        value: format!("\"{word}\""),
    }
}

/// A name with a capital letter, in quotes.
pub(super) fn name(draw: &mut Draw) -> Said {
    let name = person(draw);
    Said {
        phrase: Phrase::content(&capitalised(&name)),
        value: format!("\"{}\"", capitalised(&name)),
    }
}

fn text_alone(draw: &mut Draw) -> Said {
    match draw.below(10) {
        0 => Said::new(
            draw,
            &[
                "!empty text",
                "text with nothing in it",
                "an empty text",
                "no text",
            ],
            &[],
            "\"\"".to_owned(),
        ),
        1..4 => {
            let word = word(draw);
            let templates = ["the word {0}", "word {0}", "a text of one word {0}"];
            Said::new(draw, &templates, &[&word.phrase], word.value)
        }
        4 => {
            let name = name(draw);
            let templates = ["name {0}", "the name {0}", "a person's name {0}"];
            Said::new(draw, &templates, &[&name.phrase], name.value)
        }
        5 => {
            let digits = (0..2 + draw.below(5)).map(|_| draw.below(10).to_string());
            let digits: String = digits.collect();
            let phrase = Phrase::content(&digits);
            let templates = ["text made of the digits {0}", "the digits {0} as text"];
            Said::new(draw, &templates, &[&phrase], format!("\"{digits}\""))
        }
        _ => {
            let text = text(draw);
            let templates = ["text {0}", "the text {0}", "text saying {0}", "quote {0}"];
            Said::new(draw, &templates, &[&text.phrase], text.value)
        }
    }
}

fn flag_alone(draw: &mut Draw) -> Said {
    if draw.percent(50) {
        let templates = [
            "enable flag",
            "flag !true",
            "flag !on",
            "yes",
            "!true",
            "the flag is !set",
        ];
        Said::new(draw, &templates, &[], "TRUE".to_owned())
    } else {
        let templates = [
            "!disable flag",
            "flag !false",
            "flag !off",
            "!no",
            "!false",
            "the flag is !cleared",
        ];
        Said::new(draw, &templates, &[], "FALSE".to_owned())
    }
}

/// `true` or `false`.
pub(super) fn flag(draw: &mut Draw) -> Said {
    let (word, value) = draw.weighted(&[
        (2, ("true", "TRUE")),
        (2, ("false", "FALSE")),
        (1, ("on", "TRUE")),
        (1, ("off", "FALSE")),
    ]);
    Said {
        phrase: Phrase::content(word),
        value: value.to_owned(),
    }
}

/// What a handle names, without an article.
pub(super) fn bare_handle(draw: &mut Draw) -> Said {
    let words = thing_with_quality(draw);
    Said {
        phrase: Phrase::content(&words.join(" ")),
        value: format!("@{}", words.join("_")),
    }
}

/// What a handle names, as it stands in a sentence.
pub(super) fn handle(draw: &mut Draw) -> Said {
    let bare = bare_handle(draw);
    let templates = ["the {0}", "the {0}", "the {0}", "{0}", "my {0}"];
    Said::new(draw, &templates, &[&bare.phrase], bare.value)
}

fn handle_alone(draw: &mut Draw) -> Said {
    let bare = bare_handle(draw);
    let templates = [
        "handle {0}",
        "handle of the {0}",
        "reference to the {0}",
        "the thing called {0}",
        "pointer to the {0}",
    ];
    Said::new(draw, &templates, &[&bare.phrase], bare.value)
}

/// A list of numbers, words, names or flags.
pub(super) fn list(draw: &mut Draw) -> Said {
    Said::any_of(
        draw,
        &[
            (6, numbers),
            (5, words),
            (2, names),
            (2, flags),
            (1, empty_list),
        ],
    )
}

fn empty_list(draw: &mut Draw) -> Said {
    let templates = [
        "!empty list",
        "list with nothing in it",
        "an empty list",
        "list of no items",
    ];
    Said::new(draw, &templates, &[], "[]".to_owned())
}

/// How many items a list has.
fn length(draw: &mut Draw) -> usize {
    draw.weighted(&[(1, 1), (3, 2), (4, 3), (3, 4), (1, 5)])
}

/// `a b c`, `a, b, c` or `a, b and c`, and `[a,b,c]`.
fn enumerated(draw: &mut Draw, items: &[Said], may_be_bare: bool) -> Said {
    let style = draw.below(if may_be_bare { 3 } else { 2 });
    let mut phrase = items[0].phrase.clone();
    for (at, item) in items.iter().enumerate().skip(1) {
        let template = match style {
            2 => "{0} {1}",
            1 if at + 1 == items.len() => "{0} and {1}",
            _ => "{0}, {1}",
        };
        phrase = Phrase::say(draw, &[template], &[&phrase, &item.phrase]);
    }
    let values: Vec<&str> = items.iter().map(|item| item.value.as_str()).collect();
    Said {
        phrase,
        value: format!("[{}]", values.join(",")),
    }
}

/// Numbers one after another; without commas small ones, which do not run together.
pub(super) fn number_list(draw: &mut Draw) -> Said {
    let n = length(draw);
    if draw.percent(50) {
        let items: Vec<Said> = (0..n).map(|_| small_number(draw)).collect();
        return enumerated(draw, &items, true);
    }
    let style = Style::without_and(draw);
    let items: Vec<Said> = (0..n).map(|_| number::number(draw, style)).collect();
    enumerated(draw, &items, false)
}

/// Zero to twelve, in one word.
fn small_number(draw: &mut Draw) -> Said {
    let n = draw.below(13);
    let style = Style::without_and(draw);
    Said {
        phrase: Phrase::content(&spoken(n, style)),
        value: n.to_string(),
    }
}

fn numbers(draw: &mut Draw) -> Said {
    let list = number_list(draw);
    let templates = [
        "list of numbers {0}",
        "list {0}",
        "a list of the numbers {0}",
        "numbers {0}",
    ];
    Said::new(draw, &templates, &[&list.phrase], list.value)
}

fn words(draw: &mut Draw) -> Said {
    let items: Vec<Said> = (0..length(draw)).map(|_| word(draw)).collect();
    let list = enumerated(draw, &items, true);
    let templates = ["list of words {0}", "a list of the words {0}", "words {0}"];
    Said::new(draw, &templates, &[&list.phrase], list.value)
}

fn names(draw: &mut Draw) -> Said {
    let items: Vec<Said> = (0..length(draw)).map(|_| name(draw)).collect();
    let list = enumerated(draw, &items, true);
    let templates = ["list of names {0}", "names {0}", "a list of the people {0}"];
    Said::new(draw, &templates, &[&list.phrase], list.value)
}

fn flags(draw: &mut Draw) -> Said {
    let items: Vec<Said> = (0..length(draw)).map(|_| flag(draw)).collect();
    let list = enumerated(draw, &items, true);
    let templates = ["list of flags {0}", "flags {0}", "a list of the flags {0}"];
    Said::new(draw, &templates, &[&list.phrase], list.value)
}

/// A key of an object: a letter or a word.
pub(super) fn key(draw: &mut Draw) -> Said {
    let key = match draw.below(4) {
        0 => char::from(b'a' + draw.below(26) as u8).to_string(),
        1 => invented(draw),
        _ => thing(draw),
    };
    Said {
        phrase: Phrase::content(&key),
        value: key,
    }
}
