//! The filters, tests, functions and methods that a template finds: those of `minijinja` that were read for how far
//! a value may grow in them, with the bounds that they lack.
//!
//! The engine charges its steps for every byte and element that it makes ("fuel"), most of them before it makes
//! them. The exceptions are here: what it makes first and charges afterwards, and Python's methods, which it does
//! not charge before. Names that are not listed are unknown, so that those of a later version are read first.

use minijinja::filters;
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, functions};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::bounds::beyond;
use super::names::{
    BOUNDED, COMPARED, FUNCTIONS, LIST_METHODS, MAP_METHODS, STORED, STRING_METHODS, knows_filter,
};
use super::values::{MAX_TEXT_BYTES, Size, bounded, compared, stored};

/// Arguments that `map`, `select` and the like hand on.
const MAX_ARGUMENTS: usize = 16;
/// Blanks of an indentation, and characters that a format may fill up to.
pub const MAX_WIDTH: usize = 1000;

/// Gives an environment the listed names and no others.
pub(super) fn install(environment: &mut Environment<'static>) {
    let unread: Vec<String> = environment
        .globals()
        .map(|(name, _)| name.to_owned())
        .filter(|name| !FUNCTIONS.contains(&name.as_str()))
        .collect();
    unread
        .iter()
        .for_each(|name| environment.remove_global(name));
    environment.add_function("raise_exception", |message: String| {
        Err::<Value, Error>(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("dict", dict);
    environment.add_function("namespace", namespace);
    environment.add_filter(BOUNDED, |state: &State<'_, '_>, value: Value| {
        bounded(state, value)
    });
    environment.add_filter(STORED, |state: &State<'_, '_>, value: Value| {
        stored(state, value)
    });
    environment.add_filter(COMPARED, |state: &State<'_, '_>, value: Value| {
        compared(state, value)
    });
    environment.add_filter("tojson", tojson);
    environment.add_filter("pprint", pprint);
    environment.add_filter("indent", indent);
    environment.add_filter("sum", sum);
    add_mapping(environment);
    environment.set_unknown_method_callback(method);
}

fn dict(state: &State<'_, '_>, value: Option<Value>, update_with: Kwargs) -> Result<Value, Error> {
    stored(state, functions::dict(value, update_with)?)
}

fn namespace(state: &State<'_, '_>, defaults: Option<ValueOrKwargs>) -> Result<Value, Error> {
    let defaults = match defaults {
        Some(defaults) => Some(stored(state, defaults.into_value())?.into()),
        None => None,
    };
    functions::namespace(defaults)
}

/// The engine makes the text first and charges for it afterwards.
fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    indent: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let width = match &indent {
        Some(indent) => Some(indent.clone()),
        None => options.peek::<Option<Value>>("indent").ok().flatten(),
    };
    let width = width.and_then(|width| match bool::try_from(width.clone()) {
        Ok(_) => Some(2),
        Err(_) => usize::try_from(width).ok(),
    });
    laid_out(state, "tojson", value, width.unwrap_or(0))?;
    filters::tojson(value, indent, options)
}

fn pprint(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    laid_out(state, "pprint", value, 4)?;
    Ok(filters::pprint(value))
}

/// Refuses what would be longer than a value may be, each element on a line of its own.
fn laid_out(state: &State<'_, '_>, filter: &str, value: &Value, width: usize) -> Result<(), Error> {
    check_width(filter, width)?;
    let size = Size::of(value)?;
    let blanks = size.elements.saturating_mul(size.depth * width);
    let bytes = blanks.saturating_add(size.bytes);
    if bytes > MAX_TEXT_BYTES {
        return Err(beyond(format!(
            "{filter}: the text would have up to {bytes} bytes; at most {MAX_TEXT_BYTES} are made"
        )));
    }
    // A step for 64 bytes, as the engine counts them.
    state.consume_fuel((size.elements + bytes / 64) as u64)
}

fn check_width(what: &str, width: usize) -> Result<(), Error> {
    match width > MAX_WIDTH {
        true => Err(beyond(format!(
            "{what}: a width of {width}; at most {MAX_WIDTH} is allowed"
        ))),
        false => Ok(()),
    }
}

fn indent(
    state: &State<'_, '_>,
    value: &Value,
    arguments: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let mut all = vec![value.clone()];
    all.extend(arguments.into_values());
    let (text, width, first, blank, options) =
        minijinja::value::from_args::<(&Value, Option<usize>, Option<bool>, Option<bool>, Kwargs)>(
            &all,
        )?;
    let stated = options.peek::<Option<usize>>("width").ok().flatten();
    let blanks = width.or(stated).unwrap_or(4);
    check_width("indent", blanks)?;
    let text = filters::string(state, text)?;
    let lines = text.as_str().map_or(0, |text| text.matches('\n').count()) + 1;
    made("indent", blanks.saturating_mul(lines))?;
    let input = minijinja::value::StringInput::new(state, &text)?;
    filters::indent(input, width, first, blank, options)
}

/// Refuses a text that would be too long.
fn made(what: &str, bytes: usize) -> Result<(), Error> {
    match bytes > MAX_TEXT_BYTES {
        true => Err(beyond(format!(
            "{what}: the text would have {bytes} bytes; at most {MAX_TEXT_BYTES} are made"
        ))),
        false => Ok(()),
    }
}

/// Joining texts one after the other would copy all of them for each.
fn sum(
    state: &State<'_, '_>,
    values: Value,
    attribute: Option<&str>,
    start: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let stated = options.peek::<Option<Value>>("start").ok().flatten();
    if start
        .or(stated)
        .is_some_and(|start| start.as_bytes().is_some())
    {
        return Err(beyond("sum: texts are joined by the filter `join`"));
    }
    filters::sum(state, values, attribute, None, options)
}

/// Filters that call others: a name for each argument would nest these.
fn add_mapping(environment: &mut Environment<'static>) {
    type Arguments = Rest<ValueOrKwargs>;
    fn few(arguments: &Arguments) -> Result<(), Error> {
        match arguments.len() > MAX_ARGUMENTS {
            true => Err(beyond(format!(
                "a filter that calls others takes at most {MAX_ARGUMENTS} arguments"
            ))),
            false => Ok(()),
        }
    }
    type Name = Option<String>;
    environment.add_filter(
        "map",
        |state: &mut State<'_, '_>, values: Value, arguments: Arguments| {
            few(&arguments)?;
            if let Some(name) = arguments.first().and_then(|name| name.as_str())
                && !knows_filter(name)
            {
                return Err(Error::new(ErrorKind::UnknownFilter, name.to_owned()));
            }
            filters::map(state, values, arguments)
        },
    );
    environment.add_filter(
        "select",
        |state: &mut State<'_, '_>, values: Value, test: Name, arguments: Arguments| {
            few(&arguments)?;
            filters::select(state, values, test.map(Into::into), arguments)
        },
    );
    environment.add_filter(
        "reject",
        |state: &mut State<'_, '_>, values: Value, test: Name, arguments: Arguments| {
            few(&arguments)?;
            filters::reject(state, values, test.map(Into::into), arguments)
        },
    );
    environment.add_filter(
        "selectattr",
        |state: &mut State<'_, '_>,
         values: Value,
         key: String,
         test: Name,
         arguments: Arguments| {
            few(&arguments)?;
            filters::selectattr(state, values, key.into(), test.map(Into::into), arguments)
        },
    );
    environment.add_filter(
        "rejectattr",
        |state: &mut State<'_, '_>,
         values: Value,
         key: String,
         test: Name,
         arguments: Arguments| {
            few(&arguments)?;
            filters::rejectattr(state, values, key.into(), test.map(Into::into), arguments)
        },
    );
}

/// Python's methods, whose results are not charged before they are made.
fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    let known = match value.kind() {
        ValueKind::String => STRING_METHODS,
        ValueKind::Map => MAP_METHODS,
        ValueKind::Seq => LIST_METHODS,
        _ => &[],
    };
    if !known.contains(&name) {
        return Err(Error::from(ErrorKind::UnknownMethod));
    }
    if let Some(text) = value.as_str() {
        check_text_method(text, name, arguments)?;
    }
    let result = unknown_method_callback(state, value, name, arguments)?;
    bounded(state, result)
}

fn check_text_method(text: &str, name: &str, arguments: &[Value]) -> Result<(), Error> {
    let argument = |at: usize| {
        arguments
            .get(at)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match name {
        "replace" => {
            let (old, new) = (argument(0), argument(1));
            let count = text.matches(old).count();
            let more = new.len().saturating_sub(old.len());
            made(
                "replace",
                text.len().saturating_add(count.saturating_mul(more)),
            )
        }
        "join" => {
            let size = arguments
                .first()
                .map(Size::of)
                .transpose()?
                .unwrap_or_default();
            made(
                "join",
                size.bytes
                    .saturating_add(size.elements.saturating_mul(text.len())),
            )
        }
        // Widths and precisions are the only numbers of a format besides the places of its arguments.
        "format" => {
            let number = |digits: &str| digits.parse().unwrap_or(usize::MAX);
            let numbers = text.split(|char: char| !char.is_ascii_digit());
            let widest = numbers
                .filter(|digits| !digits.is_empty())
                .map(number)
                .max();
            check_width("format", widest.unwrap_or(0))?;
            let size = arguments
                .iter()
                .map(Size::of)
                .collect::<Result<Vec<_>, _>>()?;
            let longest: usize = size.iter().map(|size| size.bytes + 8 * size.elements).sum();
            made(
                "format",
                longest
                    .saturating_mul(text.matches('{').count())
                    .saturating_add(text.len()),
            )
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::names::{BOUNDED_FILTERS, FILTERS, TESTS};
    use super::*;
    use crate::{ChatTemplate, Message};

    fn rendered(source: &str) -> Result<String, String> {
        let template = ChatTemplate::new(source, "", "").map_err(|error| error.to_string())?;
        let text = template.render(&[Message::new("user", "hi")], false);
        text.map_err(|error| error.to_string())
    }

    fn all() -> Vec<(&'static str, &'static str)> {
        let kinds = [
            ("filter", FILTERS),
            ("filter", BOUNDED_FILTERS),
            ("test", TESTS),
            ("function", FUNCTIONS),
            ("method", STRING_METHODS),
            ("method", MAP_METHODS),
            ("method", LIST_METHODS),
        ];
        let named = |(kind, names): (&'static str, &'static [&'static str])| {
            names.iter().map(move |name| (kind, *name))
        };
        let all = kinds.into_iter().flat_map(named);
        all.filter(|(_, name)| !name.starts_with("hlx_") && !name.contains(['<', '=', '>']))
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
        // The engine has these, and nobody has read what they do to memory.
        let mut environment = Environment::new();
        install(&mut environment);
        let globals = environment.globals().map(|(name, _)| name.to_owned());
        let mut globals: Vec<String> = globals.collect();
        globals.sort();
        assert_eq!(globals, FUNCTIONS);
        assert!(rendered("{{ debug() }}").is_err_and(|line| line.contains("unknown")));
        assert!(rendered("{{ 1 | urlize }}").is_err_and(|line| line.contains("unknown")));
        assert!(
            rendered("{{ [1] | map('urlize') | list }}")
                .is_err_and(|line| line.contains("unknown"))
        );
        assert!(rendered("{{ 1 is such }}").is_err_and(|line| line.contains("unknown")));
        assert!(rendered("{{ 'a'.center(9) }}").is_err_and(|line| line.contains("unknown")));
    }
}
