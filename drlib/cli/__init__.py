"""The `drlib` command: thin typer commands over the layers below.

Rules: every `DrlibError` becomes one line on stderr (what, why, what to do) and its exit code, never a traceback; usage
errors exit 2; heavy packages are imported by the command that needs them. Exit codes: 0 pass, 1 internal, 2 usage,
3 readiness gate, 4 hypothesis failed before, 5 deviated and rolled back, 6 deviated, 7 objective missed, 8 aborted,
9 approval missing, 10 lease held, 11 unreachable, 12 stale plan.
"""

import sys
from typing import NoReturn

import typer

from drlib.errors import Aborted, DrlibError
from drlib.extras import missing_extra
from drlib.formats import one_line
from drlib.outgoing.terminal import show


def main() -> None:
    """Entry point of the `drlib` command."""
    from drlib.cli.app import app

    try:
        code = app(standalone_mode=False)
    except DrlibError as error:
        _fail(error)
    except ImportError as error:
        missing = missing_extra(error, " ".join(["drlib", *sys.argv[1:2]]))
        if missing is None:
            raise
        _fail(missing)
    except KeyboardInterrupt:
        sys.exit(Aborted.exit_code)
    except typer.Abort:
        sys.exit(Aborted.exit_code)
    except Exception as error:
        if error.__class__.__name__ == "NoArgsIsHelpError":
            show(getattr(error, "format_message", error.__str__)())
            sys.exit(2)
        if error.__class__.__module__.startswith(("click", "typer")):
            said = getattr(error, "format_message", error.__str__)
            print_error(f"{said()} Run 'drlib --help'.")
            sys.exit(2)
        raise
    sys.exit(code if isinstance(code, int) else 0)


def print_error(text: str) -> None:
    """One line on standard error, whatever names and messages from outside `text` quotes."""
    show(f"drlib: {one_line(text)}", error=True)


def _fail(error: DrlibError) -> NoReturn:
    print_error(str(error))
    sys.exit(error.exit_code)
