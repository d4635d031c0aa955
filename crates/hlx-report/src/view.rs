//! x
/// x
pub struct View;
/// x
pub struct Message;
