"""The command line as a user starts it: a process, its output and its exit code."""

import os
import subprocess
import sys

from repository_root import ROOT

from drlib.cli.process import run_command


def drlib(*arguments: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
    """Run the command; an environment variable that is None is taken away."""
    env = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    command = [sys.executable, "-m", "drlib.cli", *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def drlib_here(*arguments: str) -> int:
    """The same in this process, whose signal handlers it leaves alone; the exit code. Who calls it puts `sys.argv` back."""
    sys.argv[:] = ["drlib", *arguments]
    return run_command()


def error_line(result: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line on stderr, of a command that ended with `code`."""
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("drlib: ")
    what, _, rest = lines[0].removeprefix("drlib: ").partition(": ")
    why, _, remedy = rest.partition(". ")
    assert what, lines[0]
    assert why, lines[0]
    assert remedy, lines[0]
    return lines[0]
