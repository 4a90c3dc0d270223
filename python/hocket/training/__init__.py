"""Training jobs as operations that depend on each other and are repeated every iteration.

`workload` is the form that the engines read. It is made from models of the `catalogue`, from `layers`, from
Chakra traces (`chakra`) and from workload files of SimAI and AICB (`simai`). `hocket.engines.workload`
chooses among these for a job of a plan, and `hocket.engines.training` adds hosts and collective algorithms.
"""
