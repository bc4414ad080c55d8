"""Ctrl-C at any moment, closed pipes and files, and which modules a command line loads: the process as a shell sees it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from command_line import drlib, error_line
from processor_time import cpu_s, slower
from repository_root import ROOT

from drlib.cli.process import READER_GONE, STOPPED, run_command

# Interrupts itself at its n-th import after the first line of `drlib.cli.process`; prints how many there were for n = 0.
INTERRUPTED = """\
import os, signal, sys
at, count, counting = int(sys.argv.pop(1)), 0, False
def hook(event, arguments):
    global count, counting
    if event == "import":
        counting = counting or arguments[0] == "drlib.cli.process"
        count += counting
        if counting and count == at:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
sys.argv[0] = "drlib"
from drlib.cli import main
try:
    main()
finally:
    if not at:
        print(count, file=sys.stderr)
"""
HELP_CPU_S, USAGE_CPU_S = 0.3, 0.5  # processor time of help, and of a usage error
# What only commands that run may load.
HEAVY = (
    "aiokafka",
    "asyncio",
    "confluent_kafka",
    "cryptography",
    "IPython",
    "ipywidgets",
    "jinja2",
    "kafka",
    "nbclient",
    "nbformat",
    "numpy",
    "pandas",
    "papermill",
    "plotly",
    "pyarrow",
    "pyspark",
)
LOADED = """\
import atexit, sys
def tell():
    print(len(sys.modules), *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
atexit.register(tell)
sys.argv[0] = "drlib"
from drlib.cli import main
main()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = LEFT, RIGHT\nLEFT.bootstrap.servers = 127.0.0.1:1\nRIGHT.bootstrap.servers = 127.0.0.1:2\n"
        "LEFT->RIGHT.enabled = true\n"
    )
    return path


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With Ctrl-C as at a terminal, also where the tests run in the background of a shell, where it is ignored."""
    command = [sys.executable, "-c", code, *arguments]
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    own = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}  # which loads a module
    return subprocess.run(
        command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=60, check=False, preexec_fn=default
    )


def interrupted(at: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(INTERRUPTED, str(at), *arguments)


@pytest.mark.parametrize(
    "words", [("--help",), ("doctor", "FILE"), ("mirror", "FILE"), ("run", "rehearse-failover", "FILE")]
)
def test_interrupt_while_a_command_loads_is_one_line_and_exit_code_130(words: tuple[str, ...], file: Path) -> None:
    """At moments that are spread over all that is imported, from the first one on."""
    arguments = [str(file) if word == "FILE" else word for word in words]
    count = LAST_IMPORT[words[0]]
    for at in (1, count // 8, count // 3, count * 2 // 3, count):
        result = interrupted(at, *arguments)
        assert (result.returncode, result.stderr) == (STOPPED, "drlib: stopped by Ctrl-C\n"), at


# Imports that each command does at least before it asks a cluster or has printed its help.
LAST_IMPORT = {"--help": 60, "doctor": 500, "mirror": 500, "run": 700}


def test_interrupt_in_a_finalizer_is_raised_again_and_one_in_a_wrapper_is_found() -> None:
    """A finalizer's interrupt would be a printed traceback, and be lost; Python 3.11 wraps that of `__set_name__`."""
    program = """\
import signal, sys, types
from drlib.cli import process
class Interrupted:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
class Named:
    def __set_name__(self, owner, name):
        raise KeyboardInterrupt
def finalizer():
    Interrupted()
    while True:
        pass
def wrapped():
    type("Owner", (), {"name": Named()})
def begin():
    process.command_begins()
    globals()[sys.argv[1]]()
    return 0
process._invoke = begin
process.leave_when_interrupted()
sys.exit(process.run_command())
"""
    for how in ("finalizer", "wrapped"):
        result = python(program, how)
        assert (result.returncode, result.stderr) == (STOPPED, "drlib: stopped by Ctrl-C\n"), how


def test_interrupt_that_the_shell_has_ignored_stays_ignored() -> None:
    program = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPTED
    result = python(program, "20", "--version")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [("--help",), ("incident", "list"), ("config", "explain", "FILE"), ("--version",)]
)
def test_reader_that_is_gone_ends_the_command_silently(arguments: tuple[str, ...], file: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    words = [str(file) if word == "FILE" else word for word in arguments]
    command = [sys.executable, "-m", "drlib.cli", *words]
    result = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (READER_GONE, "")


def test_reader_of_both_outputs_that_is_gone_ends_a_command_that_fails(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "drlib.cli", "doctor", str(tmp_path / "none.properties")]
    result = subprocess.run(command, cwd=ROOT, stdout=write, stderr=write, timeout=60, check=False)
    os.close(write)
    assert result.returncode == READER_GONE


def test_output_that_cannot_be_written_is_said_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "drlib.cli", "--help"]
        result = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert result.returncode == 1
    assert (
        result.stderr
        == "drlib: the output cannot be written: No space left on device. Make room, or write elsewhere.\n"
    )


def test_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    limited = f"ulimit -f 0; exec {sys.executable} -m drlib.cli notebook --copy --no-browser"
    result = subprocess.run(
        ["sh", "-c", limited],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith(f"drlib: {tmp_path / 'notebooks'}/")
    assert result.stderr.endswith(" cannot be written: File too large. Make room, or write elsewhere.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "rehearse-failover"), 2, "drlib run rehearse-failover connect-mirror-maker.properties"),
        (("plan", "rehearse-failover"), 2, "drlib plan rehearse-failover connect-mirror-maker.properties"),
        (("failback", "FILE"), 11, "RIGHT does not say where LEFT->RIGHT stands"),
        (("failover", "FILE"), 11, "RIGHT cannot take over"),
    ],
)
def test_standard_input_that_is_closed_answers_no_question(
    arguments: tuple[str, ...], code: int, words: str, file: Path
) -> None:
    given = [str(file) if word == "FILE" else word for word in arguments]
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "drlib.cli", *given]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == code, result.stderr
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def answered(text: str, *arguments: str, cwd: Path) -> tuple[int, str]:
    """What a command ends with whose question is answered with `text` at a terminal, and what the terminal shows."""
    controlling, terminal = pty.openpty()
    command = [sys.executable, "-m", "drlib.cli", *arguments]
    with subprocess.Popen(command, cwd=cwd, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        shown = os.read(controlling, 1000)
        os.write(controlling, text.encode())
        while True:
            try:
                shown += os.read(controlling, 1000)
            except OSError:  # the terminal's other side is closed: it ended
                break
    os.close(controlling)
    return process.returncode, shown.decode()


def test_run_without_a_file_asks_for_it_at_a_terminal(tmp_path: Path) -> None:
    code, shown = answered(
        "nowhere.properties\n", "run", str(ROOT / "runbooks" / "rehearse-failover.yaml"), cwd=tmp_path
    )
    assert "which connect-mirror-maker.properties file?" in shown
    assert "drlib: nowhere.properties cannot be read: No such file or directory." in shown
    assert "(drlib lab up writes one)." in shown.replace("\r\n", "")
    assert (code, list(tmp_path.iterdir())) == (2, [])


def test_question_that_is_not_answered_ends_the_command_in_one_line(tmp_path: Path) -> None:
    code, shown = answered("\x04", "run", str(ROOT / "runbooks" / "rehearse-failover.yaml"), cwd=tmp_path)
    assert "\ndrlib: stopped: the question was not answered" in shown
    assert "Traceback" not in shown
    assert (code, list(tmp_path.iterdir())) == (STOPPED, [])


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (("--help",), 200),
        (("--version",), 260),
        (("nonsense",), 290),
        (("lab", "up", "--help"), 360),
        (("failover",), 360),
        (("failback",), 350),
        (("mirror",), 360),
        (("status",), 360),
        (("doctor",), 360),
        (("run",), 420),
        (("run", "failover-dril"), 340),
        (("run", "rehearse-failover"), 480),
        (("mirror", "nowhere.properties"), 480),
    ],
)
def test_help_and_usage_error_load_little(arguments: tuple[str, ...], most: int) -> None:
    """Time is spent on imports: bounds on their number and on the processor time keep both fast."""
    count, *names = python(LOADED, *arguments).stderr.splitlines()[-1].split()
    assert set(HEAVY) & set(names) == set()
    assert int(count) <= most
    asked = arguments[0].startswith("--") or "--help" in arguments
    assert cpu_s("-m", "drlib.cli", *arguments) < (HELP_CPU_S if asked else USAGE_CPU_S) * slower()


def test_version_is_that_of_the_package() -> None:
    result = drlib("--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("drlib 0.")


def test_error_about_a_path_that_was_given_is_one_of_usage_wherever_it_was_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails() -> int:
        raise IsADirectoryError(21, "Is a directory", str(tmp_path / "given" / "below"))

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("drlib.cli.process._invoke", fails)
    monkeypatch.setattr(sys, "argv", ["drlib", "lab", "up", f"--dir={tmp_path / 'given'}"])
    assert run_command() == 2
    assert "below cannot be used: Is a directory. Give another path." in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["drlib", "lab", "up"])
    with pytest.raises(IsADirectoryError):
        run_command()
    assert signal.getsignal(signal.SIGINT) is before


def test_long_name_is_one_line() -> None:
    assert "File name too long" in error_line(drlib("abort", "n" * 300), 2)
