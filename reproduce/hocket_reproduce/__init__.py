"""The papers' figures and tables rerun, and recorded runs of other simulators compared with ours."""
