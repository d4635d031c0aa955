//! The functions that templates find.

use std::sync::{Arc, Mutex};

use super::args::{Args, integer, text};
use super::bounds::{MAX_NAMES, MAX_RANGE};
use super::collections::List;
use super::error::{Result, fault};
use super::eval::Machine;
use super::objects::Counter;
use super::value::{Names, Value, lock};

impl Machine<'_> {
    /// Calls a function of the engine.
    pub fn function(&mut self, name: &str, args: Args) -> Result<Value> {
        match name {
            "range" => range(&args),
            "dict" => Value::map(self.pairs("dict", &args)?),
            "namespace" => {
                let namespace = Arc::new(Mutex::new(Vec::new()));
                for (name, value) in self.pairs("namespace", &args)? {
                    let name = text("namespace", Some(&name))?;
                    store(&namespace, &name, value)?;
                }
                Ok(Value::Namespace(namespace))
            }
            "raise_exception" => {
                let [message] = args.bind("raise_exception", ["message"])?;
                Err(Self::raised(&message.unwrap_or(Value::None)))
            }
            "strftime_now" => {
                let [format] = args.bind("strftime_now", ["format"])?;
                let format = text("strftime_now", format.as_ref())?;
                self.fuel.take(format.len() / 2)?;
                self.has_date = true;
                let text = self.date.format(&format)?;
                self.fuel.text("strftime_now", text.len())?;
                Ok(Value::text(text))
            }
            "cycler" => {
                if args.positional.is_empty() || !args.named.is_empty() {
                    return Err(fault!("cycler: at least one item is needed, and no names"));
                }
                List::new(args.positional.clone())?;
                Ok(counter(args.positional, false))
            }
            "joiner" => {
                let [separator] = args.bind("joiner", ["sep"])?;
                let separator = separator.unwrap_or_else(|| Value::text(", "));
                List::new(vec![separator.clone()])?;
                Ok(counter(vec![separator], true))
            }
            _ => Err(fault!("`{name}` cannot be called")),
        }
    }

    /// What `dict` and `namespace` are given: a map or pairs, and names.
    fn pairs(&mut self, what: &str, args: &Args) -> Result<Vec<(Value, Value)>> {
        let fuel = &mut self.fuel;
        let mut pairs = match &args.positional[..] {
            [] => Vec::new(),
            [Value::Map(map)] => {
                fuel.take(map.pairs.len())?;
                map.pairs.clone()
            }
            [list] => {
                let mut pairs = Vec::new();
                fuel.elements(list.size().elements)?;
                for item in list.items(fuel)? {
                    match &item.items(fuel)?[..] {
                        [key, value] => pairs.push((key.clone(), value.clone())),
                        _ => return Err(fault!("{what}: a list of pairs is expected")),
                    }
                }
                pairs
            }
            _ => {
                return Err(fault!(
                    "{what}: at most one argument without a name is taken"
                ));
            }
        };
        let named = args.named.iter();
        pairs.extend(named.map(|(name, value)| (Value::text(name.clone()), value.clone())));
        Ok(pairs)
    }
}

fn counter(items: Vec<Value>, is_joiner: bool) -> Value {
    Value::Counter(Arc::new(Mutex::new(Counter {
        items,
        at: 0,
        is_joiner,
    })))
}

fn range(args: &Args) -> Result<Value> {
    let [first, second, step] = args.unnamed("range")?;
    let number = |value: Option<&Value>| integer("range", value);
    let first = number(first.as_ref())?.ok_or_else(|| fault!("range: an argument is missing"))?;
    let (start, stop) = match number(second.as_ref())? {
        Some(stop) => (first, stop),
        None => (0, first),
    };
    let step = number(step.as_ref())?.unwrap_or(1);
    if step == 0 {
        return Err(fault!("range: the step is 0"));
    }
    let large = |value: i128| value.unsigned_abs() > 1 << 62;
    if [start, stop, step].into_iter().any(large) {
        return Err(fault!("range: a number is beyond 63 bits"));
    }
    let range = Value::Range(start, stop, step);
    match range.length().is_some_and(|n| n as i128 > MAX_RANGE) {
        true => Err(fault!("range: more than {MAX_RANGE} numbers")),
        false => Ok(range),
    }
}

/// Stores a value in a namespace.
pub(crate) fn store(namespace: &Mutex<Names>, name: &Arc<str>, value: Value) -> Result<()> {
    if name.starts_with('_') {
        return Err(fault!(
            "a namespace cannot have `{name}`, which begins with `_`"
        ));
    }
    // Refuses what would hold itself.
    List::new(vec![value.clone()])?;
    let mut values = lock(namespace);
    let is_full = values.len() == MAX_NAMES;
    match values.iter_mut().find(|(other, _)| other == name) {
        Some(found) => found.1 = value,
        None if is_full => {
            return Err(fault!("a namespace has more than {MAX_NAMES} names"));
        }
        None => values.push((name.clone(), value)),
    }
    Ok(())
}
