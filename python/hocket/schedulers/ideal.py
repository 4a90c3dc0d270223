"""Ideal (NSDI'24 section 5.1): every job has a cluster of its own."""

from hocket.schedulers.state import Candidate, Decision, State


class Ideal:
    """Jobs run from their arrival on, on the workers that they were submitted with, and share nothing."""

    dedicated = True
    """A run gives each job its own GPUs and an idle network; GPU numbers do not matter."""

    def schedule(self, state: State, candidates: int) -> Decision:
        """The only placement, with the requested workers of each job."""
        placement = {each.job.name: tuple(range(each.job.requested)) for each in state.jobs}
        return Decision([Candidate(placement)])
