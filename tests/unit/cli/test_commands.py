"""The table of commands: what it lists exists, what exists is listed, and what it shows as an example is accepted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest
from repository_root import ROOT
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from drlib.cli import commands
from drlib.cli.app import app, load

if TYPE_CHECKING:
    from typer._click import Command

COLUMNS = 80
INDENT = 13  # of a summary, below the longest name


@cache
def leaves() -> dict[str, Command]:
    """Every command and subcommand that does something, by its words."""
    found: dict[str, Command] = {}
    for name in commands.names():
        entry = commands.find(name)
        assert entry is not None
        loaded = load(entry)
        if not isinstance(loaded, TyperGroup):
            found[name] = loaded
            continue
        found.update({f"{name} {word}": each for word, each in loaded.commands.items()})
    return found


def all_words() -> Iterator[str]:
    yield from commands.names()
    yield from (words for words in leaves() if " " in words)


def test_command_has_examples_and_every_subcommand_a_summary() -> None:
    assert set(all_words()) == set(commands.EXAMPLES)
    assert {words for words in leaves() if " " in words} == set(commands.SUMMARIES)
    assert [words for words, examples in commands.EXAMPLES.items() if not examples] == []


def test_summary_fits_on_its_line() -> None:
    summaries = [each.summary for task in commands.TASKS.values() for each in task] + list(commands.SUMMARIES.values())
    assert [each for each in summaries if len(each) + INDENT > COLUMNS - 2] == []


@pytest.mark.parametrize("words", list(commands.EXAMPLES))
def test_example_is_of_its_command_or_group(words: str) -> None:
    assert [each.line for each in commands.EXAMPLES[words] if not f"{each.line} ".startswith(f"drlib {words} ")] == []


@pytest.mark.parametrize(
    "line", sorted({each.line for examples in (commands.FIRST, *commands.EXAMPLES.values()) for each in examples})
)
def test_example_is_accepted_by_the_parser(line: str) -> None:
    accepted(line)


def accepted(line: str) -> None:
    """Parse a command line as the shell and drlib do, and run nothing. Raises what the parser raises."""
    name, *arguments = shlex.split(re.split(r" [|>] ", line)[0])
    assert name == "drlib"
    words = " ".join(arguments[:2]) if " ".join(arguments[:2]) in leaves() else arguments[0]
    command = leaves().get(words)
    if command is None:
        assert words == "runs", line  # the one group that does something by itself
        entry = commands.find(words)
        assert entry is not None
        command = load(entry)
    command.make_context(words, arguments[len(words.split()) :], obj=None).close()


def test_command_line_of_the_readme_is_accepted() -> None:
    text = (ROOT / "README.md").read_text()
    lines = [line for line in re.findall(r"^    (drlib .+?)(?:  .*)?$", text, re.MULTILINE) if "|" not in line]
    lines = [
        line.replace("[--watch]", "--watch").replace("[", "").replace("]", "").removesuffix(" &") for line in lines
    ]
    assert len(lines) > 3
    for line in lines:
        accepted(line)


@pytest.mark.parametrize("words", list(commands.EXAMPLES))
def test_help_of_a_command_ends_with_its_examples(words: str) -> None:
    shown = CliRunner().invoke(app, [*words.split(), "-h"])
    assert shown.exit_code == 0
    _, _, examples = shown.output.partition("\n  Examples:\n")
    assert [each.line for each in commands.EXAMPLES[words] if f"    {each.line}\n" not in examples] == []
    assert "\x1b" not in shown.output


def test_help_lists_commands_by_task() -> None:
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0
    for task, entries in commands.TASKS.items():
        _, _, rest = shown.output.partition(f"\n{task}:\n")
        section = rest.partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in section] == [each.name for each in entries]
    assert max(map(len, shown.output.splitlines())) <= COLUMNS


@pytest.mark.parametrize("words", [(), ("lab",), ("lab", "up"), ("mirror",), ("runs",), ("incident", "start")])
def test_short_help_option_shows_what_the_long_one_does(words: tuple[str, ...]) -> None:
    short, long = (CliRunner().invoke(app, [*words, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output)


def test_commands_of_the_table_are_those_of_the_application() -> None:
    tree = get_command(app)
    assert isinstance(tree, TyperGroup)
    with tree.make_context("drlib", ["mirror"], resilient_parsing=True) as context:
        assert tree.list_commands(context) == list(commands.names())
        assert tree.get_command(context, "nonsense") is None


@pytest.mark.parametrize("command", ["run", "doctor", "bootstrap", "inventory"])
def test_help_of_a_command_explains_each_option_and_argument_without_names_of_types(command: str) -> None:
    tree = get_command(app)
    assert isinstance(tree, TyperGroup)
    with tree.make_context("drlib", [command], resilient_parsing=True) as context:
        found = tree.get_command(context, command)
        assert found is not None
        assert [each.name for each in found.params if not getattr(each, "help", "")] == []
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"}).output
    options = shown.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert re.findall(r"<(?:list|str|int|float|path)[^>]*>", options) == []
    assert max(map(len, shown.partition("\n  Examples:\n")[0].splitlines())) <= 80
