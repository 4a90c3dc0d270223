"""A cluster over time: jobs arrive by a trace, a scheduler places them, the flow engine runs what follows."""
