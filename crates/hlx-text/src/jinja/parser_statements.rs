//! Tokens to the tree: statements.

use std::sync::Arc;

use super::ast::{Expr, ForLoop, Kind, MacroDef, Stmt, Target};
use super::bounds::{MAX_BLOCKS, MAX_PARAMETERS};
use super::error::{Error, Result, fault};
use super::parser::Parser;
use super::token::Token;

/// Names that cannot be assigned to.
const CONSTANTS: [&str; 6] = ["true", "false", "none", "True", "False", "None"];

impl Parser {
    /// Reads a whole template.
    pub fn template(&mut self) -> Result<Vec<Stmt>> {
        let (statements, _) = self.statements(&[])?;
        Ok(statements)
    }

    /// Statements up to a tag with one of these names, which is read.
    fn statements(&mut self, ends: &[&'static str]) -> Result<(Vec<Stmt>, &'static str)> {
        let mut statements = Vec::new();
        loop {
            let line = self.line();
            let kind = match self.next() {
                None if ends.is_empty() => return Ok((statements, "")),
                None => {
                    let ends = ends.join("` or `");
                    let reason = format!("the template ends where `{ends}` is expected");
                    return Err(Error::syntax(line, reason));
                }
                Some(Token::Text(text)) => Kind::Text(text),
                Some(Token::PrintBegin) => {
                    let printed = self.tuple(true, false)?;
                    self.end(&Token::PrintEnd)?;
                    Kind::Print(vec![printed])
                }
                _ => {
                    let end = ends.iter().find(|end| self.is_name(end));
                    if let Some(end) = end {
                        self.next();
                        return Ok((statements, end));
                    }
                    self.statement(line)?
                }
            };
            statements.push(Stmt { line, kind });
        }
    }

    /// The end of a tag.
    fn end(&mut self, end: &Token) -> Result<()> {
        match self.peek() == Some(end) {
            true => {
                self.next();
                Ok(())
            }
            false => Err(self.unexpected("expected the end of the tag")),
        }
    }

    fn tag_end(&mut self) -> Result<()> {
        self.end(&Token::BlockEnd)
    }

    /// The body of a block up to the tag that ends it.
    fn body(&mut self, end: &'static str) -> Result<Vec<Stmt>> {
        self.tag_end()?;
        let (body, _) = self.within(|parser| parser.statements(&[end]))?;
        self.tag_end()?;
        Ok(body)
    }

    /// Reads what lies in a block.
    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.deeper()?;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        match self.depth > MAX_BLOCKS {
            true => Err(
                fault!("more than {MAX_BLOCKS} blocks and branches lie within each other")
                    .at(self.line()),
            ),
            false => Ok(()),
        }
    }

    fn statement(&mut self, line: usize) -> Result<Kind> {
        let name = self.name()?;
        match &*name {
            "for" => self.for_loop(),
            "if" => self.condition(),
            "set" => self.set(),
            "with" => self.with(),
            "macro" => {
                let name = self.name()?;
                Ok(Kind::Macro(self.macro_body(name, "endmacro")?))
            }
            "call" => self.call_block(),
            "filter" => {
                let filter = self.filter_chain()?;
                Ok(Kind::Filter(filter, self.body("endfilter")?))
            }
            "autoescape" => {
                let enabled = self.expression()?;
                Ok(Kind::AutoEscape(enabled, self.body("endautoescape")?))
            }
            "generation" => {
                self.has_generation = true;
                Ok(Kind::Generation(self.body("endgeneration")?))
            }
            "print" => {
                let mut parts = vec![self.expression()?];
                while self.skip(",") {
                    parts.push(self.expression()?);
                }
                self.tag_end()?;
                Ok(Kind::Print(parts))
            }
            "break" | "continue" => {
                if self.n_loops == 0 {
                    return Err(Error::syntax(line, format!("`{name}` outside of a loop")));
                }
                self.tag_end()?;
                Ok(if &*name == "break" {
                    Kind::Break
                } else {
                    Kind::Continue
                })
            }
            "block" | "extends" | "include" | "import" | "from" => Err(Error::syntax(
                line,
                format!("`{name}` needs other templates, which a chat template cannot have"),
            )),
            _ => Err(Error::syntax(line, format!("unknown tag `{name}`"))),
        }
    }

    fn for_loop(&mut self) -> Result<Kind> {
        let target = self.target(false)?;
        if !self.skip_name("in") {
            return Err(self.unexpected("expected `in`"));
        }
        let items = self.tuple(false, false)?;
        let condition = match self.skip_name("if") {
            true => Some(self.expression()?),
            false => None,
        };
        let recursive = self.skip_name("recursive");
        self.tag_end()?;
        self.n_loops += 1;
        let n_before = self.n_loop_names;
        let (body, end) = self.within(|parser| parser.statements(&["endfor", "else"]))?;
        self.n_loops -= 1;
        let reads_loop = recursive || self.n_loop_names > n_before;
        let otherwise = match end {
            "else" => self.body("endfor")?,
            _ => {
                self.tag_end()?;
                Vec::new()
            }
        };
        Ok(Kind::For(Arc::new(ForLoop {
            target,
            items,
            condition,
            recursive,
            reads_loop,
            body,
            otherwise,
        })))
    }

    fn condition(&mut self) -> Result<Kind> {
        let (mut branches, before) = (Vec::new(), self.depth);
        loop {
            let condition = self.tuple(false, false)?;
            self.tag_end()?;
            // Each `elif` counts as a block within the one before.
            self.deeper()?;
            let (body, end) = self.statements(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            if end == "elif" {
                continue;
            }
            let otherwise = match end {
                "else" => self.body("endif")?,
                _ => {
                    self.tag_end()?;
                    Vec::new()
                }
            };
            self.depth = before;
            return Ok(Kind::If(branches, otherwise));
        }
    }

    fn set(&mut self) -> Result<Kind> {
        let target = self.target(true)?;
        if self.skip("=") {
            let value = self.tuple(true, false)?;
            self.tag_end()?;
            return Ok(Kind::Set(target, value));
        }
        let filter = match self.is("|") {
            true => Some(self.filter_chain()?),
            false => None,
        };
        Ok(Kind::SetBlock(target, filter, self.body("endset")?))
    }

    fn filter_chain(&mut self) -> Result<Expr> {
        let mut filter = self.filter(None)?;
        while self.is("|") {
            filter = self.filter(Some(filter))?;
        }
        Ok(filter)
    }

    fn with(&mut self) -> Result<Kind> {
        let mut assigned = Vec::new();
        while self.peek() != Some(&Token::BlockEnd) {
            if !assigned.is_empty() && !self.skip(",") {
                return Err(self.unexpected("expected `,`"));
            }
            let target = self.target(false)?;
            self.expect("=")?;
            assigned.push((target, self.expression()?));
        }
        Ok(Kind::With(assigned, self.body("endwith")?))
    }

    fn call_block(&mut self) -> Result<Kind> {
        // The block's own parameters stand before what it calls.
        let (mut parameters, mut defaults) = (Vec::new(), Vec::new());
        if self.is("(") {
            (parameters, defaults) = self.signature()?;
        }
        let Expr::Call(call) = self.expression()? else {
            return Err(self.unexpected("expected a call"));
        };
        let (body, takes) = self.macro_statements("endcall")?;
        let body = MacroDef {
            name: "caller".into(),
            parameters,
            defaults,
            body,
            takes,
        };
        Ok(Kind::Call(*call, Arc::new(body)))
    }

    fn macro_body(&mut self, name: Arc<str>, end: &'static str) -> Result<Arc<MacroDef>> {
        self.takes.push(Default::default());
        let (parameters, defaults) = self.signature()?;
        self.takes.pop();
        let (body, takes) = self.macro_statements(end)?;
        Ok(Arc::new(MacroDef {
            name,
            parameters,
            defaults,
            body,
            takes,
        }))
    }

    fn macro_statements(&mut self, end: &'static str) -> Result<(Vec<Stmt>, super::ast::Takes)> {
        self.takes.push(Default::default());
        let loops = std::mem::take(&mut self.n_loops);
        let body = self.body(end)?;
        self.n_loops = loops;
        let takes = self.takes.pop().unwrap_or_default();
        Ok((body, takes))
    }

    fn signature(&mut self) -> Result<(Vec<Arc<str>>, Vec<Expr>)> {
        self.expect("(")?;
        let (mut parameters, mut defaults) = (Vec::new(), Vec::new());
        while !self.is(")") {
            if !parameters.is_empty() {
                self.expect(",")?;
            }
            parameters.push(self.name()?);
            if parameters.len() > MAX_PARAMETERS {
                let line = self.line();
                return Err(fault!("a macro has more than {MAX_PARAMETERS} parameters").at(line));
            }
            if self.skip("=") {
                defaults.push(self.expression()?);
            } else if !defaults.is_empty() {
                return Err(self.unexpected("a parameter without a default behind one with it"));
            }
        }
        self.expect(")")?;
        Ok((parameters, defaults))
    }

    /// What is assigned to: a name, several, or attributes of a namespace.
    fn target(&mut self, with_attributes: bool) -> Result<Target> {
        let (mut parts, mut is_tuple) = (Vec::new(), false);
        loop {
            let is_end = matches!(self.peek(), Some(Token::BlockEnd))
                || self.is(")")
                || self.is("=")
                || self.is_name("in");
            if is_end && is_tuple {
                break;
            }
            parts.push(self.single_target(with_attributes)?);
            if !self.skip(",") {
                break;
            }
            is_tuple = true;
        }
        match parts.pop() {
            Some(only) if !is_tuple => Ok(only),
            last => {
                parts.extend(last);
                Ok(Target::Tuple(parts))
            }
        }
    }

    fn single_target(&mut self, with_attributes: bool) -> Result<Target> {
        if self.skip("(") {
            let target = self.within(|parser| parser.target(with_attributes))?;
            self.expect(")")?;
            return Ok(target);
        }
        let is_attribute = with_attributes && self.is_attribute();
        let name = self.name()?;
        if CONSTANTS.contains(&&*name) {
            return Err(self.unexpected(&format!("cannot assign to `{name}`")));
        }
        if is_attribute {
            self.expect(".")?;
            return Ok(Target::Attr(name, self.name()?));
        }
        Ok(Target::Name(name))
    }
}
