"""Which jobs can take turns, how far to shift each, and what that wins."""

from hocket.compat.answer import Compatibility, compatibility

__all__ = ["Compatibility", "compatibility"]
