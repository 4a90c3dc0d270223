"""`python -m hocket` is the `hocket` command."""

from hocket.cli import main

main()
