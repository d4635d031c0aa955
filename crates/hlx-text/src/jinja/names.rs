//! The names that templates find: those of Jinja and Python whose code here bounds what they make.

use super::value::Value;

/// Filters.
pub(crate) const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "wordcount",
    "xmlattr",
];
/// Filters of Jinja that are refused: they draw, read HTML, or wrap lines.
pub(crate) const REFUSED_FILTERS: &[&str] = &["random", "striptags", "urlize", "wordwrap"];
/// Tests.
pub(crate) const TESTS: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];
/// Functions.
pub(crate) const FUNCTIONS: &[&str] = &[
    "cycler",
    "dict",
    "joiner",
    "namespace",
    "raise_exception",
    "range",
    "strftime_now",
];
/// Methods of texts.
pub(crate) const TEXT_METHODS: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];
/// Methods of dictionaries.
pub(crate) const MAP_METHODS: &[&str] = &["copy", "fromkeys", "get", "items", "keys", "values"];
/// Methods of lists.
pub(crate) const LIST_METHODS: &[&str] = &["copy", "count", "index"];
const TUPLE_METHODS: &[&str] = &["count", "index"];
const LOOP_METHODS: &[&str] = &["changed", "cycle"];
const CYCLER_METHODS: &[&str] = &["next", "reset"];
const FLOAT_METHODS: &[&str] = &["is_integer"];
const INT_METHODS: &[&str] = &["bit_length"];

/// The methods of a value.
pub(crate) fn methods(value: &Value) -> &'static [&'static str] {
    match value {
        Value::Text(..) => TEXT_METHODS,
        Value::Map(_) => MAP_METHODS,
        Value::List(_) => LIST_METHODS,
        Value::Tuple(_) | Value::Range(..) | Value::Group(_) => TUPLE_METHODS,
        Value::Loop(_) => LOOP_METHODS,
        Value::Counter(_) => CYCLER_METHODS,
        Value::Float(_) => FLOAT_METHODS,
        Value::Int(_) | Value::Bool(_) => INT_METHODS,
        Value::Function("dict") => &["fromkeys"],
        _ => &[],
    }
}

/// The methods of Python that change a value, and those of texts that HLX does not have.
pub(crate) fn changing(value: &Value) -> &'static [&'static str] {
    match value {
        Value::Map(_) => &["clear", "pop", "popitem", "setdefault", "update"],
        Value::List(_) => &[
            "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort",
        ],
        Value::Text(..) => &["encode", "format_map", "maketrans", "translate"],
        _ => &[],
    }
}
