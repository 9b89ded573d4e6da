"""The home folder by its short names, which a shell does not always replace."""

import re
from pathlib import Path

_SHORT = re.compile(r"~(?=/|$)|\$HOME(?=/|$)|\$\{HOME\}(?=/|$)")
_IN_ARGUMENT = re.compile(
    r"""(^|[\[{,:]\s*)(['"]?)(?:~(?=[/,\]}'"]|$)|\$\{HOME\}(?=[/,\]}'"]|$))"""
)


def in_home(path: str) -> str:
    """Replace `~`, `$HOME` or `${HOME}` at the beginning of a path by the home folder."""
    if (short := _SHORT.match(path)) is None:
        return path
    return f"{Path.home()}{path[short.end() :]}"


def name_home(argument: str) -> str:
    """Write every `~` and `${HOME}` at a path's beginning in `key=value` as `$HOME`.

    Hydra reads that as it is; of the other two it takes the first for an error, and the second for
    a setting's name.
    """
    key, equals, value = argument.partition("=")
    return key + equals + _IN_ARGUMENT.sub(r"\1\2$HOME", value)
