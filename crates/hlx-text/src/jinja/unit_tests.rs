//! The engine by itself: every name that templates find ends soon, whatever it is given.

use std::time::{Duration, Instant};

use super::names::{
    FILTERS, FUNCTIONS, LIST_METHODS, MAP_METHODS, REFUSED_FILTERS, TESTS, TEXT_METHODS,
};
use super::{Date, Template};

fn rendered(source: &str) -> Result<String, String> {
    let template = Template::new(source).map_err(|error| error.to_string())?;
    let text = template.render(Vec::new(), &Date::FIXED, None);
    text.map(|rendered| rendered.text)
        .map_err(|error| error.to_string())
}

fn all() -> Vec<(&'static str, &'static str)> {
    let kinds = [
        ("filter", FILTERS),
        ("test", TESTS),
        ("function", FUNCTIONS),
        ("method", TEXT_METHODS),
        ("method", MAP_METHODS),
        ("method", LIST_METHODS),
    ];
    let named = |(kind, names): (&'static str, &'static [&'static str])| {
        names.iter().map(move |name| (kind, *name))
    };
    let all = kinds.into_iter().flat_map(named);
    all.filter(|(_, name)| !name.contains(['<', '=', '>']))
        .collect()
}

fn call(kind: &str, name: &str, value: &str, arguments: &str) -> String {
    match kind {
        "filter" => format!("{{{{ ({value}) | {name}({arguments}) }}}}"),
        "test" => format!("{{{{ ({value}) is {name}({arguments}) }}}}"),
        "function" => format!("{{{{ {name}({arguments}) }}}}"),
        _ => format!("{{{{ ({value}).{name}({arguments}) }}}}"),
    }
}

#[test]
fn every_name_is_known_and_ends_soon_on_large_arguments() {
    let values = [
        "'a' * 10000",
        "[1] * 10000",
        "{'a': [1] * 1000}",
        "1e300",
        "9999999999",
    ];
    let arguments = [
        "",
        "9999999999",
        "'a' * 1000",
        "'a', 'b' * 1000",
        "9999999999, 'a'",
        "-1",
        "[1] * 1000",
    ];
    for (kind, name) in all() {
        let mut n_known = 0;
        for value in values {
            for argument in arguments {
                let begun = Instant::now();
                let result = rendered(&call(kind, name, value, argument));
                let place = format!("{name} {value} {argument}: {result:.200?}");
                assert!(begun.elapsed() < Duration::from_secs(60), "{place}");
                n_known += usize::from(!result.is_err_and(|line| line.contains("unknown")));
            }
        }
        assert!(n_known > 0, "{kind} {name}");
    }
}

#[test]
fn names_that_are_not_listed_are_unknown() {
    let unknown = [
        "{{ debug() }}",
        "{{ lipsum() }}",
        "{{ 1 | split }}",
        "{{ [1] | map('split') | list }}",
        "{{ 1 is such }}",
        "{{ [1] | select('such') | list }}",
        "{{ 'a'.encode() }}",
        "{{ [].append(1) }}",
    ];
    for source in unknown {
        let line = rendered(source).expect_err(source);
        let said = ["unknown", "not known", "cannot"];
        assert!(said.iter().any(|word| line.contains(word)), "{line}");
    }
    for name in REFUSED_FILTERS {
        let line = rendered(&format!("{{{{ 'a' | {name} }}}}")).expect_err(name);
        assert!(line.contains("not known to HLX"), "{line}");
    }
}
