//! The flow engine as its users call it.

mod common;
mod two_jobs;
