//! What ranks of training jobs do, and which workloads are refused.

mod common;
mod execution;
mod programs;
mod workload;
