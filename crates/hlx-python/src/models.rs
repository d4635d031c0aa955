//! Language models of files, and texts from them.

mod adapters;
mod chat;
mod files;
mod generation;
mod held;
mod pass;
mod stream;

pub use chat::PyChat;
pub use held::PyLanguageModel;
pub use pass::PyKvCache;
pub use stream::PyStream;
