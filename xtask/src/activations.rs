//! Both sides of the activations, GLSL and Rust, from the one table of their kinds.

use std::fmt::Write as _;
use std::path::Path;

use crate::constants::write_or_compare;
use crate::table;

const TABLE: &str = "shaders/include/activations.txt";
const RUST: &str = "crates/hlx-kernels/src/activation/kinds.rs";

/// One line of the table.
struct Kind {
    name: String,
    variant: String,
    documentation: String,
}

/// Writes the Rust file from the table under `root`; with `check`, only compares it with what would be written.
///
/// Errors name the file and line of a malformed kind, or the file that is out of date.
pub fn generate(root: &Path, check: bool) -> Result<(), String> {
    let kinds = table::read(root, TABLE, parse)?;
    write_or_compare(root, RUST, &rust(&kinds), check)
}

/// The sources of the shaders of every kind, by name.
///
/// Errors name the file and line of a malformed kind.
pub fn sources(root: &Path) -> Result<Vec<(String, String)>, String> {
    let kinds = table::read(root, TABLE, parse)?.into_iter();
    let both = kinds.flat_map(|Kind { name, .. }| {
        let sources = [("forward", forward(&name)), ("backward", backward(&name))];
        sources.map(|(direction, source)| (format!("activation/{name}_{direction}"), source))
    });
    Ok(both.collect())
}

/// Reads `NAME Kind documentation`.
fn parse(line: &str) -> Option<Kind> {
    let mut words = line.splitn(3, ' ').map(str::to_owned);
    let (name, variant, documentation) = (words.next()?, words.next()?, words.next()?);
    let snake = |c: char| c.is_ascii_lowercase() || c == '_';
    let camel = variant.starts_with(|c: char| c.is_ascii_uppercase());
    (name.chars().all(snake) && camel).then_some(Kind {
        name,
        variant,
        documentation,
    })
}

/// The text of the include `activation_kinds.glsl`: the functions that the constant KIND picks; a kind that is none gives NaN.
/// A shader includes activation.glsl and declares KIND first.
///
/// Errors name the file and line of a malformed kind.
pub fn glsl(root: &Path) -> Result<String, String> {
    Ok(choice(&table::read(root, TABLE, parse)?))
}

fn choice(kinds: &[Kind]) -> String {
    let mut text = String::new();
    for (direction, parameters, arguments) in [
        ("forward", "float x", "x"),
        ("backward", "float x, float dy", "x, dy"),
    ] {
        let _ = writeln!(text, "\nfloat activation_{direction}({parameters}) {{");
        for (id, Kind { name, .. }) in kinds.iter().enumerate() {
            let _ = writeln!(
                text,
                "    if (KIND == {id}u) return {name}_{direction}({arguments});"
            );
        }
        text.push_str("    return uintBitsToFloat(HLX_NAN);\n}\n");
    }
    text
}

fn forward(name: &str) -> String {
    comp(
        "y = f(x)",
        name,
        "",
        &format!("float apply(float x) {{ return {name}_forward(x); }}"),
    )
}

fn backward(name: &str) -> String {
    let apply = format!("float apply(float x, float dy) {{ return {name}_backward(x, dy); }}");
    comp("dx = dy f'(x)", name, "#define HLX_BINARY\n", &apply)
}

fn comp(formula: &str, name: &str, define: &str, apply: &str) -> String {
    format!(
        "// {formula} of {name}: see include/activation.glsl.\n\
         #include \"activation.glsl\"\n\
         {define}#include \"map.glsl\"\n\n\
         {apply}\n"
    )
}

/// The kinds as a macro that calls another with the list, and the modules of their shaders.
fn rust(kinds: &[Kind]) -> String {
    let mut text = String::from(
        "//! The kinds of activation, written by `cargo xtask shaders` from\n\
         //! `shaders/include/activations.txt`.\n\n",
    );
    let both = |kind: &Kind| ["forward", "backward"].map(|of| format!("{}_{of}", kind.name));
    let modules: Vec<String> = kinds.iter().flat_map(both).collect();
    text += &table::shaders("activation", &modules);
    text.push_str(
        "\n/// Calls `each!` with a line for every kind: its documentation, name, variant, and formulas, which\n\
         /// are also the names of the shaders.\n#[doc(hidden)] // For the methods of tensors in hlx-autograd.\n\
         #[macro_export]\nmacro_rules! for_each_activation {\n    ($each:ident) => {\n        $each! {\n",
    );
    for Kind {
        name,
        variant,
        documentation,
    } in kinds
    {
        let _ = writeln!(text, "            /// {documentation}");
        let _ = writeln!(
            text,
            "            {name} {variant} {name}_forward {name}_backward;"
        );
    }
    text.push_str("        }\n    };\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_none_is_nan() {
        let kinds = ["gelu GELU Computes it.", "tanh Tanh Computes it."]
            .map(|line| parse(line).expect("a kind"));
        let text = choice(&kinds);
        assert!(text.contains(
            "if (KIND == 1u) return tanh_backward(x, dy);\n    return uintBitsToFloat(HLX_NAN);"
        ));
        assert_eq!(text.matches("HLX_NAN").count(), 2);
    }

    #[test]
    fn malformed_kinds_are_refused() {
        for line in [
            "gelu GELU",
            "GELU gelu text",
            "ge-lu GELU text",
            "gelu gelu text",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
    }
}
