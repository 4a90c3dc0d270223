"""A trace file as a whole, whose tables have been checked against each other."""

from pathlib import Path
from typing import Self

from pydantic import ValidationInfo, model_validator

from hocket.cluster.checks import trace_mistakes
from hocket.cluster.file_tables import TraceTables
from hocket.plan.table_errors import TableError


class TraceFile(TraceTables):
    """A cluster and the jobs that are submitted to it; valid by construction."""

    @model_validator(mode="after")
    def _is_consistent(self, info: ValidationInfo) -> Self:
        # Set first: the checks read the files of models, whose paths are relative to it.
        self._directory = Path((info.context or {}).get("directory", ""))
        mistakes = list(trace_mistakes(self))
        if mistakes:
            raise TableError(mistakes)
        return self
