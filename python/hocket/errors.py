"""The one exception for what a user can get wrong: a plan, a file, an argument.

What only a bug can cause stays an assertion; the command line turns this class into exit code 2.
"""


class InputError(ValueError):
    """Input that cannot be used; the message names the file, the key, the value and the limit.

    A message may have several lines, one per mistake.

    >>> str(InputError("plan.toml: seed: -1 is below 0"))
    'plan.toml: seed: -1 is below 0'
    """
