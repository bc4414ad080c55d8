"""Runbooks on real kernels: a run that fails, dies or is stopped leaves a finished folder and no kernel."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import nbformat
import pytest
from repository_root import TESTS
from tiny_notebook import tiny_runbook, write_notebook

from drlib.drill.run import stored_run
from drlib.drill.run.stored_run import Evidence
from drlib.errors import UsageError
from drlib.runbook.execution.early_kernel import EarlyKernel
from drlib.runbook.execution.execute import KERNEL_LOG, RunResult, execute
from drlib.runbook.execution.interrupt import Stop
from drlib.runbook.file.model import Runbook
from drlib.runs import folder as folders
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Objectives

CARD = """\
from pathlib import Path
from drlib.runs.journal import DrillJournal
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Records, Rpo, RtoSeconds, Scorecard
journal = DrillJournal(Path(run_dir) / "journal.jsonl")
journal.write("step-started", step="conclude")
check = Check(name="it held", verdict=Verdict("{verdict}"), evidence="seen")
card = Scorecard(runbook="tiny", run_id=Path(run_dir).name, verdict=Verdict("{verdict}"), rto_seconds=RtoSeconds(),
    rpo=Rpo(records=0), records=Records(lost=0), groups=(), checks=(check,))
card.write(Path(run_dir) / "scorecard.json")
journal.write("step-succeeded", step="conclude")
"""
PID = "import os\nfrom pathlib import Path\n(Path(run_dir) / 'kernel.pid').write_text(str(os.getpid()))"
FOREVER = "import time\nwhile True:\n    time.sleep(0.05)"
STUBBORN = "import time\nwhile True:\n    try:\n        time.sleep(0.05)\n    except KeyboardInterrupt:\n        pass"


class Reports:
    """Records the reported steps; `at` is called when a step begins."""

    def __init__(self, at: dict[str, Callable[[], object]] | None = None) -> None:
        self.steps: list[tuple[str, float]] = []
        self._at = at or {}

    def __call__(self, step: str, share: float) -> None:
        self.steps.append((step, share))
        self._at.get(step, lambda: None)()


def run(
    book: Runbook, tmp_path: Path, reported: Reports | None = None, stop: Stop | None = None, **given: Any
) -> RunResult:
    """Execute the runbook and assert what holds for every run."""
    result = execute(
        book, given, runs_dir=tmp_path / "runs", lab_dir=None, on_progress=reported or Reports(), stop=stop or Stop()
    )
    assert folders.differences(result.folder) == ()
    listed = (result.folder / folders.MANIFEST).read_text()
    assert all(name in listed for name in ("scorecard.json", "report.html", "executed.ipynb"))
    assert result.report.is_file()
    return result


def executed(result: RunResult) -> nbformat.NotebookNode:
    return nbformat.read(result.folder / "executed.ipynb", as_version=4)


def states(result: RunResult) -> list[str]:
    """The state of each code cell, without the parameters cell."""
    cells = [c for c in executed(result).cells if c.cell_type == "code"]
    return [c.metadata.papermill.status for c in cells if "injected-parameters" not in c.metadata.get("tags", ())][1:]


def kernel_pid(path: Path, deadline_s: float = 60) -> int:
    """Wait for the pid that a cell writes below `path`, and return it."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        for found in path.rglob("kernel.pid"):
            if text := found.read_text():
                return int(text)
        time.sleep(0.02)
    raise AssertionError("no kernel wrote its pid")


def gone(pid: int, deadline_s: float = 15) -> bool:
    """Report whether the process ends: the pid does not exist, or is a zombie."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_run_to_the_end_passes_with_a_complete_folder(tmp_path: Path) -> None:
    book = tiny_runbook(
        tmp_path, ("first-step", "assert pace == 4.5 and count == 3"), PID, ("conclude", CARD.format(verdict="pass"))
    )
    reported = Reports()
    result = run(book, tmp_path, reported, pace=4.5)
    assert (result.exit_code, result.error, result.verdict) == (0, "", Verdict.PASS)
    assert [step for step, _ in reported.steps] == ["first step", "conclude"]
    shares = [share for _, share in reported.steps]
    assert 0 < shares[0] < shares[1] < 1
    names = {
        ".executing",
        "executed.ipynb",
        "journal.jsonl",
        "kernel.pid",
        "manifest.sha256",
        "report.html",
        "scorecard.json",
    }
    assert {p.name for p in result.folder.iterdir()} == names
    assert stored_run.read(result.folder).evidence is Evidence.VERIFIED
    assert "PASS" in result.report.read_text()[:2_000_000]
    assert set(states(result)) == {"completed"}
    assert gone(kernel_pid(result.folder), 1)


@pytest.mark.parametrize(("verdict", "code"), [("conditions", 0), ("fail", 6), ("unknown", 6)])
def test_run_exit_code_is_the_scorecard_verdict(tmp_path: Path, verdict: str, code: int) -> None:
    result = run(tiny_runbook(tmp_path, CARD.format(verdict=verdict)), tmp_path)
    assert (result.verdict.value, result.exit_code, result.error) == (verdict, code, "")


def test_run_passes_objectives_to_a_notebook_with_these_parameters(tmp_path: Path) -> None:
    cell = "run_dir: str = ''\nrto_seconds: float = 1.0\n"
    notebook = write_notebook(tmp_path / "n.ipynb", "assert rto_seconds == 30.0", parameters=cell)
    book = Runbook(name="tiny", title="t", notebook=notebook, objectives=Objectives(rto_seconds=30, rpo_records=5))
    result = run(book, tmp_path)
    assert result.scorecard.objectives.rpo_records == 5
    assert result.scorecard.checks[0].evidence == "no scorecard was written"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"paec": 1.0}, "Did you mean pace?"),
        ({"pace": "fast"}, "is not a float"),
        ({"label": "password=hunter2"}, "looks like a secret"),
    ],
)
def test_run_with_wrong_parameters_starts_nothing(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(tiny_runbook(tmp_path, "pass"), tmp_path, **given)
    assert not (tmp_path / "runs").exists()


def test_run_reports_a_drlib_error_with_its_text_and_exit_code(tmp_path: Path) -> None:
    failing = "from drlib.errors import HypothesisFailed\nraise HypothesisFailed('LEFT lags', 'by 9 records', 'Wait.')"
    result = run(tiny_runbook(tmp_path, "1", failing, "never = 1"), tmp_path)
    assert (result.exit_code, result.error) == (4, "LEFT lags: by 9 records. Wait.")
    assert result.verdict is Verdict.UNKNOWN
    assert states(result) == ["completed", "failed", "pending"]
    outputs = [o for c in executed(result).cells if c.cell_type == "code" for o in c.outputs]
    (shown,) = [o.traceback for o in outputs if o.output_type == "error"]
    assert shown == ["HypothesisFailed: LEFT lags: by 9 records. Wait."]
    assert "LEFT lags: by 9 records. Wait." in result.report.read_text()


def test_run_reports_an_unexpected_error_with_type_and_traceback(tmp_path: Path) -> None:
    result = run(tiny_runbook(tmp_path, "1 / 0"), tmp_path)
    assert result.exit_code == 1
    assert "ZeroDivisionError: division by zero" in result.error
    assert "ZeroDivisionError" in (result.folder / "executed.ipynb").read_text()


def test_run_failing_after_a_passing_scorecard_does_not_pass(tmp_path: Path) -> None:
    result = run(tiny_runbook(tmp_path, CARD.format(verdict="pass"), "1 / 0"), tmp_path)
    assert result.exit_code == 1
    assert result.verdict is Verdict.UNKNOWN
    assert [check.verdict for check in result.scorecard.checks] == [Verdict.PASS, Verdict.UNKNOWN]
    assert json.loads((result.folder / "scorecard.json").read_text())["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("scorecard.json", '{"half":', "scorecard.json cannot be read"),
        ("journal.jsonl", '{"seq": 0}\\n', "journal.jsonl was changed after the fact"),
    ],
)
def test_run_with_unreliable_evidence_does_not_pass(tmp_path: Path, name: str, content: str, message: str) -> None:
    spoil = f"(Path(run_dir) / '{name}').write_text('{content}')"
    result = run(tiny_runbook(tmp_path, CARD.format(verdict="pass"), spoil), tmp_path)
    assert result.verdict is Verdict.UNKNOWN
    assert result.exit_code == 6
    assert message in result.scorecard.checks[-1].evidence


def test_run_kernel_death_in_a_cell_leaves_a_finished_folder(tmp_path: Path) -> None:
    dies = f"{PID}\nimport signal\nos.kill(os.getpid(), signal.SIGKILL)"
    result = run(tiny_runbook(tmp_path, "before = 1", dies, "never = 1"), tmp_path)
    assert (result.exit_code, result.error) == (6, "the notebook's kernel died")
    assert result.verdict is Verdict.UNKNOWN
    assert states(result) == ["completed", "failed", "pending"]
    assert gone(kernel_pid(result.folder), 1)


def test_run_kernel_death_ends_its_child_processes(tmp_path: Path) -> None:
    child = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    cell = f"{child}\nfrom pathlib import Path\n(Path(run_dir) / 'kernel.pid').write_text(str(child.pid))"
    result = run(tiny_runbook(tmp_path, cell, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"), tmp_path)
    assert result.exit_code == 6
    assert gone(kernel_pid(result.folder), 5)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_signal_interrupts_the_cell_and_lets_it_clean_up(tmp_path: Path, number: signal.Signals) -> None:
    tidy = f"{PID}\ntry:\n{textwrap.indent(FOREVER, '    ')}\nfinally:\n    (Path(run_dir) / 'tidied').touch()"
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def press() -> None:
        kernel_pid(tmp_path)
        os.kill(os.getpid(), number)

    presser = threading.Thread(target=press)
    result = run(tiny_runbook(tmp_path, ("wait", tidy), "never = 1"), tmp_path, Reports({"wait": presser.start}))
    presser.join()
    assert (result.exit_code, result.verdict) == (8, Verdict.UNKNOWN)
    assert result.error == f"stopped by {number.name}"
    assert (result.folder / "tidied").exists()
    assert states(result) == ["failed", "pending"]
    assert gone(kernel_pid(result.folder), 1)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def test_run_stop_between_cells_starts_no_further_cell(tmp_path: Path) -> None:
    stop = Stop()
    reported = Reports({"first": lambda: stop.__setattr__("signal", signal.SIGTERM)})
    result = run(tiny_runbook(tmp_path, ("first", PID), ("second", "never = 1")), tmp_path, reported, stop)
    assert (result.exit_code, [step for step, _ in reported.steps]) == (8, ["first"])
    assert states(result) == ["completed", "failed"]
    assert gone(kernel_pid(result.folder), 1)


def test_run_kills_a_kernel_that_ignores_interrupts(tmp_path: Path) -> None:
    stop = Stop(grace_s=1.0)

    def press() -> None:
        kernel_pid(tmp_path)
        stop.request(signal.SIGINT)

    presser = threading.Thread(target=press)
    result = run(
        tiny_runbook(tmp_path, ("wait", f"{PID}\n{STUBBORN}")), tmp_path, Reports({"wait": presser.start}), stop
    )
    presser.join()
    assert result.exit_code == 8
    assert gone(kernel_pid(result.folder), 1)


def test_kernel_ends_with_a_killed_run(tmp_path: Path) -> None:
    tiny_runbook(tmp_path, f"{PID}\n{FOREVER}")
    source = (
        "import sys; from pathlib import Path; from tiny_notebook import tiny_runbook\n"
        "from drlib.runbook.execution.execute import execute; from drlib.runbook.file.model import Runbook\n"
        "book = Runbook(name='tiny', title='t', notebook=Path(sys.argv[1]))\n"
        "execute(book, {}, runs_dir=Path(sys.argv[2]), lab_dir=None, on_progress=lambda *_: None)\n"
    )
    argv = [sys.executable, "-c", source, str(tmp_path / "tiny.ipynb"), str(tmp_path / "runs")]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(TESTS)}) as process:
        pid = kernel_pid(tmp_path)
        process.kill()
    assert gone(pid, 30)


def test_run_logs_nothing_and_encrypts_kernel_traffic(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    encrypted = (
        "from IPython import get_ipython\n"
        "import json\nfrom ipykernel.connect import get_connection_file\n"
        "info = json.loads(open(get_connection_file()).read())\n"
        "assert info.get('curve_publickey'), sorted(info)"
    )
    result = run(tiny_runbook(tmp_path, encrypted, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"), tmp_path)
    assert result.error == "the notebook's kernel died"
    output = capfd.readouterr()
    assert (output.out, output.err) == ("", "")


SOCKETS = """\
import json, os, stat
from ipykernel.connect import get_connection_file
info = json.loads(open(get_connection_file()).read())
sockets = [f"{info['ip']}-{info[name]}" for name in info if name.endswith("_port")]
assert info["transport"] == "ipc" and len(sockets) == 5, info["transport"]
assert all(stat.S_ISSOCK(os.stat(path).st_mode) for path in sockets)
assert os.stat(os.path.dirname(info["ip"])).st_mode & 0o777 == 0o700
"""


@pytest.mark.parametrize("soon", [False, True], ids=["of the run", "early"])
def test_kernel_needs_no_tcp_port_and_leaves_no_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soon: bool
) -> None:
    """A port is drawn before the kernel is started, and on a busy machine another process had taken it: no run then began."""
    book = tiny_runbook(tmp_path, SOCKETS, CARD.format(verdict="pass"))
    with tempfile.TemporaryDirectory() as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        with closing(EarlyKernel(book.notebook.parent)) if soon else nullcontext() as early:
            result = execute(
                book, {}, runs_dir=tmp_path / "runs", lab_dir=None, on_progress=Reports(), stop=Stop(), early=early
            )
        assert (result.verdict, result.error) == (Verdict.PASS, "")
        assert not list(Path(place).iterdir())


def test_kernel_whose_folder_is_too_deep_for_a_socket_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert run(tiny_runbook(tmp_path, CARD.format(verdict="pass")), tmp_path).verdict is Verdict.PASS


def test_run_whose_kernel_does_not_start_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt = tmp_path / "modules"
    spoilt.mkdir()
    (spoilt / "ipykernel.py").write_text("raise SystemExit('no room for a kernel')")
    monkeypatch.setenv("PYTHONPATH", str(spoilt))
    result = run(tiny_runbook(tmp_path, "never = 1"), tmp_path)
    log = result.folder / KERNEL_LOG
    said = f"the notebook's kernel did not start: no room for a kernel. Read {log} for more, and start it again."
    assert (result.exit_code, result.error) == (11, said)
    assert result.verdict is Verdict.UNKNOWN


def test_papermill_command_finds_the_engine(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "n.ipynb", "assert pace == 9.0")
    argv = [sys.executable, "-m", "papermill", "--engine", "drlib", "-p", "pace", "9.0", str(notebook), "out.ipynb"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.ipynb").is_file()


@pytest.mark.parametrize(
    ("name", "value"), [("label", "Bearer c4n4ry"), ("auth", "c4n4ry"), ("label", "https://h/c4n4ry")]
)
def test_papermill_command_with_a_secret_as_parameter_writes_nothing(tmp_path: Path, name: str, value: str) -> None:
    notebook = write_notebook(tmp_path / "n.ipynb", "print(label)")
    argv = [sys.executable, "-m", "papermill", "--engine", "drlib", "-p", name, value, str(notebook), "out.ipynb"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "looks like a secret" in done.stderr
    assert "c4n4ry" not in done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["n.ipynb"]


def test_run_keeps_the_output_of_the_kernel_process(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Write to the file descriptor, as librdkafka, a JVM or a dying ipykernel do, past Python's and the notebook's streams."""
    late = "import atexit, os\natexit.register(os.write, 2, b'said on the way out')"
    result = run(tiny_runbook(tmp_path, ("look", late), ("conclude", CARD.format(verdict="pass"))), tmp_path)
    kept = result.folder / "kernel.log"
    assert "said on the way out" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.parametrize("said", ["", "[IPKernelApp] ERROR | KeyboardInterrupt caught in kernel.\n"])
def test_run_kernel_without_output_leaves_no_log(tmp_path: Path, said: str) -> None:
    """Also where ipykernel reports the interrupt with which each kernel's shutdown begins: it is a matter of timing."""
    report = f"import os\nos.write(2, {said.encode()!r})" if said else "pass"
    result = run(tiny_runbook(tmp_path, report, ("conclude", CARD.format(verdict="pass"))), tmp_path)
    kept = result.folder / "kernel.log"
    assert not kept.exists(), kept.read_text()


def test_early_kernel_is_taken_once_and_its_output_is_in_the_log_of_the_run(tmp_path: Path) -> None:
    loud = "import os, sys\nos.write(2, b'from the process')\nassert 'drlib.runbook.open_drill' in sys.modules"
    book = tiny_runbook(tmp_path, PID, loud, CARD.format(verdict="pass"))
    with closing(EarlyKernel(book.notebook.parent)) as early:
        result = execute(
            book, {}, runs_dir=tmp_path / "runs", lab_dir=None, on_progress=Reports(), stop=Stop(), early=early
        )
        assert early.take() is None
    assert (result.verdict, result.error) == (Verdict.PASS, "")
    assert "from the process" in (result.folder / KERNEL_LOG).read_text()
    assert folders.differences(result.folder) == ()
    assert not Path(f"/proc/{(result.folder / 'kernel.pid').read_text()}").exists()


@pytest.mark.parametrize("ready", [True, False])
def test_early_kernel_that_no_run_takes_is_ended(tmp_path: Path, ready: bool) -> None:
    early = EarlyKernel(tmp_path)
    manager = early.take() if ready else None
    early.close()
    if manager is not None:
        pid = manager.provisioner.pid
        assert Path(f"/proc/{pid}").exists()
        asyncio.run(manager.shutdown_kernel(now=True))
    assert early.take() is None
    assert not [line for line in Path("/proc").glob("[0-9]*/cwd") if os.path.realpath(line) == str(tmp_path.resolve())]


def test_early_kernel_that_died_is_replaced_by_one_of_the_run(tmp_path: Path) -> None:
    book = tiny_runbook(tmp_path, PID, CARD.format(verdict="pass"))
    with closing(EarlyKernel(book.notebook.parent)) as early:
        manager = early.take()
        assert manager is not None
        pid = manager.provisioner.pid
        os.kill(pid, signal.SIGKILL)
        manager.provisioner.process.wait()
        early._manager = manager  # as if it had died before it was taken
        result = execute(
            book, {}, runs_dir=tmp_path / "runs", lab_dir=None, on_progress=Reports(), stop=Stop(), early=early
        )
    assert result.verdict is Verdict.PASS
    assert int((result.folder / "kernel.pid").read_text()) != pid
