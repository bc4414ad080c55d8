"""The environment variables that a child process gets: an allow-list, and what is named for it.

Rules: this process's environment holds what references (`${env:NAME}`) resolve to, and whatever else the operator exported. A
program that drlib starts gets variables by name only: those that any program needs, drlib's own settings, and those that
are named for it. Only a Python of drlib's own, which has to resolve references itself, gets all of it (`whole`).
Not for: a child's arguments, which every user of a machine can list: no secret is ever one.
"""

import os
from collections.abc import Mapping
from typing import Final

# What programs need to run at all: search paths, the user's folders, language and time zone, and where temporary files go.
NEEDED: Final = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TMPDIR", "XDG_CACHE_HOME",
        "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "TZ",
    }
)  # fmt: skip
OURS: Final = "DRLIB_"
FORCED: Final = frozenset({"FORCE_COLOR", "CLICOLOR_FORCE"})  # colours and progress bars, whatever the output is


def child_environment(
    more: Mapping[str, str] | None = None, *, parent: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What `parent` (by default this process) has of `NEEDED` and of drlib's own, then `more`."""
    have = os.environ if parent is None else parent
    return {
        **{name: value for name, value in have.items() if name in NEEDED or name.startswith(OURS)},
        **(more or {}),
    }


def whole(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """All of this process's variables and `more`: for drlib's own Python processes, which resolve references.

    But those of `FORCED`: a Jupyter kernel has them, and the output of these processes goes to files, where others read it.
    """
    return {**{name: value for name, value in os.environ.items() if name not in FORCED}, **(more or {})}
