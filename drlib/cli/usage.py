"""The one line of a usage error: which command, what is wrong with its line, and what to type instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from drlib.cli import commands

# The parser's words, and ours.
_WORDS: Final = (
    (re.compile(r"^No such option: (\S+)"), r"there is no option \1"),
    (re.compile(r" \(Possible options: (.+)\)$"), r". Did you mean \1?"),
    (re.compile(r"^No such command '(.+?)'"), r"there is no '\1'"),
    (re.compile(r"^Missing (?:argument|option) '(.+?)'"), r"\1 is missing"),
    (re.compile(r"^Invalid value for '(.+?)': "), r"\1: "),
    (re.compile(r"(?i): (?:value error, )?input should"), ": it should"),
    (re.compile(r": Value error, "), ": "),
    (re.compile(r"^Option '(.+?)' requires an argument"), r"\1: its value is missing"),
    (re.compile(r"^Got unexpected extra argument\S* \((.+)\)"), r"unexpected: \1"),
)


def usage_error(message: str, arguments: Sequence[str]) -> str:
    """What, why, and the next command, of the parser's `message` about a command line.

    Where something is missing, the next command is an example of the same command, with the option whose value is missing.
    """
    words = command_of(arguments)
    why = " ".join(message.split()).rstrip(".")
    for theirs, ours in _WORDS:
        why = theirs.sub(ours, why)
    why = why if why.endswith("?") else f"{why}."
    about = " ".join(["drlib", *words, "--help"])
    option = re.match(r"(--\S+?):? ", why)
    examples = [
        each.line
        for each in commands.EXAMPLES.get(" ".join(words), ())
        if option is None or option[1] in each.line.split()
    ]
    hint = f"For example: {examples[0]}  (all options: {about})" if "missing" in why and examples else f"See: {about}"
    return f"{' '.join(words) or 'the command line'}: {why} {hint}"


def command_of(arguments: Sequence[str]) -> tuple[str, ...]:
    """The words of the command, such as `lab up`; empty where the first word is none."""
    words: tuple[str, ...] = ()
    while len(words) < len(arguments) and " ".join((*words, arguments[len(words)])) in commands.EXAMPLES:
        words = (*words, arguments[len(words)])
    return words
