//! Data, schedules, the training loop, checkpoints and reports of HLX, and the `hlx` program.
//!
//! A [`Config`](config::Config) describes the model, the corpus and the training; a [`Trainer`](train::Trainer) does it
//! and leaves a [run folder](run). The library prints nothing: a run reports to an
//! [`Observer`](train::Observer), and the program prints.
//!
//! What is trained, and on what, is a [`Task`](task::Task): a language model over bytes or
//! tokens, or a classifier of images. This crate knows models through `hlx-nn`. It knows no Vulkan.

pub mod audit;
pub mod calibration;
pub mod chat;
pub mod companions;
pub mod config;
pub mod curve;
pub mod data;
pub mod demo;
pub mod engine;
pub mod evaluate;
mod exp;
pub mod generate;
pub mod golden;
pub mod image_report;
pub mod metric_line;
pub mod model_folder;
pub mod model_source;
pub mod opening;
pub mod perplexity;
pub mod quality;
mod random;
pub mod ranks;
pub mod receipts;
pub mod rows;
pub mod run;
pub mod sample;
mod schedule;
pub mod special_tokens;
pub mod task;
pub mod text_source;
pub mod timing;
pub mod train;
pub mod trained;
pub mod verify;
