"""A cluster over time: jobs of a trace arrive, a scheduler places them, and the flow engine runs them."""
