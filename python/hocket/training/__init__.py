"""Training jobs as they really are: operations that depend on each other, repeated every iteration.

`workload` is what the engines take. It comes from models of the `catalogue`, from `layers`, from Chakra
traces (`chakra`) and from workload files of SimAI and AICB (`simai`); `jobs` finds out which for a job of a
plan, and `spec` adds where its ranks are and how its collectives are done.
"""
