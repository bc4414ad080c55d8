"""One wait for every step: what ends it, and what it says then."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drlib.errors import Aborted, Unreachable
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_for, wait_on_lab

FULL = """\
import resource, signal, sys
from pathlib import Path
from drlib.runs.abort import Abort
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
abort = Abort(Path(sys.argv[1]))
abort.request("SIGINT")
print(abort.requested)
"""


def test_wait_ends_as_soon_as_the_condition_holds(tmp_path: Path) -> None:
    answers = iter([False, False, True])
    wait_for(Abort(tmp_path), "three looks", lambda: next(answers), 60.0, "Look.", look_s=0.001)
    assert next(answers, None) is None


@pytest.mark.parametrize("abort", [True, False])
def test_wait_deadline_names_the_condition_and_the_remedy(tmp_path: Path, abort: bool) -> None:
    with pytest.raises(Unreachable, match=r"waited for: godot: this did not happen within 0.01 s\. Look at the road"):
        wait_for(Abort(tmp_path) if abort else None, "godot", lambda: False, 0.01, "Look at the road.", look_s=0.001)


def test_wait_abort_ends_it_before_and_during_the_first_check(tmp_path: Path) -> None:
    looked: list[float] = []
    abort = Abort(tmp_path)

    def never() -> bool:
        looked.append(time.monotonic())
        if len(looked) == 2:
            threading.Thread(target=abort.request, args=("another operator",)).start()
        return False

    with pytest.raises(Aborted, match="another operator asked for it"):
        wait_for(abort, "nothing", never, 60.0, "Look.", look_s=0.001)
    seen = len(looked)
    with pytest.raises(Aborted):
        wait_for(abort, "nothing", never, 60.0, "Look.")
    assert len(looked) == seen


def test_abort_on_a_full_disk_still_stops(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    with pytest.raises(Aborted, match="unknown user asked for it"):  # the run, in another process
        Abort(tmp_path).check()


def test_wait_tolerates_short_silence_and_reports_a_lasting_one(tmp_path: Path) -> None:
    silent = Unreachable("LEFT gave no answer", "connection refused", "Look.")
    answers: Iterator[Unreachable | bool] = iter([silent, True])

    def once() -> bool:
        answer = next(answers)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    def always() -> bool:
        raise silent

    wait_on_lab(Abort(tmp_path), "LEFT serves", once, 60.0, tmp_path)
    with pytest.raises(Unreachable, match=r"within 0 s; LEFT gave no answer: connection refused\. See the logs in"):
        wait_on_lab(Abort(tmp_path), "LEFT serves", always, 0.0, tmp_path)
    with pytest.raises(Unreachable, match="LEFT gave no answer: connection refused"):
        wait_for(None, "LEFT serves", always, 60.0, "Look.")  # elsewhere an error ends the wait


def test_wait_with_progress_lasts_until_it_stands_still(tmp_path: Path) -> None:
    """Ten steps, each within the deadline, take several deadlines together."""
    began, count = time.monotonic(), 0

    def progress() -> float:
        nonlocal count
        count = min(10, int((time.monotonic() - began) / 0.02))
        return count

    wait_for(Abort(tmp_path), "ten", lambda: count == 10, 0.1, "Look.", look_s=0.001, progress=progress)
    assert time.monotonic() - began > 0.15
    with pytest.raises(Unreachable, match=r"eleven: this did not happen within 0.1 s of the last progress\. Look"):
        wait_for(None, "eleven", lambda: count == 11, 0.1, "Look.", look_s=0.001, progress=progress)


def test_wait_progress_that_falls_back_and_returns_is_none(tmp_path: Path) -> None:
    swings = itertools.cycle([3.0, 1.0, 2.0, 3.0])
    with pytest.raises(Unreachable, match="of the last progress"):
        wait_for(None, "more", lambda: False, 0.05, "Look.", look_s=0.001, progress=lambda: next(swings))
