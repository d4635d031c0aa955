//! Tokens to the tree: expressions, by Jinja's precedence.

use std::sync::Arc;

use super::ast::{Apply, Arguments, Call, Choice, Comparison, Expr, Operator, Takes};
use super::error::{Error, Result};
use super::lexer::{Token, Tokens};
use super::value::Value;

/// Reads tokens.
pub(super) struct Parser {
    tokens: Tokens,
    at: usize,
    /// How many blocks and branches are open.
    pub depth: usize,
    /// What the macros that are open take.
    pub takes: Vec<Takes>,
    pub n_loops: usize,
    pub has_generation: bool,
}

/// How tightly operators of two operands bind.
fn strength(operator: &str) -> Option<(usize, Operator)> {
    Some(match operator {
        "+" => (1, Operator::Add),
        "-" => (1, Operator::Subtract),
        "*" => (3, Operator::Multiply),
        "/" => (3, Operator::Divide),
        "//" => (3, Operator::FloorDivide),
        "%" => (3, Operator::Modulo),
        "**" => (4, Operator::Power),
        _ => return None,
    })
}

/// Of `~`, which joins any number of operands.
const CONCAT: usize = 2;

impl Parser {
    pub fn new(tokens: Tokens) -> Self {
        Self {
            tokens,
            at: 0,
            depth: 0,
            takes: Vec::new(),
            n_loops: 0,
            has_generation: false,
        }
    }

    pub fn line(&self) -> usize {
        let last = self.tokens.last();
        let token = self.tokens.get(self.at).or(last);
        token.map_or(1, |(_, line)| *line)
    }

    pub fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    pub fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get_mut(self.at)?;
        self.at += 1;
        Some(std::mem::replace(&mut token.0, Token::BlockEnd))
    }

    pub fn is(&self, operator: &str) -> bool {
        matches!(self.peek(), Some(Token::Operator(found)) if *found == operator)
    }

    pub fn is_name(&self, name: &str) -> bool {
        self.is_name_at(0, name)
    }

    fn is_name_at(&self, ahead: usize, name: &str) -> bool {
        let token = self.tokens.get(self.at + ahead);
        matches!(token, Some((Token::Name(found), _)) if found == name)
    }

    /// Whether a dot is next but one.
    pub fn is_attribute(&self) -> bool {
        let next = self.tokens.get(self.at + 1);
        matches!(next, Some((Token::Operator("."), _)))
    }

    pub fn skip(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        self.at += usize::from(found);
        found
    }

    pub fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, operator: &str) -> Result<()> {
        match self.skip(operator) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("expected `{operator}`"))),
        }
    }

    pub fn name(&mut self) -> Result<Arc<str>> {
        match self.next() {
            Some(Token::Name(name)) => Ok(name.into()),
            _ => {
                self.at -= 1;
                Err(self.unexpected("expected a name"))
            }
        }
    }

    /// An error at the next token.
    pub fn unexpected(&self, what: &str) -> Error {
        let found = match self.peek() {
            None => "the end of the template".to_owned(),
            Some(Token::BlockEnd | Token::PrintEnd) => "the end of the tag".to_owned(),
            Some(Token::Name(name)) => format!("`{name}`"),
            Some(Token::Operator(operator)) => format!("`{operator}`"),
            Some(Token::Literal(_)) => "a text".to_owned(),
            Some(Token::Int(_) | Token::Float(_)) => "a number".to_owned(),
            Some(_) => "a tag".to_owned(),
        };
        Error::syntax(self.line(), format!("{what}, found {found}"))
    }

    /// An expression, with `if` and `else`.
    pub fn expression(&mut self) -> Result<Expr> {
        let mut expression = self.or()?;
        while self.skip_name("if") {
            let condition = self.or()?;
            let otherwise = match self.skip_name("else") {
                true => Some(self.expression()?),
                false => None,
            };
            expression = Expr::If(Box::new(Choice {
                condition,
                then: expression,
                otherwise,
            }));
        }
        Ok(expression)
    }

    pub fn or(&mut self) -> Result<Expr> {
        let mut left = self.and()?;
        while self.skip_name("or") {
            left = Expr::Or(Box::new((left, self.and()?)));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr> {
        let mut left = self.not()?;
        while self.skip_name("and") {
            left = Expr::And(Box::new((left, self.not()?)));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr> {
        let mut n = 0;
        while self.is_name("not") && !self.is_name_at(1, "in") {
            self.at += 1;
            n += 1;
        }
        let mut expression = self.compare()?;
        for _ in 0..n {
            expression = Expr::Not(Box::new(expression));
        }
        Ok(expression)
    }

    fn compare(&mut self) -> Result<Expr> {
        let left = self.binary(1)?;
        let mut rest = Vec::new();
        while let Some(comparison) = self.comparison() {
            rest.push((comparison, self.binary(1)?));
        }
        Ok(match rest.is_empty() {
            true => left,
            false => Expr::Compare(Box::new(left), rest),
        })
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let found = match self.peek()? {
            Token::Operator("==") => Comparison::Equal,
            Token::Operator("!=") => Comparison::NotEqual,
            Token::Operator("<") => Comparison::Less,
            Token::Operator("<=") => Comparison::LessEqual,
            Token::Operator(">") => Comparison::Greater,
            Token::Operator(">=") => Comparison::GreaterEqual,
            Token::Name(name) if name == "in" => Comparison::In,
            Token::Name(name) if name == "not" && self.is_name_at(1, "in") => {
                self.at += 1;
                Comparison::NotIn
            }
            _ => return None,
        };
        self.at += 1;
        Some(found)
    }

    /// Operators that bind at least as tightly as `least`; equal ones from the left, powers too.
    fn binary(&mut self, least: usize) -> Result<Expr> {
        let mut left = self.unary(true)?;
        loop {
            if least <= CONCAT && self.is("~") {
                let mut parts = vec![left];
                while self.skip("~") {
                    parts.push(self.binary(CONCAT + 1)?);
                }
                left = Expr::Concat(parts);
                continue;
            }
            let Some(Token::Operator(operator)) = self.peek() else {
                return Ok(left);
            };
            match strength(operator) {
                Some((found, operator)) if found >= least => {
                    self.at += 1;
                    let right = self.binary(found + 1)?;
                    left = Expr::Binary(operator, Box::new((left, right)));
                }
                _ => return Ok(left),
            }
        }
    }

    fn unary(&mut self, with_filters: bool) -> Result<Expr> {
        let mut expression = if self.skip("-") {
            Expr::Negative(Box::new(self.unary(false)?))
        } else if self.skip("+") {
            Expr::Positive(Box::new(self.unary(false)?))
        } else {
            self.primary()?
        };
        expression = self.postfix(expression)?;
        match with_filters {
            true => self.filters(expression),
            false => Ok(expression),
        }
    }

    pub fn primary(&mut self) -> Result<Expr> {
        let Some(token) = self.peek() else {
            return Err(self.unexpected("expected an expression"));
        };
        match token {
            Token::Name(_) => self.named(),
            Token::Literal(_) => {
                let mut text = String::new();
                while let Some(Token::Literal(part)) = self.peek() {
                    text.push_str(part);
                    self.at += 1;
                }
                Ok(Expr::Const(Value::text(text)))
            }
            &Token::Int(value) => {
                self.at += 1;
                Ok(Expr::Const(Value::Int(value)))
            }
            &Token::Float(value) => {
                self.at += 1;
                Ok(Expr::Const(Value::Float(value)))
            }
            Token::Operator("(") => {
                self.at += 1;
                let tuple = self.tuple(true, true)?;
                self.expect(")")?;
                Ok(tuple)
            }
            Token::Operator("[") => {
                self.at += 1;
                Ok(Expr::List(self.listed("]", |parser| parser.expression())?))
            }
            Token::Operator("{") => {
                self.at += 1;
                let pair = |parser: &mut Self| {
                    let key = parser.expression()?;
                    parser.expect(":")?;
                    Ok((key, parser.expression()?))
                };
                Ok(Expr::Map(self.listed("}", pair)?))
            }
            _ => Err(self.unexpected("expected an expression")),
        }
    }

    fn named(&mut self) -> Result<Expr> {
        let name = self.name()?;
        Ok(match &*name {
            "true" | "True" => Expr::Const(Value::Bool(true)),
            "false" | "False" => Expr::Const(Value::Bool(false)),
            "none" | "None" => Expr::Const(Value::None),
            _ => {
                if let Some(takes) = self.takes.last_mut() {
                    takes.varargs |= &*name == "varargs";
                    takes.kwargs |= &*name == "kwargs";
                    takes.caller |= &*name == "caller";
                }
                Expr::Name(name)
            }
        })
    }

    /// Parts between commas, up to a bracket.
    fn listed<T>(&mut self, end: &str, part: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut parts = Vec::new();
        while !self.is(end) {
            if !parts.is_empty() {
                self.expect(",")?;
                if self.is(end) {
                    break;
                }
            }
            parts.push(part(self)?);
        }
        self.expect(end)?;
        Ok(parts)
    }

    /// One expression, or a tuple where there are commas; an empty one stands in brackets.
    pub fn tuple(&mut self, with_if: bool, in_brackets: bool) -> Result<Expr> {
        let (mut parts, mut is_tuple) = (Vec::new(), false);
        loop {
            let is_end = matches!(self.peek(), Some(Token::PrintEnd | Token::BlockEnd))
                || self.is(")")
                || (!with_if && self.is_name("recursive"));
            if is_end {
                break;
            }
            parts.push(match with_if {
                true => self.expression()?,
                false => self.or()?,
            });
            if !self.skip(",") {
                break;
            }
            is_tuple = true;
        }
        if !is_tuple {
            if let Some(part) = parts.pop() {
                return Ok(part);
            }
            if !in_brackets {
                return Err(self.unexpected("expected an expression"));
            }
        }
        Ok(Expr::Tuple(parts))
    }

    fn postfix(&mut self, mut expression: Expr) -> Result<Expr> {
        loop {
            if self.skip(".") {
                expression = match self.peek() {
                    Some(&Token::Int(value)) => {
                        self.at += 1;
                        Expr::Item(Box::new((expression, Expr::Const(Value::Int(value)))))
                    }
                    _ => Expr::Attr(Box::new(expression), self.name()?),
                };
            } else if self.skip("[") {
                expression = self.subscript(expression)?;
            } else if self.is("(") {
                expression = self.call(expression)?;
            } else {
                return Ok(expression);
            }
        }
    }

    pub fn call(&mut self, callee: Expr) -> Result<Expr> {
        let line = self.line();
        let arguments = self.arguments()?;
        Ok(Expr::Call(Box::new(Call {
            callee,
            arguments,
            line,
        })))
    }

    fn subscript(&mut self, expression: Expr) -> Result<Expr> {
        let mut bounds: [Option<Expr>; 3] = [None, None, None];
        if !self.is(":") {
            let mut item = self.expression()?;
            if self.skip(",") {
                let mut parts = vec![item];
                parts.extend(self.listed("]", |parser| parser.expression())?);
                item = Expr::Tuple(parts);
                return Ok(Expr::Item(Box::new((expression, item))));
            }
            if self.skip("]") {
                return Ok(Expr::Item(Box::new((expression, item))));
            }
            bounds[0] = Some(item);
        }
        for bound in &mut bounds[1..] {
            if !self.skip(":") {
                break;
            }
            if !self.is("]") && !self.is(":") {
                *bound = Some(self.expression()?);
            }
        }
        self.expect("]")?;
        Ok(Expr::Slice(Box::new((expression, bounds))))
    }

    /// Filters, tests and calls behind an expression.
    fn filters(&mut self, mut expression: Expr) -> Result<Expr> {
        loop {
            if self.is("|") {
                expression = self.filter(Some(expression))?;
            } else if self.is_name("is") {
                expression = self.test(expression)?;
            } else if self.is("(") {
                expression = self.call(expression)?;
            } else {
                return Ok(expression);
            }
        }
    }

    /// `| name(..)`; the first of a block has no sign before it.
    pub fn filter(&mut self, input: Option<Expr>) -> Result<Expr> {
        self.skip("|");
        let line = self.line();
        let name = self.dotted()?;
        let arguments = match self.is("(") {
            true => self.arguments()?,
            false => Arguments::default(),
        };
        Ok(Expr::Filter(Box::new(Apply {
            input,
            name,
            arguments,
            line,
        })))
    }

    fn dotted(&mut self) -> Result<String> {
        let mut name = self.name()?.to_string();
        while self.skip(".") {
            name = name + "." + &self.name()?;
        }
        Ok(name)
    }

    fn test(&mut self, input: Expr) -> Result<Expr> {
        self.skip_name("is");
        let line = self.line();
        let negated = self.skip_name("not");
        let name = self.dotted()?;
        let mut arguments = Arguments::default();
        let ends = ["else", "or", "and"].iter().any(|word| self.is_name(word));
        let begins = match self.peek() {
            Some(Token::Name(_)) => !ends,
            Some(Token::Literal(_) | Token::Int(_) | Token::Float(_)) => true,
            Some(Token::Operator(operator)) => ["[", "{"].contains(operator),
            _ => false,
        };
        if self.is("(") {
            arguments = self.arguments()?;
        } else if begins {
            if self.is_name("is") {
                return Err(self.unexpected("tests cannot follow each other"));
            }
            let argument = self.primary()?;
            arguments.positional.push(self.postfix(argument)?);
        }
        let test = Expr::Test(Box::new(Apply {
            input: Some(input),
            name,
            arguments,
            line,
        }));
        Ok(match negated {
            true => Expr::Not(Box::new(test)),
            false => test,
        })
    }

    fn arguments(&mut self) -> Result<Arguments> {
        self.expect("(")?;
        let mut arguments = Arguments::default();
        let mut is_first = true;
        while !self.is(")") {
            if !is_first {
                self.expect(",")?;
                if self.is(")") {
                    break;
                }
            }
            is_first = false;
            self.argument(&mut arguments)?;
        }
        self.expect(")")?;
        Ok(arguments)
    }

    fn argument(&mut self, arguments: &mut Arguments) -> Result<()> {
        let is_named = matches!(self.peek(), Some(Token::Name(_)))
            && matches!(
                self.tokens.get(self.at + 1),
                Some((Token::Operator("="), _))
            );
        if self.is("*") && arguments.list.is_none() && arguments.map.is_none() {
            self.at += 1;
            arguments.list = Some(self.expression()?);
        } else if self.is("**") && arguments.map.is_none() {
            self.at += 1;
            arguments.map = Some(self.expression()?);
        } else if is_named && arguments.map.is_none() {
            let name = self.name()?;
            self.at += 1;
            arguments.named.push((name, self.expression()?));
        } else if arguments.named.is_empty() && arguments.list.is_none() && arguments.map.is_none()
        {
            arguments.positional.push(self.expression()?);
        } else {
            return Err(self.unexpected("an argument in the wrong place"));
        }
        Ok(())
    }
}
