//! The kernels of the unary and binary operations, GLSL and Rust, each family from its table.

use std::fmt::Write as _;
use std::path::Path;

use crate::constants::write_or_compare;
use crate::table;

/// A family: the operations of one number of operands.
struct Family {
    /// Its name in paths, and the enum's.
    name: &'static str,
    kind: &'static str,
    operands: &'static [&'static str],
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "unary",
        kind: "Unary",
        operands: &["x"],
    },
    Family {
        name: "binary",
        kind: "Binary",
        operands: &["a", "b"],
    },
];

/// The compute types: in names of formulas, in shaders, and how a word becomes a value of one.
const TYPES: [(&str, &str, &str); 3] = [
    ("f32", "HLX_F32", "uintBitsToFloat"),
    ("i32", "HLX_I32", "int"),
    ("u32", "HLX_U32", "uint"),
];

/// One line of a table.
struct Operation {
    name: String,
    variant: String,
    file: String,
    /// Whether the result is a truth value.
    is_bool: bool,
    /// Whether the formula takes the two parameters.
    has_parameters: bool,
    /// The names of the formulas for f32, i32 and u32.
    formulas: [Option<String>; 3],
    documentation: String,
}

/// The sources of both families' shaders, by name.
///
/// Errors name the file and line of a malformed operation.
pub fn sources(root: &Path) -> Result<Vec<(String, String)>, String> {
    let mut sources = Vec::new();
    for family in &FAMILIES {
        let operations = table::read(root, &family.table(), parse)?.into_iter();
        sources.extend(operations.map(|operation| {
            let name = format!("{}/{}", family.name, operation.name);
            (name, family.comp(&operation))
        }));
    }
    Ok(sources)
}

/// Writes the Rust files of both families under `root`; with `check`, only compares them with what
/// would be written.
///
/// Errors name the file and line of a malformed operation, or the file that is out of date.
pub fn generate(root: &Path, check: bool) -> Result<(), String> {
    for family in &FAMILIES {
        let operations = table::read(root, &family.table(), parse)?;
        let name = family.name;
        let file = format!("crates/hlx-kernels/src/elementwise/{name}/kinds.rs");
        write_or_compare(root, &file, &family.rust(&operations), check)?;
    }
    Ok(())
}

/// Reads `NAME Kind FILE TYPES documentation`.
fn parse(line: &str) -> Option<Operation> {
    let mut words = line.splitn(5, ' ').map(str::to_owned);
    let (name, variant, file) = (words.next()?, words.next()?, words.next()?);
    let (types, documentation) = (words.next()?, words.next()?);
    let snake = |text: &str| {
        let mut rest = text.chars();
        let first = rest.next().is_some_and(|c| c.is_ascii_lowercase());
        first && rest.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let camel = variant.starts_with(|c: char| c.is_ascii_uppercase());
    let (flag, types) = types.split_once(':').unwrap_or(("", &types));
    let known = types
        .split(',')
        .all(|name| ["f32", "i32", "u32", "int"].contains(&name));
    let named = file.strip_prefix('=');
    let known = known && (named.is_none() || (flag, types) == ("", "f32"));
    let snake = snake(&name) && snake(named.unwrap_or(&file));
    if !(snake && camel && known && ["", "bool", "with"].contains(&flag)) {
        return None;
    }
    let has = |wanted: &str| types.split(',').any(|found| found == wanted);
    let formula = |(compute, ..): (&str, &str, &str)| match compute {
        compute if has(compute) => Some(format!("{name}_{compute}")),
        "i32" | "u32" if has("int") => Some(format!("{name}_int")),
        _ => None,
    };
    Some(Operation {
        formulas: TYPES.map(formula),
        is_bool: flag == "bool",
        has_parameters: flag == "with",
        name,
        variant,
        file,
        documentation,
    })
}

impl Family {
    fn table(&self) -> String {
        format!("shaders/include/{}.txt", self.name)
    }

    /// The shader of an operation: words become values of the compute type, and the result a word.
    fn comp(&self, operation: &Operation) -> String {
        let (name, file) = (&operation.name, &operation.file);
        let (family, count) = (self.name, self.operands.len());
        let parameters: Vec<String> = self.operands.iter().map(|x| format!("uint {x}")).collect();
        let (include, formula) = match file.strip_prefix('=') {
            Some(file) => (file.to_owned(), self.named_formula(name)),
            None => (format!("{family}/{file}"), String::new()),
        };
        let mut text = format!(
            "#define HLX_OPERANDS {count}\n\
             #include \"elements.glsl\"\n\
             #include \"{include}.glsl\"\n\n\
             {formula}uint apply({}) {{\n",
            parameters.join(", ")
        );
        let formulas: Vec<_> = TYPES.iter().zip(&operation.formulas).collect();
        let last = formulas.iter().rposition(|(_, formula)| formula.is_some());
        for (place, ((_, compute, value), formula)) in formulas.into_iter().enumerate() {
            let Some(formula) = formula else { continue };
            let condition = match last == Some(place) {
                true => String::new(),
                false => format!("if (COMPUTE == {compute}) "),
            };
            let mut arguments: Vec<String> = self
                .operands
                .iter()
                .map(|x| format!("{value}({x})"))
                .collect();
            if operation.has_parameters {
                arguments.extend([0, 1].map(|p| format!("{value}(push.parameters[{p}])")));
            }
            let word = match *compute == "HLX_F32" && !operation.is_bool {
                true => "floatBitsToUint",
                false => "uint",
            };
            let call = format!("{formula}({})", arguments.join(", "));
            let _ = writeln!(text, "    {condition}return {word}({call});");
        }
        text + "}\n"
    }

    /// The formula of an operation that is a function of HLX's arithmetic.
    fn named_formula(&self, name: &str) -> String {
        let parameters: Vec<String> = self.operands.iter().map(|x| format!("float {x}")).collect();
        let (parameters, arguments) = (parameters.join(", "), self.operands.join(", "));
        format!("float {name}_f32({parameters}) {{ return hlx_{name}({arguments}); }}\n\n")
    }

    /// The operations as a macro that calls another with the list, and the modules of their shaders.
    fn rust(&self, operations: &[Operation]) -> String {
        let Self { name, kind, .. } = self;
        let table = self.table();
        let mut text = format!(
            "//! The {name} operations, written by `cargo xtask shaders` from\n//! `{table}`.\n\n"
        );
        let modules: Vec<String> = operations
            .iter()
            .map(|operation| operation.name.clone())
            .collect();
        text += &table::shaders(name, &modules);
        let _ = write!(
            text,
            "\n/// Calls `each!` with what comes behind it and a line for every [`{kind}`](super::{kind}): its documentation, name,\n\
             /// variant, whether the result is a truth value, and its formulas by compute type.\n\
             #[doc(hidden)] // For the methods of tensors in hlx-autograd.\n\
             #[macro_export]\nmacro_rules! for_each_{name} {{\n    ($each:ident $($head:tt)*) => {{\n        $each! {{\n            $($head)*\n"
        );
        for operation in operations {
            let _ = writeln!(text, "            /// {}", operation.documentation);
            let with = if operation.has_parameters {
                " with"
            } else {
                ""
            };
            let formulas = operation.formulas.iter().map(|formula| match formula {
                Some(formula) => format!("[{formula}{with}]"),
                None => "[]".to_owned(),
            });
            let formulas: Vec<String> = formulas.collect();
            let Operation {
                name,
                variant,
                is_bool,
                ..
            } = operation;
            let formulas = formulas.join(" ");
            let _ = writeln!(text, "            {name} {variant} {is_bool} {formulas};");
        }
        text.push_str("        }\n    };\n}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_formula_needs_no_condition() {
        let line = "clamp Clamp simple with:f32,int Computes it.";
        let operation = parse(line).expect("an operation");
        let text = FAMILIES[0].comp(&operation);
        let calls = "    if (COMPUTE == HLX_F32) return floatBitsToUint(clamp_f32(uintBitsToFloat(x), \
                     uintBitsToFloat(push.parameters[0]), uintBitsToFloat(push.parameters[1])));\n    \
                     if (COMPUTE == HLX_I32) return uint(clamp_int(int(x), int(push.parameters[0]), \
                     int(push.parameters[1])));\n    \
                     return uint(clamp_int(uint(x), uint(push.parameters[0]), uint(push.parameters[1])));\n";
        assert!(text.contains(calls), "{text}");
        let exp = parse("exp Exp =math f32 Computes it.").expect("an operation");
        assert!(FAMILIES[0].comp(&exp).contains(
            "#include \"math.glsl\"\n\nfloat exp_f32(float x) { return hlx_exp(x); }\n\nuint apply("
        ));
        let equal = parse("eq Eq compare bool:f32 Tells it.").expect("an operation");
        assert!(FAMILIES[1].comp(&equal).contains(
            "uint apply(uint a, uint b) {\n    return uint(eq_f32(uintBitsToFloat(a), uintBitsToFloat(b)));\n}"
        ));
    }

    #[test]
    fn malformed_operations_are_refused() {
        for line in [
            "neg Neg simple f32",
            "Neg Neg simple f32 text",
            "neg neg simple f32 text",
            "neg Neg simple f64 text",
            "neg Neg simple int: text",
            "neg Neg =math f32,int text",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
    }
}
