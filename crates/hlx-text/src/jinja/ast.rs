//! The tree of a template.

use std::sync::Arc;

use super::value::Value;

/// An expression.
#[derive(Debug)]
pub(crate) enum Expr {
    Const(Value),
    Name(Arc<str>),
    /// `a.b`
    Attr(Box<Expr>, Arc<str>),
    /// `a[b]`
    Item(Box<(Expr, Expr)>),
    /// `a[start:stop:step]`
    Slice(Box<(Expr, [Option<Expr>; 3])>),
    Call(Box<Call>),
    /// `a | name(..)`; without `a` in `{% filter %}`.
    Filter(Box<Apply>),
    /// `a is name(..)`
    Test(Box<Apply>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    Binary(Operator, Box<(Expr, Expr)>),
    And(Box<(Expr, Expr)>),
    Or(Box<(Expr, Expr)>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    Concat(Vec<Expr>),
    If(Box<Choice>),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
}

/// `then if condition else otherwise`
#[derive(Debug)]
pub(crate) struct Choice {
    pub condition: Expr,
    pub then: Expr,
    pub otherwise: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct Call {
    pub callee: Expr,
    pub arguments: Arguments,
    pub line: usize,
}

#[derive(Debug)]
pub(crate) struct Apply {
    pub input: Option<Expr>,
    pub name: String,
    pub arguments: Arguments,
    pub line: usize,
}

/// `a, b=c, *d, **e`
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub positional: Vec<Expr>,
    pub named: Vec<(Arc<str>, Expr)>,
    pub list: Option<Expr>,
    pub map: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

/// What is assigned to.
#[derive(Debug)]
pub(crate) enum Target {
    Name(Arc<str>),
    /// An attribute of a namespace.
    Attr(Arc<str>, Arc<str>),
    Tuple(Vec<Target>),
}

/// A statement and its line.
#[derive(Debug)]
pub(crate) struct Stmt {
    pub line: usize,
    pub kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Text(String),
    Print(Vec<Expr>),
    For(Arc<ForLoop>),
    If(Vec<(Expr, Vec<Stmt>)>, Vec<Stmt>),
    Set(Target, Expr),
    /// `{% set x | filter %}..{% endset %}`
    SetBlock(Target, Option<Expr>, Vec<Stmt>),
    With(Vec<(Target, Expr)>, Vec<Stmt>),
    Macro(Arc<MacroDef>),
    Call(Call, Arc<MacroDef>),
    Filter(Expr, Vec<Stmt>),
    AutoEscape(Expr, Vec<Stmt>),
    Generation(Vec<Stmt>),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct ForLoop {
    pub target: Target,
    pub items: Expr,
    pub condition: Option<Expr>,
    pub recursive: bool,
    /// Whether the body may read `loop`, which knows what comes later.
    pub reads_loop: bool,
    pub body: Vec<Stmt>,
    pub otherwise: Vec<Stmt>,
}

#[derive(Debug)]
pub(crate) struct MacroDef {
    pub name: Arc<str>,
    pub parameters: Vec<Arc<str>>,
    /// The default values of the last parameters.
    pub defaults: Vec<Expr>,
    pub body: Vec<Stmt>,
    /// Which of the names `varargs`, `kwargs` and `caller` the body has.
    pub takes: Takes,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Takes {
    pub varargs: bool,
    pub kwargs: bool,
    pub caller: bool,
}
