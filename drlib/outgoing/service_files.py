"""Text in files that systemd, cron and Airflow read, and that root may install: a value becomes no line and no command.

Rules: a file is a constant template, and `fill` takes only `Escaped` values, which only functions of this module make: mypy
checks the first, `tests/repository/test_text_boundaries.py` the second. What people read (titles, names) is escaped. What the
file acts on (paths, commands) keeps its meaning, or is refused: a path that would have to be changed leads elsewhere.
Sources: systemd.syntax(7), systemd.service(5) "Command lines", systemd's `config_parse` (where lines end and continue) and
`config_parse_exec`; crontab(5); Jinja templates in Airflow's BashOperator.
Not for: which directives a file has, nor for installing it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NewType, NoReturn

from drlib.errors import UsageError
from drlib.formats import one_line

Escaped = NewType("Escaped", str)

_UNIT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_USER: Final = re.compile(
    r"[A-Za-z_][A-Za-z0-9_-]{0,30}|[1-9][0-9]{0,9}|0"
)  # systemd's valid_user_group_name, strict; a UID
_PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9_./:=@,+%-]+")


def fill(template: str, **values: Escaped) -> Escaped:
    """`template`, a constant, with `values` in its `{name}` fields."""
    return Escaped(template.format(**values))


def comment(text: str) -> Escaped:
    """One comment line of a unit or a crontab, without its end. In Python it could name the file's encoding (PEP 263)."""
    return Escaped(f"# {one_line(text)}")


def joined(parts: Iterable[Escaped]) -> Escaped:
    """Filled templates, one after the other."""
    return Escaped("".join(parts))


def unit_name(name: str) -> Escaped:
    """A unit's name without its suffix, as it also may name folders and files. Raises `UsageError`."""
    if not _UNIT_NAME.fullmatch(name):
        raise UsageError(
            f"'{name}' is no unit name",
            "drlib takes letters, digits, `_`, `.` and `-`, a letter or digit first, 200 at most",
            "Correct it.",
        )
    return Escaped(name)


def unit_user(name: str) -> Escaped:
    """A user's name or number. Raises `UsageError`."""
    if not _USER.fullmatch(name):
        raise UsageError(
            f"'{name}' is no user", "systemd takes letters, digits, `_` and `-`, or a number", "Correct --user."
        )
    return Escaped(name)


def unit_text(text: str) -> Escaped:
    """A value that people read, such as `Description=`: one line, no specifier, and no backslash that continues it."""
    return Escaped(one_line(text).rstrip("\\ ").replace("%", "%%"))


def unit_path(path: Path) -> Escaped:
    """The path that is a whole value, such as `WorkingDirectory=`. Raises `UsageError`."""
    text = str(path)
    if not path.is_absolute():
        _refuse(text, "systemd", "it is not absolute")
    if not text.isprintable() or text != text.strip() or set(text) & set("\\\"'"):
        _refuse(text, "systemd", "it has a control character, a quote, a backslash, or a blank at its end")
    return Escaped(text.replace("%", "%%"))


def unit_command(argv: Sequence[str]) -> Escaped:
    """The value of `ExecStart=` that runs `argv`, whose first is a path. Raises `UsageError`."""
    program, *arguments = argv
    path = unit_path(Path(program))  # in which systemd replaces no variables
    return Escaped(" ".join([f'"{path}"' if " " in path else path, *map(unit_argument, arguments)]))


def unit_argument(text: str) -> Escaped:
    """One argument of a command. Raises `UsageError` for what no argument can have: NUL, and bytes that are no UTF-8."""
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        _refuse(text, "systemd", "it has NUL or bytes that are not UTF-8")
    escaped = text.replace("%", "%%").replace("$", "$$")
    if _PLAIN_WORD.fullmatch(escaped):
        return Escaped(escaped)
    return Escaped('"' + "".join(map(_unit_letter, escaped)) + '"')


def _unit_letter(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cron_command(folder: Path, argv: Sequence[str]) -> Escaped:
    """The command of a crontab line: `argv` in `folder`. Raises `UsageError` for what crontab(5) cannot say."""
    for text in (str(folder), *argv):
        # Some versions of cron drop a backslash before a backslash, others do not: `\%` would mean two things.
        if not text.isprintable() or "\\" in text:
            _refuse(text, "a crontab", "it has a control character, a line break or a backslash")
    command = f"cd {shlex.quote(str(folder))} && {shlex.join(argv)}"
    return Escaped(command.replace("%", r"\%"))  # crontab(5): a bare % is a line end


def python_text(text: str) -> Escaped:
    """A Python literal, in ASCII."""
    return Escaped(ascii(text))


def airflow_template(text: str) -> Escaped:
    """A Python literal for a field that Airflow renders with Jinja, and would read from a file that ends in `.sh`."""
    return python_text(text.replace("{", "{{ '{' }}") + ("{# #}" if text.endswith((".sh", ".bash")) else ""))


def _refuse(text: str, reader: str, why: str) -> NoReturn:
    raise UsageError(
        f"`{text}` cannot be written for {reader}", why, "Rename it, or give a link to it with a plain name."
    )
