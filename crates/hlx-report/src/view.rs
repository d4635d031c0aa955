//! x
pub struct View;
pub struct Message;
