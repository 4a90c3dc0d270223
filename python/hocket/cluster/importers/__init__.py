"""Public traces of GPU clusters as jobs of the catalogue: one reader for each format, one rule for what they
train.
"""

from hocket.cluster.importers.mapping import Import, Imported, Report, imported

__all__ = ["Import", "Imported", "Report", "imported"]
