"""Imports public traces of GPU clusters: a reader for each format, one rule that assigns models to jobs."""

from hocket.cluster.importers.mapping import Import, Imported, Report, imported

__all__ = ["Import", "Imported", "Report", "imported"]
