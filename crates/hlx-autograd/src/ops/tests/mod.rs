//! Tests of several operations together.

mod quantised;
