"""The command tree: commands are imported when they are called or asked for their help, as `drlib.cli.commands` lists them.

Rules: `drlib --help` imports no command, and a command's help or usage error only its own module, which imports at its top
what parsing its options needs; what it works with is imported when it runs. Help is plain text, as wide as the terminal
allows, with examples at its end.
Not for: what a command does; exit codes and signals (`drlib.cli.process`).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from drlib.cli import commands
from drlib.cli.commands import Example
from drlib.errors import UsageError
from drlib.outgoing.terminal import show

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter
    from typer._click.shell_completion import CompletionItem

WIDEST: Final = 100  # columns of help
_INDENT: Final = "  "


class CommandTree(TyperGroup):
    """The commands of the table, by task. One is imported when it is looked up."""

    def list_commands(self, ctx: Context) -> list[str]:
        return list(commands.names())

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in self.commands and (entry := commands.find(cmd_name)) is not None:
            self.commands[cmd_name] = load(entry)
        return self.commands.get(cmd_name)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(args[0], commands.names(), 1)
            hint = f"Did you mean: drlib {near[0]}? All commands: " if near else "All commands: "
            raise UsageError(args[0], "there is no such command", f"{hint}drlib --help")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        from typer._click.shell_completion import CompletionItem

        entries = (each for task in commands.TASKS.values() for each in task if each.name.startswith(incomplete))
        options = super(TyperGroup, self).shell_complete(ctx, incomplete)
        return [*(CompletionItem(each.name, help=each.summary) for each in entries), *options]

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        width = max(map(len, commands.names()))
        for task, entries in commands.TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(each.name.ljust(width), each.summary) for each in entries])
        formatter.write(
            f"\n{examples_text(commands.FIRST)}\n\nOptions of a command, with examples: drlib COMMAND --help\n"
        )


def load(entry: commands.Command) -> Command:
    """Import the command, and give it and its subcommands their examples."""
    module, _, name = entry.home.partition(":")
    home = getattr(import_module(module), name)
    if not isinstance(home, typer.Typer):
        application = typer.Typer(add_completion=False, rich_markup_mode=None)
        application.command(entry.name)(home)
        home = application
    command = get_command(home)
    command.name = entry.name
    _complete(command, entry.name)
    return command


def _complete(command: Command, words: str) -> None:
    """Plain text, the table's summary in the list of its group, and examples."""
    if isinstance(command, TyperCommand | TyperGroup):
        command.rich_markup_mode = None
    command.short_help = commands.SUMMARIES.get(words)
    command.epilog = f"\b\n{examples_text(commands.EXAMPLES.get(words, ()))}"
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            _complete(each, f"{words} {name}")


def examples_text(examples: Iterable[Example]) -> str:
    """Each example on a line as it is typed, what it does below."""
    lines = [f"{_INDENT}{each.line}\n{_INDENT * 3}{each.what}" for each in examples]
    return "\n".join(["Examples:", *lines])


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        show(f"drlib {version('drlib')}")
        raise typer.Exit


app = typer.Typer(
    name="drlib",
    cls=CommandTree,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)


@app.callback()
def options(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Mirror Kafka clusters exactly, and practise failing over."""
    if context.obj is not None:  # to be called when a command begins
        context.obj()
