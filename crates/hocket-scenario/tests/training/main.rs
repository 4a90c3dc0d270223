//! What ranks of training jobs do, and which workloads are refused.

mod execution;
mod programs;
mod workload;
