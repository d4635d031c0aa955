//! Jinja, as `transformers` sets it up for chat templates: the same text as Jinja2 for each template, within bounds.
//!
//! A template is read by [`lexer`] and [`parser`] and carried out by [`eval`] and [`run`]. Values ([`value`]) are those
//! of Python and do not change, so that each knows how large it prints ([`bounds`]). Templates and messages come from
//! strangers: whatever is made is charged before it is made, and names are those of [`names`] alone.

mod args;
mod ast;
mod attributes;
mod bounds;
mod braces;
mod chars;
mod collections;
mod data;
mod date;
mod error;
mod eval;
mod filters;
mod filters_lists;
mod filters_numbers;
mod filters_texts;
mod functions;
mod json;
mod lexer;
mod literals;
mod macros;
mod methods;
mod names;
mod numbers;
mod objects;
mod ops;
mod parser;
mod parser_atoms;
mod parser_statements;
mod percent;
mod print;
mod run;
mod scopes;
mod sorting;
mod splitting;
mod tests;
mod text_methods;
mod token;
#[cfg(test)]
mod unit_tests;
mod value;

use std::sync::Arc;

pub(crate) use collections::{List, Map};
pub(crate) use date::Date;
pub(crate) use error::{Error, Result};
pub(crate) use value::Value;

use ast::Stmt;
use bounds::Fuel;
use eval::Machine;
use parser::Parser;
use scopes::Scopes;

/// A template that was read.
#[derive(Debug)]
pub(crate) struct Template {
    statements: Vec<Stmt>,
    /// Whether it has `{% generation %}` blocks.
    pub has_generation: bool,
}

/// What a template wrote.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub text: String,
    /// Whether the date was read.
    pub has_date: bool,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// Faults of syntax, and bounds that it passes.
    pub fn new(source: &str) -> Result<Self> {
        let tokens = lexer::tokens(source)?;
        let mut parser = Parser::new(tokens);
        Ok(Self {
            statements: parser.template()?,
            has_generation: parser.has_generation,
        })
    }

    /// What the template writes, with marks around its `{% generation %}` blocks where some are given.
    ///
    /// # Errors
    /// What the template raises, and bounds that it passes.
    pub fn render(
        &self,
        values: Vec<(Arc<str>, Value)>,
        date: &Date,
        marks: Option<[char; 2]>,
    ) -> Result<Rendered> {
        let mut machine = Machine {
            scopes: Scopes::new(values),
            fuel: Fuel::full(),
            written: vec![String::new()],
            depth: 0,
            autoescape: false,
            marks,
            date,
            has_date: false,
        };
        machine.run(&self.statements)?;
        Ok(Rendered {
            text: machine.written.pop().unwrap_or_default(),
            has_date: machine.has_date,
        })
    }
}
