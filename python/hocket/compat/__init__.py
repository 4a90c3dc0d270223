"""Which jobs can take turns, how far to shift each, and the predicted speed-up."""

from hocket.compat.answer import Compatibility, compatibility

__all__ = ["Compatibility", "compatibility"]
