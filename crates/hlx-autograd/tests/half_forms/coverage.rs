//! Every method has a row, and every option at least two values in its rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::row::Row;
use crate::surface::{Argument, methods, parts_of_types};
use crate::{all_rows, refused};

/// Options that no row can vary, with the reason.
const FIXED: [(&str, &str); 4] = [
    ("conv_transpose1d", "same"), // For convolutions forward.
    ("conv_transpose2d", "same"),
    ("avg_pool2d", "dilation"),      // 1 for averages.
    ("nll_loss", "label_smoothing"), // Not for it.
];

/// Methods whose rows are made from the lists of operations.
const OF_LISTS: [&str; 2] = ["unary", "binary"];

/// What of an argument the rows do not vary.
fn unvaried(
    method: &str,
    argument: &Argument,
    texts: &BTreeSet<String>,
    types: &[(String, Vec<String>)],
) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let words = texts.iter().flat_map(|text| text.split(|c| !is_part(c)));
    let words: BTreeSet<&str> = words.collect();
    let bare = argument
        .of_type
        .trim_start_matches('&')
        .trim_start_matches('[');
    let bare = bare.split(['<', ']']).next().unwrap_or_default();
    let mut missing = Vec::new();
    if argument.is_optional() {
        let forms = ["None", "Some"].into_iter();
        missing.extend(
            forms
                .filter(|form| !words.contains(form))
                .map(str::to_owned),
        );
    }
    if let Some((_, parts)) = types.iter().find(|(name, _)| name == bare) {
        let is_fixed = |part: &String| FIXED.contains(&(method, part.as_str()));
        let parts = parts.iter().filter(|part| !is_fixed(part));
        missing.extend(parts.filter(|part| !words.contains(part.as_str())).cloned());
    }
    let is_option = !argument.is_tensor() || argument.of_type == "implOperand";
    if is_option && texts.len() < 2 {
        missing.push("a second value".to_owned());
    }
    missing
}

#[test]
fn every_method_has_a_row_and_every_option_two_values() {
    let mut rows: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in all_rows() {
        rows.entry(row.method).or_default().push(row);
    }
    let refused: BTreeSet<&str> = refused::refused().iter().map(|row| row.method).collect();
    let without = refused::NO_OPERATIONS
        .iter()
        .flat_map(|(_, names)| names.iter().copied());
    let without: Vec<&str> = without.chain(refused::OF_INTEGERS).collect();
    let (methods, types) = (methods(), parts_of_types());
    let mut wrong = Vec::new();
    for method in &methods {
        let name = method.name.as_str();
        let places = [
            rows.contains_key(name),
            refused.contains(name),
            without.contains(&name),
        ];
        let count = places.iter().filter(|is_there| **is_there).count();
        if count != 1 && !OF_LISTS.contains(&name) {
            wrong.push(format!("{name} is in {count} tables, expected one"));
        }
        let Some(rows) = rows.get(name).filter(|_| !OF_LISTS.contains(&name)) else {
            continue;
        };
        for (at, argument) in method.arguments.iter().enumerate() {
            let texts = rows
                .iter()
                .filter_map(|row| row.arguments.get(at).cloned())
                .collect();
            for missing in unvaried(name, argument, &texts, &types) {
                wrong.push(format!(
                    "{name}: no row has {missing} for `{}`",
                    argument.name
                ));
            }
        }
    }
    let is_method = |name: &str| methods.iter().any(|method| method.name == name);
    let named = rows.keys().copied().chain(refused).chain(without);
    wrong.extend(
        named
            .filter(|name| !is_method(name))
            .map(|name| format!("{name} is no method")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
