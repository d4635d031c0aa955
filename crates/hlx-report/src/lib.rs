//! What runs tell about themselves: a report of one or several ([`Report`]), the first difference of two
//! ([`compare`]), the runs below a folder ([`list`]), and a run as a terminal shows it ([`View`]).
//!
//! Everything is read from run folders, also while a process writes to them. A [`RunFacts`] is what one folder says;
//! a [`Document`](document::Document) lays the facts of several out once, and HTML and Markdown are written from it.
//!
//! This crate opens no device and recomputes nothing.

pub mod chart;
pub mod compare;
pub mod document;
mod facts;
mod figures;
mod follow;
pub mod list;
mod markdown;
mod page;
mod report;
mod sections;
mod table;
pub mod text;
mod thin;
mod view;

pub use facts::{ChainFacts, RunFacts, RunState, planned_steps};
pub use follow::{Follower, News};
pub use report::Report;
pub use view::View;
