"""The grouped list of commands in `hocket --help`, and the manual page.

Both are generated from the commands themselves, so that neither can become outdated.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import typer.core

Groups = Mapping[str, Sequence[str]]
"""By heading: the names of the commands listed under it."""

OTHERS = "Other distributions"
"""The heading of commands that are in none of the groups."""


class ListingGroup(typer.core.TyperGroup):
    """A group of commands whose help shows every summary uncut, under headings if `titles` has any."""

    titles: ClassVar[Groups] = {}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of commands."""
        for title, entries in self.listed(ctx).items():
            with formatter.section(title):
                formatter.write_dl([(name, summary_of(command)) for name, command in entries])

    def listed(self, ctx: Any) -> dict[str, list[tuple[str, Any]]]:
        """The commands by heading, in the order of `titles`."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        grouped = {
            title: [name for name in names if name in commands] for title, names in self.titles.items()
        }
        rest = [name for name in commands if not any(name in names for names in grouped.values())]
        grouped[OTHERS if self.titles else "Commands"] = rest
        return {
            title: [(name, commands[name]) for name in names] for title, names in grouped.items() if names
        }


def summary_of(command: Any) -> str:
    """The summary of a command in a list: its own, or the first sentence of its help."""
    # Click's own summary is cut at the width of the terminal.
    text = command.short_help or " ".join((command.help or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.?]) (?=[A-Z])", text)[0]


def manual_page(root: Any, version: str) -> str:
    """The manual page of `root` and all its commands, in the roff of man(7), with `version` in the footer."""
    lines = [
        f'.TH HOCKET 1 "" "Hocket {_roff(version)}" "User Commands"',
        ".SH NAME",
        rf"hocket \- {_roff(_lower(root.help))}",
        ".SH SYNOPSIS",
        ".B hocket",
        r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]",
        ".SH OPTIONS",
        *_parameters(root),
        *_entry("-h, --help", "Show the help of hocket, or of a command, and exit."),
        ".SH COMMANDS",
        *_commands(root, ("hocket",)),
        ".SH EXIT STATUS",
        *_entry("0", "Success."),
        *_entry("1", "A run or its self-check failed, or a validation found a difference."),
        *_entry("2", "The plan, a file or an argument is wrong; the message says where."),
        *_entry("130", "Interrupted by Ctrl-C; what was finished is kept."),
        ".SH FILES",
        *_entry("hocket-runs/", "Runs are written here unless --out names another directory."),
    ]
    return "\n".join(lines) + "\n"


def _commands(group: Any, words: tuple[str, ...]) -> Iterator[str]:
    """Each command of `group` with its options, under the group's headings; `words` are those before it."""
    for title, entries in group.listed(None).items():
        if group.titles:
            yield f".SS {_roff(title)}"
        for name, listed in entries:
            # A command of the list that is not imported yet has no parameters and no help.
            command = getattr(listed, "command", listed)
            path = (*words, name)
            usage = " ".join(_usage(parameter) for parameter in command.params if _is_argument(parameter))
            yield from (".PP", rf"\fB{_roff(' '.join(path))}\fR {usage}".rstrip(), ".RS 4")
            yield _roff(" ".join((command.help or summary_of(listed)).split()))
            if hasattr(command, "commands"):
                yield ".RE"
                yield from _commands(command, path)
            else:
                yield from _parameters(command)
                yield ".RE"


def _parameters(command: Any) -> Iterator[str]:
    for parameter in command.params:
        words = _usage(parameter)
        if not _is_argument(parameter):
            value = "" if parameter.is_flag or not parameter.metavar else f" {words}"
            words = rf"\fB{_roff(', '.join(parameter.opts))}\fR{value}"
        yield from (".TP", words, _roff(" ".join((parameter.help or "").split())))


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _usage(parameter: Any) -> str:
    return rf"\fI{_roff(parameter.metavar or parameter.name.upper())}\fR"


def _entry(word: str, meaning: str) -> Iterator[str]:
    yield from (".TP", rf"\fB{_roff(word)}\fR", _roff(meaning))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def _roff(text: str) -> str:
    """`text` escaped for roff: no line begins with a control character, and hyphens can be copied."""
    # A plain hyphen becomes a typographic one in some formats, and a copied option would not be recognised.
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text
