//! The names that templates may call: those of `minijinja` whose code was read for how large a value they make.

/// The names under which the bounds are filters; templates of others may not have them.
pub(super) const BOUNDED: &str = "hlx_bounded";
pub(super) const STORED: &str = "hlx_stored";
pub(super) const COMPARED: &str = "hlx_compared";

/// Filters of the engine that charge before they make a value, or make none that is larger than what they get.
pub(super) const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "max",
    "min",
    "replace",
    "reverse",
    "round",
    "safe",
    "slice",
    "sort",
    "split",
    "string",
    "title",
    "trim",
    "unique",
    "upper",
    "zip",
];
/// Filters that have bounds of HLX.
pub(super) const BOUNDED_FILTERS: &[&str] = &[
    "indent",
    "map",
    "pprint",
    "reject",
    "rejectattr",
    "select",
    "selectattr",
    "sum",
    "tojson",
    BOUNDED,
    STORED,
    COMPARED,
];
/// Tests of the engine, which make no values.
pub(super) const TESTS: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
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
    "int",
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
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];
/// Functions: `range` has its own bound of 100,000 numbers.
pub(super) const FUNCTIONS: &[&str] = &["dict", "namespace", "raise_exception", "range"];
/// Python's methods of strings.
pub(super) const STRING_METHODS: &[&str] = &[
    "capitalize",
    "count",
    "endswith",
    "find",
    "format",
    "isalnum",
    "isalpha",
    "isascii",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "isupper",
    "join",
    "lower",
    "lstrip",
    "replace",
    "rfind",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "title",
    "upper",
];
/// Python's methods of dictionaries.
pub(super) const MAP_METHODS: &[&str] = &["get", "items", "keys", "values"];
/// Python's methods of lists.
pub(super) const LIST_METHODS: &[&str] = &["count"];

/// Whether templates may call a filter.
pub(super) fn knows_filter(name: &str) -> bool {
    FILTERS.contains(&name) || BOUNDED_FILTERS.contains(&name)
}
