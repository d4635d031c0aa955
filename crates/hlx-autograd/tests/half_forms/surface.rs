//! The public methods of `Tensor`, and the fields and variants of their options, read from the sources.

use std::path::{Path, PathBuf};

use hlx_autograd::{Activation, Binary};

/// A public method with its arguments, without `self`.
pub struct Method {
    pub name: String,
    pub arguments: Vec<Argument>,
}

/// An argument of a method.
pub struct Argument {
    pub name: String,
    /// The type, without white space.
    pub of_type: String,
}

impl Argument {
    /// Whether it is a tensor, or tensors: what the 16-bit form widens.
    pub fn is_tensor(&self) -> bool {
        self.of_type.contains("Tensor") || self.of_type.contains("Operand")
    }

    pub fn is_optional(&self) -> bool {
        self.of_type.contains("Option<")
    }
}

/// The files of a folder and of those in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let below = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    };
    paths.flat_map(below).collect()
}

/// The sources of a crate beside this one, or this one.
fn sources(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("a source");
    files(&folder.join("src")).iter().map(text).collect()
}

/// Splits at commas that are in no bracket.
fn split(text: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    let text = text.replace("->", "");
    for c in text.chars() {
        match c {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth -= 1,
            _ => {}
        }
        match (c, depth, parts.last_mut()) {
            (',', 0, _) => parts.push(String::new()),
            (_, _, Some(part)) if !c.is_whitespace() => part.push(c),
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// What follows `name` and its generics: the arguments, up to the bracket that closes them.
fn arguments(after_name: &str) -> Vec<Argument> {
    let mut depth = 0;
    let after_arrow = after_name.replace("->", "  ");
    let is_open = |(_, c): &(usize, char)| {
        depth += i32::from(*c == '<') - i32::from(*c == '>');
        depth == 0 && *c == '('
    };
    let open = after_arrow
        .char_indices()
        .find(is_open)
        .expect("arguments")
        .0;
    let mut depth = 0;
    let is_close = |(_, c): &(usize, char)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    };
    let close = after_name[open..]
        .char_indices()
        .find(is_close)
        .expect("a bracket")
        .0;
    let parts = split(&after_name[open + 1..open + close]);
    let named = parts.iter().filter_map(|part| part.split_once(':'));
    named
        .map(|(name, of_type)| Argument {
            name: name.to_owned(),
            of_type: of_type.to_owned(),
        })
        .collect()
}

/// The lines of blocks that begin with `head` at the start of a line and end with a bracket there.
fn blocks<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    let starts = text.match_indices(head).map(|(at, _)| at);
    let starts = starts.filter(|&at| at == 0 || text[..at].ends_with('\n'));
    starts
        .map(|at| {
            let block = &text[at..];
            &block[..block.find("\n}").unwrap_or(block.len())]
        })
        .collect()
}

fn word_of(line: &str) -> &str {
    let end = line.find(|c: char| !c.is_alphanumeric() && c != '_');
    &line[..end.unwrap_or(line.len())]
}

/// The methods that a macro makes from lines of names, such as `neg Neg` or `neg_ neg () nobody`.
fn made(block: &str) -> Vec<Method> {
    let lines = block.lines().skip(1).map(str::trim);
    let names = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    names
        .map(|line| Method {
            name: word_of(line).to_owned(),
            arguments: match line.contains('(') {
                true => arguments(line.split_once(' ').unwrap_or_default().1),
                false => Vec::new(),
            },
        })
        .collect()
}

/// Every public method of `Tensor`.
pub fn methods() -> Vec<Method> {
    let mut methods = Vec::new();
    let mut makers = 0;
    for text in sources("hlx-autograd") {
        for block in blocks(&text, "impl Tensor {") {
            for method in block.split("\n    pub fn ").skip(1) {
                let name = word_of(method).to_owned();
                let arguments = arguments(&method[name.len()..]);
                methods.push(Method { name, arguments });
            }
        }
        for head in ["methods! {", "in_place! {"] {
            methods.extend(blocks(&text, head).into_iter().flat_map(made));
        }
        makers += text.matches("pub fn $name").count();
    }
    assert_eq!(
        makers, 4,
        "macros that make methods: unary, binary, activations, in place"
    );
    let activations = Activation::ALL.iter().map(|kind| (kind.name(), false));
    let binary = Binary::ALL.iter().map(|kind| (kind.name(), true));
    for (name, has_other) in activations.chain(binary) {
        let other = has_other.then(|| Argument {
            name: "other".to_owned(),
            of_type: "implOperand".to_owned(),
        });
        methods.push(Method {
            name: name.to_owned(),
            arguments: other.into_iter().collect(),
        });
    }
    assert!(methods.len() > 250, "{} methods found", methods.len());
    methods
}

/// The public fields of structs and the variants of enums, by their names.
pub fn parts_of_types() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for text in ["hlx-autograd", "hlx-kernels", "hlx-core"]
        .map(sources)
        .concat()
    {
        for (head, part) in [("pub struct ", "    pub "), ("pub enum ", "    ")] {
            for block in blocks(&text, head) {
                let name = word_of(&block[head.len()..]).to_owned();
                let lines = block.lines().skip(1);
                let parts = lines
                    .filter_map(|line| line.strip_prefix(part))
                    .map(word_of);
                let parts = parts.filter(|part| !part.is_empty()).map(str::to_owned);
                found.push((name, parts.collect()));
            }
        }
    }
    found
}
