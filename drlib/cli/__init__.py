"""The `drlib` command: thin typer commands over the layers below.

Rules: every `DrlibError` becomes one line on stderr (what, why, what to do) and its exit code, never a traceback; usage
errors exit 2; heavy packages are imported by the command that needs them. Exit codes: 0 pass, 1 internal, 2 usage,
3 readiness gate, 4 hypothesis failed before, 5 deviated and rolled back, 6 deviated, 7 objective missed, 8 aborted,
9 approval missing, 10 lease held, 11 unreachable, 12 stale plan; of the process: 130 Ctrl-C, 141 the reader of the output is
gone. This module imports nothing at its top, so that Ctrl-C is handled from the first moment on.
"""


def main() -> None:
    """Entry point of the `drlib` command."""
    try:
        from drlib.cli import process

        process.leave_when_interrupted()
        code = process.run_command()
        process.ends()
    except KeyboardInterrupt:
        from drlib.cli import process

        code = process.stopped()
    raise SystemExit(code)


def print_error(text: str) -> None:
    """One line on standard error, whatever names and messages from outside `text` quotes."""
    from drlib.formats import one_line
    from drlib.outgoing.terminal import show

    show(f"drlib: {one_line(text)}", error=True)
