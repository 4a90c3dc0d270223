"""The error for what a user can get wrong; `hocket.errors` passes it on, so that there is one of it."""


class InputError(ValueError):
    """Input that cannot be used; the message names the file, the key, the value and the limit.

    A message may have several lines, one per mistake.

    >>> str(InputError("plan.toml: seed: -1 is below 0"))
    'plan.toml: seed: -1 is below 0'
    """
