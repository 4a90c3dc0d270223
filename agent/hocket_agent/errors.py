"""The error for invalid input. `hocket.errors` re-exports it, so that both packages raise the same class."""


class InputError(ValueError):
    """Invalid input; the message names the file, the key, the value and the limit.

    A message may have several lines, one per mistake.

    >>> str(InputError("plan.toml: seed: -1 is below 0"))
    'plan.toml: seed: -1 is below 0'
    """
