//! Puts the bounds of values into a template: `[a, b]` becomes `(([a, b])|hlx_bounded)`.
//!
//! The engine has no place where a program could look at each value that it makes. So a template is parsed, and
//! filters that measure ([`super::values`]) are written around what makes large values: lists, maps, `+`, `*`,
//! the results of filters, and what is assigned. Only text within tags is added, so that lines keep their numbers.

use minijinja::machinery::ast::{BinOpKind, Call, CallArg, Expr, Spanned, Stmt};
use minijinja::machinery::{Span, Token, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error};

use super::bounds::{Placed, assignment, beyond, tokens};
use super::names::{BOUNDED, COMPARED, STORED, TESTS, knows_filter};

/// Sums of a chain that share a bound: one for each would pass the parser's limit of brackets.
const SUMS_A_BOUND: usize = 24;
/// Tests that compare two values.
const COMPARING: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "eq",
    "equalto",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "le",
    "lessthan",
    "lt",
    "ne",
    "startingwith",
    "endingwith",
];

/// A template with the bounds in it. Filters and tests that are not known are removed from the environment.
pub(super) fn rewritten(
    source: &str,
    syntax: &SyntaxConfig,
    environment: &mut Environment<'static>,
) -> Result<String, Error> {
    let tokens = tokens(source, syntax.clone())?;
    for (token, span) in &tokens {
        if matches!(token, Token::Ident(BOUNDED | STORED | COMPARED)) {
            return Err(beyond(format!(
                "line {}: names that begin with `hlx_` are HLX's own",
                span.start_line
            )));
        }
    }
    let tree = parse(source, super::NAME, syntax.clone())?;
    let mut visitor = Visitor {
        tokens: &tokens,
        insertions: Vec::new(),
        environment,
    };
    visitor.statement(&tree);
    let insertions = visitor.insertions;
    Ok(inserted(source, insertions))
}

fn inserted(source: &str, mut insertions: Vec<(usize, String)>) -> String {
    // Of equal places the first stays first: the inner bound before the outer one.
    insertions.sort_by_key(|insertion| insertion.0);
    let mut text = String::with_capacity(source.len() + 16 * insertions.len());
    let mut at = 0;
    for (place, insertion) in insertions {
        text.push_str(&source[at..place]);
        text.push_str(&insertion);
        at = place;
    }
    text + &source[at..]
}

/// Collects what is to be inserted, inner expressions first.
struct Visitor<'a, 's> {
    tokens: &'a [Placed<'s>],
    insertions: Vec<(usize, String)>,
    environment: &'a mut Environment<'static>,
}

impl Visitor<'_, '_> {
    fn statements(&mut self, all: &[Stmt<'_>]) {
        all.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Stmt<'_>) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emitted) => self.expression(&emitted.expr),
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => {}
            Stmt::ForLoop(each) => {
                self.expression(&each.iter);
                self.expressions(&each.filter_expr);
                self.statements(&each.body);
                self.statements(&each.else_body);
            }
            Stmt::IfCond(condition) => {
                self.expression(&condition.expr);
                self.statements(&condition.true_body);
                self.statements(&condition.false_body);
            }
            Stmt::WithBlock(with) => {
                self.expressions(with.assignments.iter().map(|(_, value)| value));
                self.statements(&with.body);
            }
            Stmt::Set(set) => {
                match &set.expr {
                    // A tuple without brackets; the whole of it gets a bound below.
                    Expr::Tuple(tuple) => self.expressions(&tuple.items),
                    value => self.expression(value),
                }
                self.assigned(set.span(), &set.target);
            }
            Stmt::SetBlock(set) => {
                self.expressions(&set.filter);
                self.statements(&set.body);
            }
            Stmt::AutoEscape(escape) => {
                self.expression(&escape.enabled);
                self.statements(&escape.body);
            }
            Stmt::FilterBlock(filter) => {
                self.expression(&filter.filter);
                self.statements(&filter.body);
            }
            Stmt::Macro(declared) => {
                self.expressions(&declared.defaults);
                self.statements(&declared.body);
            }
            Stmt::CallBlock(block) => {
                self.call(&block.call);
                self.expressions(&block.macro_decl.defaults);
                self.statements(&block.macro_decl.body);
            }
            Stmt::Do(done) => self.call(&done.call),
        }
    }

    fn expressions<'e, 's: 'e>(&mut self, all: impl IntoIterator<Item = &'e Expr<'s>>) {
        all.into_iter().for_each(|each| self.expression(each));
    }

    fn expression(&mut self, expression: &Expr<'_>) {
        match expression {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.expression(&slice.expr);
                let ends = [&slice.start, &slice.stop, &slice.step];
                self.expressions(ends.into_iter().flatten());
            }
            Expr::UnaryOp(unary) => self.expression(&unary.expr),
            Expr::BinOp(_) => self.operation(expression, 1),
            Expr::Compare(compare) => {
                self.expression(&compare.expr);
                let mut left = compare.expr.span();
                for comparison in &compare.ops {
                    self.expression(&comparison.expr);
                    self.compared(left);
                    left = comparison.expr.span();
                }
            }
            Expr::IfExpr(condition) => {
                self.expression(&condition.true_expr);
                self.expression(&condition.test_expr);
                self.expressions(&condition.false_expr);
            }
            Expr::Filter(filter) => {
                self.expressions(&filter.expr);
                self.arguments(&filter.args);
                if !knows_filter(filter.name) {
                    self.environment.remove_filter(filter.name);
                }
                self.insert(filter.span().end_offset, &format!("|{BOUNDED}"));
            }
            Expr::Test(test) => {
                self.expression(&test.expr);
                self.arguments(&test.args);
                if !TESTS.contains(&test.name) {
                    self.environment.remove_test(test.name);
                }
                if COMPARING.contains(&test.name) {
                    self.compared(test.expr.span());
                }
            }
            Expr::GetAttr(attribute) => self.expression(&attribute.expr),
            Expr::GetItem(item) => {
                self.expression(&item.expr);
                self.expression(&item.subscript_expr);
            }
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.literal(list.span(), &list.items, &[]),
            Expr::Tuple(tuple) => self.literal(tuple.span(), &tuple.items, &[]),
            Expr::Map(map) => self.literal(map.span(), &map.keys, &map.values),
        }
    }

    /// An operation of two operands; it is the `sums`-th of a chain of sums, from its end.
    fn operation(&mut self, expression: &Expr<'_>, sums: usize) {
        let Expr::BinOp(operation) = expression else {
            return self.expression(expression);
        };
        let is_sum = matches!(operation.op, BinOpKind::Add);
        match &operation.left {
            Expr::BinOp(left) if is_sum && matches!(left.op, BinOpKind::Add) => {
                self.operation(&operation.left, sums + 1);
            }
            left => self.expression(left),
        }
        self.expression(&operation.right);
        match operation.op {
            BinOpKind::Mul => self.wrap(operation.span(), BOUNDED),
            BinOpKind::Add if sums % SUMS_A_BOUND == 1 => self.wrap(operation.span(), BOUNDED),
            BinOpKind::Eq
            | BinOpKind::Ne
            | BinOpKind::Lt
            | BinOpKind::Lte
            | BinOpKind::Gt
            | BinOpKind::Gte
            | BinOpKind::In => self.compared(operation.left.span()),
            _ => {}
        }
    }

    /// Lists, tuples and maps; those of constants are as large as the template writes them.
    fn literal(&mut self, span: Span, items: &[Expr<'_>], values: &[Expr<'_>]) {
        self.expressions(items.iter().chain(values));
        let mut parts = items.iter().chain(values);
        if !parts.all(|part| matches!(part, Expr::Const(_))) {
            self.wrap(span, BOUNDED);
        }
    }

    fn call(&mut self, call: &Spanned<Call<'_>>) {
        self.expression(&call.expr);
        self.arguments(&call.args);
        // `loop.changed(a, b)` compares its arguments with those before; a tuple of them does the same.
        if let Expr::GetAttr(method) = &call.expr
            && method.name == "changed"
            && !call.args.is_empty()
        {
            let first = self.place_of(call.expr.span().end_offset);
            let mut rest = self.tokens[first..].iter();
            let open = rest.find(|(token, _)| matches!(token, Token::ParenOpen));
            if let Some((_, open)) = open {
                let close = call.span().end_offset - 1;
                self.insert(open.end_offset, "((");
                self.insert(close, &format!(")|{COMPARED})"));
            }
        }
    }

    fn arguments(&mut self, arguments: &[CallArg<'_>]) {
        for argument in arguments {
            match argument {
                CallArg::Pos(value)
                | CallArg::Kwarg(_, value)
                | CallArg::PosSplat(value)
                | CallArg::KwargSplat(value) => self.expression(value),
            }
        }
    }

    /// What is on the right of `{% set x = .. %}`.
    fn assigned(&mut self, statement: Span, target: &Expr<'_>) {
        let first = self.place_of(statement.start_offset);
        let Some(sign) = assignment(&self.tokens[first..]) else {
            return;
        };
        let value = first + sign + 1;
        let rest = self.tokens[value..].iter();
        let length = rest
            .take_while(|(token, _)| !matches!(token, Token::BlockEnd))
            .count();
        if length == 0 {
            return;
        }
        let filter = match holds_attribute(target) {
            true => STORED,
            false => BOUNDED,
        };
        let (start, end) = (self.tokens[value].1, self.tokens[value + length - 1].1);
        self.insert(start.start_offset, "((");
        self.insert(end.end_offset, &format!(")|{filter})"));
    }

    /// Charges for the left operand of the comparison behind an expression. A filter there is one of the last
    /// operand of a sum or the like, whose making has been charged.
    fn compared(&mut self, left: Span) {
        let first = self.place_of(left.end_offset);
        let mut rest = self.tokens[first..].iter();
        let sign = rest.find(|(token, _)| {
            matches!(
                token,
                Token::Eq
                    | Token::Ne
                    | Token::Lt
                    | Token::Lte
                    | Token::Gt
                    | Token::Gte
                    | Token::Ident("in" | "not" | "is")
            )
        });
        if let Some((_, span)) = sign {
            let place = span.start_offset;
            self.insert(place, &format!("|{COMPARED} "));
        }
    }

    fn wrap(&mut self, span: Span, filter: &str) {
        self.insert(span.start_offset, "((");
        self.insert(span.end_offset, &format!(")|{filter})"));
    }

    fn insert(&mut self, place: u32, text: &str) {
        self.insertions.push((place as usize, text.to_owned()));
    }

    /// The first token that begins at a place or behind it.
    fn place_of(&self, offset: u32) -> usize {
        self.tokens
            .partition_point(|(_, span)| span.start_offset < offset)
    }
}

/// Whether a target is, or holds, an attribute of a namespace.
fn holds_attribute(target: &Expr<'_>) -> bool {
    match target {
        Expr::GetAttr(_) => true,
        Expr::List(list) => list.items.iter().any(holds_attribute),
        Expr::Tuple(tuple) => tuple.items.iter().any(holds_attribute),
        _ => false,
    }
}
