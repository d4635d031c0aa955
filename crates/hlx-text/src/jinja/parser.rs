//! Tokens to the tree: expressions, by Jinja's precedence.

use std::sync::Arc;

use super::ast::{Choice, Comparison, Expr, Operator, Takes};
use super::bounds::MAX_BRACKETS;
use super::error::{Error, Result, fault};
use super::lexer::Tokens;
use super::token::Token;

/// Reads tokens.
pub(super) struct Parser {
    pub tokens: Tokens,
    pub at: usize,
    /// How many expressions are open.
    brackets: usize,
    /// How many blocks and branches are open.
    pub depth: usize,
    /// What the macros that are open take.
    pub takes: Vec<Takes>,
    /// How often the name `loop` was read.
    pub n_loop_names: usize,
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

/// Parses `~`, which joins any number of operands.
const CONCAT: usize = 2;

impl Parser {
    pub fn new(tokens: Tokens) -> Self {
        Self {
            tokens,
            at: 0,
            brackets: 0,
            depth: 0,
            takes: Vec::new(),
            n_loop_names: 0,
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
        self.brackets += 1;
        if self.brackets > MAX_BRACKETS {
            return Err(fault!(
                "more than {MAX_BRACKETS} brackets or choices of an expression lie within each other"
            )
            .at(self.line()));
        }
        let expression = self.choice();
        self.brackets -= 1;
        expression
    }

    fn choice(&mut self) -> Result<Expr> {
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
}
