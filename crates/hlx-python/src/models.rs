//! Language models of files, and texts from them.
