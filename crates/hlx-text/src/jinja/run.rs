//! Carries statements out.

use std::sync::{Arc, Mutex};

use super::ast::{Expr, ForLoop, Kind, Stmt, Target};
use super::bounds::{MAX_RECURSION, MAX_TEXT_BYTES, RECURSION_OF_A_MACRO};
use super::error::{Result, fault};
use super::eval::Machine;
use super::objects::LoopState;
use super::value::{Value, lock};

/// How a list of statements ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Flow {
    On,
    Break,
    Continue,
}

impl Machine<'_> {
    /// Carries statements out, one after the other.
    pub fn run(&mut self, statements: &[Stmt]) -> Result<Flow> {
        self.depth += 1;
        if self.depth > MAX_RECURSION {
            return Err(fault!(
                "recursion: too many calls and blocks lie within each other"
            ));
        }
        let mut flow = Flow::On;
        for statement in statements {
            self.fuel.take(1)?;
            let done = self.statement(&statement.kind);
            flow = done.map_err(|error| error.at(statement.line))?;
            if flow != Flow::On {
                break;
            }
        }
        self.depth -= 1;
        Ok(flow)
    }

    fn statement(&mut self, kind: &Kind) -> Result<Flow> {
        match kind {
            Kind::Text(text) => self.write(text)?,
            Kind::Print(parts) => {
                for part in parts {
                    let value = self.eval(part)?;
                    self.print(&value)?;
                }
            }
            Kind::For(each) => self.for_loop(each)?,
            Kind::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if self.eval(condition)?.truth() {
                        return self.run(body);
                    }
                }
                return self.run(otherwise);
            }
            Kind::Set(target, value) => {
                let value = self.eval(value)?;
                self.assign(target, value)?;
            }
            Kind::Break => return Ok(Flow::Break),
            Kind::Continue => return Ok(Flow::Continue),
            other => return self.block(other),
        }
        Ok(Flow::On)
    }

    fn block(&mut self, kind: &Kind) -> Result<Flow> {
        match kind {
            Kind::SetBlock(target, filter, body) => {
                let mut value = self.capture(body)?;
                if let Some(Expr::Filter(filter)) = filter {
                    value = self.filter(filter, Some(value))?;
                }
                self.assign(target, value)?;
            }
            Kind::With(assigned, body) => return self.with(assigned, body),
            Kind::Macro(definition) => {
                let value = self.made_macro(definition)?;
                self.scopes.set(definition.name.clone(), value);
            }
            Kind::Call(call, body) => {
                let callee = self.eval(&call.callee)?;
                let mut args = self.arguments(&call.arguments)?;
                args.named.push(("caller".into(), self.made_macro(body)?));
                let value = self
                    .call_value(&callee, args)
                    .map_err(|error| error.at(call.line))?;
                self.print(&value)?;
            }
            Kind::Filter(filter, body) => {
                let mut value = self.capture(body)?;
                if let Expr::Filter(filter) = filter {
                    value = self.filter(filter, Some(value))?;
                }
                if value.as_str().is_none() {
                    let found = value.type_name();
                    return Err(fault!(
                        "a `filter` block makes a text, and its filter makes {found}"
                    ));
                }
                self.print(&value)?;
            }
            Kind::AutoEscape(enabled, body) => {
                let enabled = self.eval(enabled)?.truth();
                let before = std::mem::replace(&mut self.autoescape, enabled);
                let flow = self.scoped(|machine| machine.run(body));
                self.autoescape = before;
                return flow;
            }
            Kind::Generation(body) => return self.generation(body),
            _ => {}
        }
        Ok(Flow::On)
    }

    /// Text between marks, if there are any.
    fn generation(&mut self, body: &[Stmt]) -> Result<Flow> {
        let marks = self.marks;
        if let Some([begin, _]) = marks {
            self.write(begin.encode_utf8(&mut [0; 4]))?;
        }
        let flow = self.scoped(|machine| machine.run(body))?;
        if let Some([_, end]) = marks {
            self.write(end.encode_utf8(&mut [0; 4]))?;
        }
        Ok(flow)
    }

    fn with(&mut self, assigned: &[(Target, Expr)], body: &[Stmt]) -> Result<Flow> {
        // All values are those of the scope around the block.
        let values = assigned.iter().map(|(_, value)| self.eval(value));
        let values = values.collect::<Result<Vec<_>>>()?;
        self.scoped(|machine| {
            for ((target, _), value) in assigned.iter().zip(values) {
                machine.assign(target, value)?;
            }
            machine.run(body)
        })
    }

    /// Carries something out in a scope of its own.
    fn scoped<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.scopes.push(self.scopes.current());
        let done = body(self);
        self.scopes.pop(before);
        done
    }

    /// What statements write, as a value.
    fn capture(&mut self, body: &[Stmt]) -> Result<Value> {
        self.written.push(String::new());
        let done = self.scoped(|machine| machine.run(body));
        let text = self.written.pop().unwrap_or_default();
        done?;
        Ok(self.captured(text))
    }

    /// Writes a value.
    fn print(&mut self, value: &Value) -> Result<()> {
        if let Value::Text(text, safe) = value
            && (*safe || !self.autoescape)
        {
            return self.write(text);
        }
        self.fuel.walk(value.size())?;
        let mut text = String::new();
        self.push_printed(&mut text, value)?;
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.fuel.text("a text", text.len())?;
        let n: usize = self.written.iter().map(String::len).sum();
        if n + text.len() > MAX_TEXT_BYTES {
            return Err(fault!(
                "the template writes more than {MAX_TEXT_BYTES} bytes"
            ));
        }
        if let Some(written) = self.written.last_mut() {
            written.push_str(text);
        }
        Ok(())
    }

    /// Assigns a value to a target.
    pub fn assign(&mut self, target: &Target, value: Value) -> Result<()> {
        match target {
            Target::Name(name) => {
                self.fuel.names(self.scopes.n_names())?;
                self.scopes.set(name.clone(), value);
                Ok(())
            }
            Target::Attr(name, attribute) => {
                let Value::Namespace(namespace) = self.name(name)? else {
                    return Err(fault!(
                        "`{name}` is no namespace, whose attributes can be set"
                    ));
                };
                super::functions::store(&namespace, attribute, value)
            }
            Target::Tuple(targets) => {
                let values = value.items(&mut self.fuel)?;
                if values.len() != targets.len() {
                    return Err(fault!(
                        "cannot unpack {} values into {} names",
                        values.len(),
                        targets.len()
                    ));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value)?;
                }
                Ok(())
            }
        }
    }

    fn for_loop(&mut self, each: &Arc<ForLoop>) -> Result<()> {
        let items = self.eval(&each.items)?;
        self.iterate(each, &items, 0)
    }

    /// Carries a loop out once more, with other elements; returns what it writes.
    pub fn recurse(
        &mut self,
        each: &Arc<ForLoop>,
        scope: usize,
        items: &Value,
        depth: usize,
    ) -> Result<Value> {
        self.deeper()?;
        self.written.push(String::new());
        let before = self.scopes.push(scope);
        let done = self.iterate(each, items, depth);
        self.scopes.pop(before);
        let text = self.written.pop().unwrap_or_default();
        self.depth -= RECURSION_OF_A_MACRO;
        done?;
        Ok(self.captured(text))
    }

    pub fn deeper(&mut self) -> Result<()> {
        self.depth += RECURSION_OF_A_MACRO;
        match self.depth > MAX_RECURSION {
            true => Err(fault!("recursion: too many calls lie within each other")),
            false => Ok(()),
        }
    }

    /// Whether the condition of a loop holds for an element.
    fn holds(&mut self, each: &ForLoop, condition: &Expr, item: &Value) -> Result<bool> {
        self.scoped(|machine| {
            machine.assign(&each.target, item.clone())?;
            Ok(machine.eval(condition)?.truth())
        })
    }

    /// Carries out a loop without `loop`: as in Jinja, its condition sees what the body has changed before.
    fn iterate_where(&mut self, each: &ForLoop, condition: &Expr, items: Vec<Value>) -> Result<()> {
        let mut is_empty = true;
        for item in items {
            self.fuel.take(1)?;
            if !self.holds(each, condition, &item)? {
                continue;
            }
            is_empty = false;
            let flow = self.scoped(|machine| {
                machine.assign(&each.target, item)?;
                machine.run(&each.body)
            })?;
            if flow == Flow::Break {
                break;
            }
        }
        if is_empty {
            self.scoped(|machine| machine.run(&each.otherwise))?;
        }
        Ok(())
    }

    fn iterate(&mut self, each: &Arc<ForLoop>, items: &Value, depth: usize) -> Result<()> {
        let mut items = items.items(&mut self.fuel)?;
        self.fuel.elements(items.len())?;
        if let Some(condition) = &each.condition {
            if !each.reads_loop {
                return self.iterate_where(each, condition, items);
            }
            let mut chosen = Vec::new();
            for item in items {
                if self.holds(each, condition, &item)? {
                    chosen.push(item);
                }
            }
            items = chosen;
        }
        if items.is_empty() {
            self.scoped(|machine| machine.run(&each.otherwise))?;
            return Ok(());
        }
        let recursive = each.recursive.then(|| (each.clone(), self.scopes.retain()));
        let n = items.len();
        let state = Arc::new(Mutex::new(LoopState {
            items,
            at: 0,
            depth: depth + 1,
            last: None,
            recursive,
        }));
        for at in 0..n {
            self.fuel.take(1)?;
            let item = {
                let mut state = lock(&state);
                state.at = at;
                state.items[at].clone()
            };
            let flow = self.scoped(|machine| {
                machine
                    .scopes
                    .set("loop".into(), Value::Loop(state.clone()));
                machine.assign(&each.target, item)?;
                machine.run(&each.body)
            })?;
            if flow == Flow::Break {
                break;
            }
        }
        Ok(())
    }
}
