//! Contracts: literals, settings, comparisons, ranges and deeds.

use super::draw::Draw;
use super::number::{Style, any_number, number, size, whole};
use super::phrase::{Phrase, Said};
use super::values::{bare_handle, flag, handle, name, number_list, word};

/// A contract.
pub(super) fn contract(draw: &mut Draw) -> Said {
    Said::any_of(
        draw,
        &[
            (1, literal),
            (4, setting),
            (4, comparison),
            (2, range),
            (9, deed),
        ],
    )
}

fn literal(draw: &mut Draw) -> Said {
    let said = match draw.below(6) {
        0 => Said {
            phrase: Phrase::content("null"),
            value: "NULL".to_owned(),
        },
        1 => flag(draw),
        _ => any_number(draw),
    };
    let value = format!("{{C:21,0={}}}", said.value);
    let templates = ["{0} literal", "literal {0}", "the literal {0}"];
    Said::new(draw, &templates, &[&said.phrase], value)
}

fn setting(draw: &mut Draw) -> Said {
    let target = handle(draw);
    let new = match draw.below(10) {
        0..5 => any_number(draw),
        5..7 => flag(draw),
        7 => number_list(draw),
        _ => {
            let word = word(draw);
            Said::new(
                draw,
                &["the word {0}", "text {0}"],
                &[&word.phrase],
                word.value,
            )
        }
    };
    let value = format!("{{C:30,0={},1={}}}", target.value, new.value);
    let templates = [
        "set {0} to {1}",
        "change {0} to {1}",
        "make {0} equal to {1}",
        "let {0} be {1}",
    ];
    Said::new(draw, &templates, &[&target.phrase, &new.phrase], value)
}

fn comparison(draw: &mut Draw) -> Said {
    let thing = bare_handle(draw);
    let (sign, templates) = draw.weighted::<(&str, &[&str])>(&[
        (
            1,
            (
                ">",
                &[
                    "{0} !over {1}",
                    "{0} is !greater than {1}",
                    "{0} !above {1}",
                    "{0} !more than {1}",
                ],
            ),
        ),
        (
            1,
            (
                "<",
                &[
                    "{0} !under {1}",
                    "{0} is !less than {1}",
                    "{0} !below {1}",
                    "{0} !smaller than {1}",
                ],
            ),
        ),
        (1, (">=", &["{0} at !least {1}", "{0} is {1} or !more"])),
        (1, ("<=", &["{0} at !most {1}", "{0} is {1} or !less"])),
        (
            1,
            (
                "=",
                &[
                    "{0} !equals {1}",
                    "{0} is !equal to {1}",
                    "{0} is !exactly {1}",
                ],
            ),
        ),
        (
            1,
            (
                "!=",
                &[
                    "{0} is !not {1}",
                    "{0} is !different from {1}",
                    "{0} does !not equal {1}",
                ],
            ),
        ),
    ]);
    let than = any_number(draw);
    let value = format!("{{C:40,0=\"{sign}\",1={},2={}}}", thing.value, than.value);
    Said::new(draw, templates, &[&thing.phrase, &than.phrase], value)
}

fn range(draw: &mut Draw) -> Said {
    let style = Style::without_and(draw);
    let (first, last) = (number(draw, style), number(draw, style));
    let value = format!("{{C:50,0={},1={}}}", first.value, last.value);
    let templates = [
        "range from {0} to {1}",
        "from {0} to {1}",
        "range between {0} and {1}",
    ];
    Said::new(draw, &templates, &[&first.phrase, &last.phrase], value)
}

/// Verbs that act on one thing.
const VERBS: &[&str] = &[
    "open", "close", "delete", "save", "play", "load", "feed", "clean", "start", "stop", "show",
    "hide", "read", "write", "lock", "unlock", "paint", "wash", "check", "count", "empty", "fill",
    "find", "fold", "lift", "merge", "pause", "print", "push", "pull", "repair", "reset", "scan",
    "send", "share", "sort", "split", "test", "turn", "update", "upload", "visit", "water", "zoom",
];

/// Something to do.
fn deed(draw: &mut Draw) -> Said {
    let said = Said::any_of(
        draw,
        &[
            (5, on_a_thing),
            (2, search),
            (1, sort_by),
            (2, carry_to),
            (1, rename),
            (1, copies),
            (2, add_or_remove),
        ],
    );
    if !draw.percent(8) {
        return said;
    }
    Said::new(
        draw,
        &["please {0}", "{0} please"],
        &[&said.phrase],
        said.value,
    )
}

fn written(verb: &str, thing: &str, with: Option<&str>) -> String {
    let with = with.map_or_else(String::new, |with| format!(",2={with}"));
    format!("{{C:1000,0=\"{verb}\",1={thing}{with}}}")
}

fn on_a_thing(draw: &mut Draw) -> Said {
    let (verb, thing) = (draw.one(VERBS), handle(draw));
    let value = written(verb, &thing.value, None);
    Said::new(
        draw,
        &["{0} {1}"],
        &[&Phrase::content(verb), &thing.phrase],
        value,
    )
}

fn search(draw: &mut Draw) -> Said {
    if draw.percent(40) {
        let thing = bare_handle(draw);
        let value = written("search", &thing.value, None);
        let templates = ["!search for {0}", "!look for {0}", "!search for the {0}"];
        return Said::new(draw, &templates, &[&thing.phrase], value);
    }
    let (place, what) = (handle(draw), word(draw));
    let value = written("search", &place.value, Some(&what.value));
    let templates = ["!search {0} for {1}", "!look in {0} for {1}"];
    Said::new(draw, &templates, &[&place.phrase, &what.phrase], value)
}

fn sort_by(draw: &mut Draw) -> Said {
    let (thing, key) = (handle(draw), word(draw));
    let (verb, templates) = draw.weighted::<(&str, &[&str])>(&[
        (1, ("sort", &["!sort {0} by {1}", "!order {0} by {1}"])),
        (1, ("group", &["!group {0} by {1}"])),
    ]);
    let value = written(verb, &thing.value, Some(&key.value));
    Said::new(draw, templates, &[&thing.phrase, &key.phrase], value)
}

fn carry_to(draw: &mut Draw) -> Said {
    let (thing, place) = (handle(draw), handle(draw));
    let verb = draw.one(&["copy", "move", "send", "bring", "link"]);
    let value = written(verb, &thing.value, Some(&place.value));
    let parts = [&Phrase::content(verb), &thing.phrase, &place.phrase];
    Said::new(
        draw,
        &["{0} {1} to {2}", "{0} {1} !over to {2}"],
        &parts,
        value,
    )
}

fn rename(draw: &mut Draw) -> Said {
    let (thing, new) = (handle(draw), name(draw));
    let value = written("rename", &thing.value, Some(&new.value));
    let templates = [
        "!rename {0} to {1}",
        "!call {0} {1} from now on",
        "give {0} the !name {1}",
    ];
    Said::new(draw, &templates, &[&thing.phrase, &new.phrase], value)
}

fn copies(draw: &mut Draw) -> Said {
    let n = 2 + size(draw);
    let style = Style::without_and(draw);
    let (thing, n) = (handle(draw), whole(draw, n, style));
    let verb = draw.one(&["print", "make", "order"]);
    let value = written(verb, &thing.value, Some(&n.value));
    let parts = [&Phrase::content(verb), &n.phrase, &thing.phrase];
    Said::new(draw, &["{0} {1} copies of {2}"], &parts, value)
}

fn add_or_remove(draw: &mut Draw) -> Said {
    let (thing, place) = (word(draw), handle(draw));
    let (verb, templates) = draw.weighted::<(&str, &[&str])>(&[
        (1, ("add", &["!add {0} to {1}", "!put {0} into {1}"])),
        (
            1,
            ("remove", &["!remove {0} from {1}", "!take {0} out of {1}"]),
        ),
    ]);
    let value = written(verb, &place.value, Some(&thing.value));
    Said::new(draw, templates, &[&thing.phrase, &place.phrase], value)
}
