//! Tokens to the tree: what operators join, and what stands after it: subscripts, calls, filters and tests.

use super::ast::{Apply, Arguments, Call, Expr};
use super::error::Result;
use super::parser::Parser;
use super::token::Token;
use super::value::Value;

impl Parser {
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
                self.n_loop_names += usize::from(&*name == "loop");
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

    pub fn postfix(&mut self, mut expression: Expr) -> Result<Expr> {
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

    /// Filters, tests and calls after an expression.
    pub fn filters(&mut self, mut expression: Expr) -> Result<Expr> {
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
