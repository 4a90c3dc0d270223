"""Training jobs as they really are: operations that depend on each other, repeated every iteration.

`workload` is what the engines take; `layers` makes it from a training loop over layers.
"""
