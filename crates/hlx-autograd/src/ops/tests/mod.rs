//! Tests of several operations together.

mod halves;
mod quantised;
