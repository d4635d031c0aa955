//! Macros: how they are made, called, and given their arguments.

use std::sync::Arc;

use super::args::Args;
use super::ast::MacroDef;
use super::bounds::{RECURSION_OF_A_MACRO, STEPS_OF_A_MACRO};
use super::error::{Result, fault};
use super::eval::Machine;
use super::objects::Macro;
use super::value::Value;

impl Machine<'_> {
    /// A macro, which finds the names of the scope that it is made in.
    pub fn made_macro(&mut self, definition: &Arc<MacroDef>) -> Result<Value> {
        // The scope stays to the end.
        self.fuel.take(STEPS_OF_A_MACRO)?;
        let scope = self.scopes.retain();
        Ok(Value::Macro(Arc::new(Macro {
            definition: definition.clone(),
            scope,
        })))
    }

    /// Calls a macro; returns what it writes.
    pub fn call_macro(&mut self, called: &Macro, args: Args) -> Result<Value> {
        self.deeper()?;
        self.written.push(String::new());
        let before = self.scopes.push(called.scope);
        let done = self.bound(&called.definition, args);
        let done = done.and_then(|()| self.run(&called.definition.body));
        self.scopes.pop(before);
        let text = self.written.pop().unwrap_or_default();
        self.depth -= RECURSION_OF_A_MACRO;
        done?;
        Ok(self.captured(text))
    }

    /// Gives the parameters of a macro their values, in its scope.
    fn bound(&mut self, definition: &MacroDef, mut args: Args) -> Result<()> {
        let name = &definition.name;
        let parameters = &definition.parameters;
        let n_required = parameters.len() - definition.defaults.len();
        self.fuel.names(parameters.len() * args.named.len())?;
        let places = args.positional.len().min(parameters.len());
        let rest = args.positional.split_off(places);
        let mut given = args.positional.into_iter();
        for (at, parameter) in parameters.iter().enumerate() {
            let named = args.named.iter().position(|(other, _)| other == parameter);
            let value = match (given.next(), named) {
                (Some(_), Some(_)) => {
                    return Err(fault!(
                        "macro `{name}`: the argument `{parameter}` is stated twice"
                    ));
                }
                (Some(value), None) => value,
                (None, Some(named)) => args.named.remove(named).1,
                (None, None) if at >= n_required => {
                    self.eval(&definition.defaults[at - n_required])?
                }
                (None, None) => Value::undefined(format!(
                    "undefined: the parameter `{parameter}` has no value"
                )),
            };
            self.scopes.set(parameter.clone(), value);
        }
        self.bound_rest(definition, rest, args.named)
    }

    /// `varargs`, `kwargs` and `caller`, where a macro has them.
    fn bound_rest(
        &mut self,
        definition: &MacroDef,
        rest: Vec<Value>,
        mut named: Vec<(Arc<str>, Value)>,
    ) -> Result<()> {
        let (name, takes) = (&definition.name, definition.takes);
        if let Some(at) = named.iter().position(|(other, _)| &**other == "caller") {
            let (_, caller) = named.remove(at);
            if !takes.caller {
                return Err(fault!(
                    "macro `{name}` has no `caller`, and cannot be called by a `call` block"
                ));
            }
            self.scopes.set("caller".into(), caller);
        } else if takes.caller
            && !definition
                .parameters
                .iter()
                .any(|other| &**other == "caller")
        {
            let missing = Value::undefined("undefined: no `caller` is defined");
            self.scopes.set("caller".into(), missing);
        }
        if takes.kwargs {
            self.fuel.elements(named.len())?;
            let pairs = named
                .into_iter()
                .map(|(name, value)| (Value::text(name), value));
            self.scopes
                .set("kwargs".into(), Value::map(pairs.collect())?);
        } else if let Some((other, _)) = named.first() {
            return Err(fault!("macro `{name}` has no parameter `{other}`"));
        }
        if takes.varargs {
            self.scopes.set("varargs".into(), Value::tuple(rest)?);
        } else if !rest.is_empty() {
            return Err(fault!(
                "macro `{name}` takes at most {} arguments",
                definition.parameters.len()
            ));
        }
        Ok(())
    }
}
