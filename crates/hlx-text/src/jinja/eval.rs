//! Carries expressions out.

use std::sync::Arc;

use super::args::Args;
use super::ast::{Arguments, Expr};
use super::attributes;
use super::bounds::{Fuel, MAX_RECURSION};
use super::date::Date;
use super::error::{Error, Result, fault};
use super::ops::{binary, compare, large, missing};
use super::print;
use super::scopes::Scopes;
use super::value::{Value, lock};
use super::{filters, methods, names, tests};

/// A template that is carried out.
pub(super) struct Machine<'t> {
    pub scopes: Scopes,
    pub fuel: Fuel,
    /// The texts that are written: the last one is written to.
    pub written: Vec<String>,
    pub depth: usize,
    pub autoescape: bool,
    /// Marks around the text of `{% generation %}` blocks.
    pub marks: Option<[char; 2]>,
    pub date: &'t Date,
    /// Whether it was read.
    pub has_date: bool,
}

impl Machine<'_> {
    /// The value of an expression.
    pub fn eval(&mut self, expression: &Expr) -> Result<Value> {
        match expression {
            Expr::Const(value) => return Ok(value.clone()),
            Expr::Name(name) => {
                self.fuel.take(1)?;
                return self.name(name);
            }
            _ => {}
        }
        self.depth += 1;
        if self.depth > MAX_RECURSION {
            return Err(fault!(
                "recursion: too many calls and expressions lie within each other"
            ));
        }
        self.fuel.take(1)?;
        let value = self.inner(expression);
        self.depth -= 1;
        value
    }

    /// The value of a name.
    pub fn name(&mut self, name: &Arc<str>) -> Result<Value> {
        let (value, n_names) = self.scopes.get(name);
        self.fuel.names(n_names)?;
        if let Some(value) = value {
            return Ok(value);
        }
        Ok(
            match names::FUNCTIONS.iter().find(|other| **other == &**name) {
                Some(function) => Value::Function(function),
                // The template itself, whose blocks HLX does not know.
                None if &**name == "self" => Value::Function("self"),
                None => Value::undefined(format!("undefined: `{name}` is not defined")),
            },
        )
    }

    #[inline(never)]
    fn inner(&mut self, expression: &Expr) -> Result<Value> {
        match expression {
            Expr::Const(value) => Ok(value.clone()),
            Expr::Name(name) => self.name(name),
            Expr::Attr(value, name) => {
                let value = self.eval(value)?;
                attributes::attribute(&value, name)
            }
            Expr::Item(parts) => {
                let (value, key) = (self.eval(&parts.0)?, self.eval(&parts.1)?);
                attributes::item(&mut self.fuel, &value, &key)
            }
            Expr::Slice(parts) => self.slice(&parts.0, &parts.1),
            Expr::Call(call) => self.call(call).map_err(|error| error.at(call.line)),
            Expr::Filter(apply) => self
                .filter(apply, None)
                .map_err(|error| error.at(apply.line)),
            Expr::Test(apply) => self.test(apply).map_err(|error| error.at(apply.line)),
            Expr::Not(value) => Ok(Value::Bool(!self.eval(value)?.truth())),
            Expr::Negative(value) => self.signed(value, true),
            Expr::Positive(value) => self.signed(value, false),
            Expr::And(parts) => {
                let left = self.eval(&parts.0)?;
                if left.truth() {
                    self.eval(&parts.1)
                } else {
                    Ok(left)
                }
            }
            Expr::Or(parts) => {
                let left = self.eval(&parts.0)?;
                if left.truth() {
                    Ok(left)
                } else {
                    self.eval(&parts.1)
                }
            }
            _ => self.outer(expression),
        }
    }

    #[inline(never)]
    fn outer(&mut self, expression: &Expr) -> Result<Value> {
        match expression {
            Expr::Binary(operator, parts) => {
                let (left, right) = (self.eval(&parts.0)?, self.eval(&parts.1)?);
                binary(&mut self.fuel, *operator, &left, &right)
            }
            Expr::Compare(first, rest) => {
                let mut left = self.eval(first)?;
                for (comparison, right) in rest {
                    let right = self.eval(right)?;
                    if !compare(&mut self.fuel, *comparison, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            Expr::Concat(parts) => self.concat(parts),
            Expr::If(choice) => {
                if self.eval(&choice.condition)?.truth() {
                    return self.eval(&choice.then);
                }
                match &choice.otherwise {
                    Some(otherwise) => self.eval(otherwise),
                    None => Ok(Value::undefined(
                        "undefined: the condition of an `if` without `else` is false",
                    )),
                }
            }
            Expr::List(parts) => Value::list(self.all(parts)?),
            Expr::Tuple(parts) => Value::tuple(self.all(parts)?),
            Expr::Map(parts) => {
                self.fuel.take(parts.len())?;
                let mut pairs = Vec::with_capacity(parts.len());
                for (key, value) in parts {
                    pairs.push((self.eval(key)?, self.eval(value)?));
                }
                Value::map(pairs)
            }
            _ => Ok(Value::None),
        }
    }

    fn all(&mut self, parts: &[Expr]) -> Result<Vec<Value>> {
        self.fuel.elements(parts.len())?;
        parts.iter().map(|part| self.eval(part)).collect()
    }

    fn signed(&mut self, value: &Expr, negative: bool) -> Result<Value> {
        let value = self.eval(value)?;
        match (&value, value.as_int()) {
            (Value::Float(number), _) => Ok(Value::Float(if negative { -number } else { *number })),
            (_, Some(number)) if !negative => Ok(Value::Int(number)),
            (_, Some(number)) => number.checked_neg().map(Value::Int).ok_or_else(large),
            (Value::Undefined(_), _) => Err(missing(&value)),
            _ => Err(fault!("{} has no sign", value.type_name())),
        }
    }

    fn slice(&mut self, value: &Expr, bounds: &[Option<Expr>; 3]) -> Result<Value> {
        let value = self.eval(value)?;
        let mut found = [Value::None, Value::None, Value::None];
        for (slot, bound) in found.iter_mut().zip(bounds) {
            if let Some(bound) = bound {
                *slot = self.eval(bound)?;
            }
        }
        attributes::slice(&mut self.fuel, &value, found)
    }

    /// `a ~ b`
    fn concat(&mut self, parts: &[Expr]) -> Result<Value> {
        let parts = self.all(parts)?;
        let safe = self.autoescape;
        let mut text = String::new();
        for part in &parts {
            self.fuel.text("~", text.len() + part.size().bytes)?;
            self.fuel.walk(part.size())?;
            self.push_printed(&mut text, part)?;
        }
        self.fuel.text("~", text.len())?;
        Ok(Value::Text(text.into(), safe))
    }

    /// Appends a value as it is printed.
    pub fn push_printed(&self, text: &mut String, value: &Value) -> Result<()> {
        match (self.autoescape, value) {
            (false, _) | (true, Value::Text(_, true)) => print::push_str(text, value),
            (true, value) => {
                text.push_str(&super::ops::escape(&print::string(value)?));
                Ok(())
            }
        }
    }

    /// The arguments of a call.
    pub fn arguments(&mut self, arguments: &Arguments) -> Result<Args> {
        let mut args = Args {
            positional: self.all(&arguments.positional)?,
            named: Vec::with_capacity(arguments.named.len()),
        };
        // Each name is compared with those before.
        let n_named = arguments.named.len();
        self.fuel.names(n_named.saturating_mul(n_named))?;
        for (name, value) in &arguments.named {
            if args.named(name).is_some() {
                return Err(fault!("the argument `{name}` is stated twice"));
            }
            let value = self.eval(value)?;
            args.named.push((name.clone(), value));
        }
        if let Some(list) = &arguments.list {
            let items = self.eval(list)?;
            let items = items.items(&mut self.fuel)?;
            self.fuel.elements(items.len())?;
            args.positional.extend(items);
        }
        if let Some(map) = &arguments.map {
            let Value::Map(map) = self.eval(map)? else {
                return Err(fault!("`**` takes a map"));
            };
            self.fuel.elements(map.pairs.len())?;
            for (name, value) in &map.pairs {
                match name {
                    Value::Text(name, _) => args.named.push((name.clone(), value.clone())),
                    other => return Err(fault!("an argument's name is {}", other.type_name())),
                }
            }
        }
        Ok(args)
    }

    fn call(&mut self, call: &super::ast::Call) -> Result<Value> {
        // A method is called without making a value of it.
        if let Expr::Attr(value, name) = &call.callee {
            let value = self.eval(value)?;
            if names::methods(&value).contains(&&**name) {
                let args = self.arguments(&call.arguments)?;
                return methods::call(&mut self.fuel, &value, name, &args);
            }
            let callee = attributes::attribute(&value, name)?;
            if let Value::Undefined(reason) = callee {
                let what = format!("{} has no method `{name}`", value.type_name());
                return Err(match reason.starts_with("undefined: ") {
                    true => fault!("unknown method: {what}"),
                    false => fault!("{reason}"),
                });
            }
            let args = self.arguments(&call.arguments)?;
            return self.call_value(&callee, args);
        }
        let callee = self.eval(&call.callee)?;
        if let (Value::Undefined(_), Expr::Name(name)) = (&callee, &call.callee) {
            return Err(fault!("unknown function: `{name}` is not defined"));
        }
        let args = self.arguments(&call.arguments)?;
        self.call_value(&callee, args)
    }

    /// Calls a value.
    pub fn call_value(&mut self, callee: &Value, args: Args) -> Result<Value> {
        match callee {
            Value::Function(name) => self.function(name, args),
            Value::Macro(called) => self.call_macro(called, args),
            Value::Method(method) => methods::call(&mut self.fuel, &method.0, &method.1, &args),
            Value::Loop(state) => {
                let recursive = lock(state).recursive.clone();
                let depth = lock(state).depth;
                let Some((each, scope)) = recursive else {
                    return Err(fault!("only a loop that is `recursive` can be called"));
                };
                let [items] = args.unnamed("loop")?;
                let items = items.ok_or_else(|| fault!("loop: an argument is missing"))?;
                self.recurse(&each, scope, &items, depth)
            }
            Value::Counter(counter) if lock(counter).is_joiner => {
                let [] = args.bind("joiner", [])?;
                Ok(lock(counter).join())
            }
            Value::Undefined(_) => Err(missing(callee)),
            other => Err(fault!("{} cannot be called", other.type_name())),
        }
    }

    /// Applies a filter of the tree; `input` where it stands in a block.
    pub fn filter(&mut self, apply: &super::ast::Apply, input: Option<Value>) -> Result<Value> {
        let value = match (&apply.input, input) {
            // In a block of filters, the first gets the block's text.
            (Some(Expr::Filter(inner)), Some(input)) => self.filter(inner, Some(input))?,
            (Some(expression), _) => self.eval(expression)?,
            (None, Some(input)) => input,
            (None, None) => Value::None,
        };
        let args = self.arguments(&apply.arguments)?;
        filters::apply(self, &apply.name, value, args)
    }

    fn test(&mut self, apply: &super::ast::Apply) -> Result<Value> {
        let value = match &apply.input {
            Some(expression) => self.eval(expression)?,
            None => Value::None,
        };
        let args = self.arguments(&apply.arguments)?;
        let holds = tests::holds(&mut self.fuel, &apply.name, &value, &args)?;
        Ok(Value::Bool(holds))
    }

    /// Text that was captured, which is safe where texts are escaped.
    pub fn captured(&self, text: String) -> Value {
        Value::Text(text.into(), self.autoescape)
    }

    /// What a template raises.
    pub fn raised(message: &Value) -> Error {
        let message = print::string(message).unwrap_or_default();
        fault!("{message}")
    }
}
