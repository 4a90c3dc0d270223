"""The results of a run: its tables and manifest, on disk and in memory, and summaries of them."""

from hocket.results.run import Run, RunWriter, check_replaceable, frame, peak_rss_mb

__all__ = ["Run", "RunWriter", "check_replaceable", "frame", "peak_rss_mb"]
