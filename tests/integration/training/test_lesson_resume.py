"""Lessons that are interrupted anywhere are resumed; lessons that conflict with another worker are refused."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from testbed_lessons import lab_of

from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.lab.workload.mirrors import POLICY, LabMirrors
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.runs.abort import Abort
from drlib.training.academy import progress
from drlib.training.academy.open import open_lesson
from drlib.training.academy.testbed import FAST_RETENTION, FORWARD

pytestmark = pytest.mark.long

FIRST: Mapping[str, str] = {
    "L0": "flow", "L1": "write", "L2": "traffic", "L3": "traffic", "L4": "traffic", "L5": "traffic", "L6": "line",
    "L7": "traffic", "L8": "traffic",
}  # fmt: skip

# A learner's kernel that is killed by SIGKILL right before the lesson's nth access to the clusters.
LEARNER = """
import os, signal, sys
from drlib.training.academy.open import open_lesson
from drlib.training.academy.secured_testbed import SecuredTestbed
from drlib.training.academy.testbed import LessonTestbed

key, lab_dir, run_dir, first, last = sys.argv[1:]
left = int(last)

def counted(testbed, name):
    act = vars(testbed)[name]
    def wrapped(*arguments, **options):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return act(*arguments, **options)
    setattr(testbed, name, wrapped)

ACCESSES = (
    "create_topic", "write", "commit", "start_mirror", "stop_mirror", "wait_mirrored", "wait_no_worker", "wait",
    "check_retention_often", "write_missing",
)
SECURED = ("prepare_users", "begin_flow", "start_mirror", "stop_mirror", "kafka_acls", "launch")
for name in ACCESSES:
    counted(LessonTestbed, name)
for name in SECURED:
    counted(SecuredTestbed, name)
lesson = open_lesson(key, lab_dir, run_dir)
getattr(lesson, first)()
lesson.predict("7")
lesson.break_it()
lesson.apply_reference()
lesson.check()
print(lesson.score())
"""


# A learner's kernel that starts the lab itself, runs the cells up to `last`, and is killed.
KERNEL = """
import os, signal, sys
from drlib.training.academy.open import open_lesson

key, lab_dir, run_dir, *calls = sys.argv[1:]
lesson = open_lesson(key, lab_dir, run_dir)
for call in calls:
    name, _, argument = call.partition("=")
    getattr(lesson, name)(*filter(None, [argument]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a lab that a lesson starts: `lab` in it is down after the test, whatever failed."""
    yield tmp_path
    with suppress(UsageError):
        Lab.attach(tmp_path / "lab").down()


@pytest.fixture(scope="module")
def lesson_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("academy") / "lab", extra=FAST_RETENTION) as shared:
        yield shared


def learner(key: str, lab: Lab, run_dir: Path, last: int) -> subprocess.CompletedProcess[str]:
    deadline_s = 400 if key == "L7" else 150  # L7 runs commands
    argv = [sys.executable, "-c", LEARNER, key, str(lab.root), str(run_dir), FIRST[key], str(last)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=deadline_s, check=False)


def test_open_lesson_other_worker_is_refused_and_its_lane_count_is_kept(lesson_lab: Lab, tmp_path: Path) -> None:
    """Must run first on this lab: another worker creates the flow with one lane, a lesson's worker has two."""
    create_topics(lesson_lab.clusters["LEFT"].bootstrap, [TopicSpec("other", 1)])
    other = LabMirrors(lesson_lab, "other-mirror", "other", (FORWARD,), lanes=1)
    other.start(Abort(lesson_lab.root))
    with pytest.raises(UsageError, match="LEFT->RIGHT is being mirrored") as refused:
        open_lesson("L0", lesson_lab.root, tmp_path)
    assert "a lesson needs the flow for itself" in refused.value.why
    assert "name another lab_dir" in refused.value.remedy
    assert other.runs
    assert progress.read(tmp_path).lessons == {}
    other.stop()
    lesson = open_lesson("L0", lesson_lab.root, tmp_path)
    lesson.flow()  # type: ignore[attr-defined]
    with lesson.testbed.cluster("RIGHT") as right:
        journal = POLICY.journal_topic("LEFT")
        assert right.topics([journal])[journal].partitions == 1
    lesson.predict("3000")
    lesson.break_it()
    lesson.testbed.wait_no_worker()
    other.start(Abort(lesson_lab.root))  # in the middle of the lesson, while its own worker is down
    began = time.monotonic()
    with pytest.raises(UsageError, match="LEFT->RIGHT is being mirrored"):
        lesson.start_mirror()  # type: ignore[attr-defined]
    assert time.monotonic() - began < 15
    assert [row["holds"] for row in lesson.check().rows] == ["not yet"] * 3
    other.stop()
    lesson.start_mirror()  # type: ignore[attr-defined]
    assert [row["holds"] for row in lesson.check().rows] == ["yes"] * 3
    lesson.close()


def test_open_lesson_ends_the_lesson_before_on_the_same_lab(lesson_lab: Lab, tmp_path: Path) -> None:
    before = open_lesson("L3", lesson_lab.root, tmp_path)
    before.traffic()  # type: ignore[attr-defined]
    before.predict("150")
    after = open_lesson("L0", lesson_lab.root, tmp_path)
    for call in (before.break_it, before.check, before.apply_reference):
        with pytest.raises(UsageError, match="L3 has ended"):
            call()
    assert lesson_lab.clusters["LEFT"].alive
    after.close()


def test_open_lesson_leaves_the_open_attempt_of_another_learner_as_it_is(lesson_lab: Lab, tmp_path: Path) -> None:
    lesson = open_lesson("L0", lesson_lab.root, tmp_path / "ours")
    lesson.flow()  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="has an open attempt at L0"):
        open_lesson("L0", lesson_lab.root, tmp_path / "theirs")
    assert lesson.testbed.end_offsets("LEFT", lesson.topic)
    assert lesson.testbed.mirror().runs
    open_lesson("L0", lesson_lab.root, tmp_path / "ours").close()
    open_lesson("L0", lesson_lab.root, tmp_path / "theirs").close()


def kernel_that_is_killed(key: str, folder: Path, *calls: str) -> str:
    """Run the cells in a process that starts the lab and is killed (SIGKILL); returns the tag of its attempt."""
    argv = [sys.executable, "-c", KERNEL, key, str(folder / "lab"), str(folder / "runs"), *calls]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == -9, done.stderr
    current = progress.read(folder / "runs").of(key).current
    assert current is not None
    return current.tag


def test_restarted_kernel_finds_the_lab_that_the_lesson_started_as_it_was(folder: Path) -> None:
    tag = kernel_that_is_killed("L3", folder, "traffic", "predict=300", "break_it")
    before = {one.name: one.pid for one in Lab.attach(folder / "lab").status() if one.alive}
    lesson = open_lesson("L3", folder / "lab", folder / "runs")
    lab = lesson.testbed.lab
    assert lesson.testbed.tag == tag
    assert "new attempt" not in repr(lesson)
    assert {one.name: one.pid for one in lab.status() if one.alive} == before
    assert sorted(before) == ["RIGHT-1", "proxy"]
    assert [row["holds"] for row in lesson.check().rows] == ["not yet"] * 3
    assert lesson.score() == "10 of 100 points."
    lesson.apply_reference()
    assert [row["holds"] for row in lesson.check().rows] == ["yes"] * 3
    assert not lab.clusters["LEFT"].alive
    assert lesson.close().note.startswith("100 of 100 points.")
    assert not (folder / "lab").exists()  # the lesson owns the lab, whichever kernel started it
    assert not any(one.alive for one in lab.status())


def test_attempt_whose_clusters_ended_without_it_is_not_continued_and_says_so(folder: Path) -> None:
    tag = kernel_that_is_killed("L0", folder, "flow", "predict=100")
    Lab.attach(folder / "lab").clusters["RIGHT"].kill()
    lesson = open_lesson("L0", folder / "lab", folder / "runs")
    assert "A new attempt: the one before cannot be continued, as RIGHT-1 ended without it." in repr(lesson)
    assert lesson.testbed.tag != tag
    assert lesson.score() == "0 of 100 points."
    lesson.flow()  # type: ignore[attr-defined]
    second = lesson.testbed.tag
    Lab.attach(folder / "lab").down(keep=True)  # as after a restart of the machine
    lesson = open_lesson("L0", folder / "lab", folder / "runs")
    assert "the one before cannot be continued, as its lab had ended" in repr(lesson)
    assert lesson.testbed.tag != second
    lesson.flow()  # type: ignore[attr-defined]
    assert "new attempt" not in repr(open_lesson("L0", folder / "lab", folder / "runs"))
    lesson.close()
    assert not (folder / "lab").exists()


def test_close_stops_the_started_lab_after_two_openings(folder: Path) -> None:
    open_lesson("L0", folder / "lab", folder / "runs")
    lesson = open_lesson("L0", folder / "lab", folder / "runs")
    lab = lesson.testbed.lab
    assert all(lab.clusters[alias].alive for alias in ("LEFT", "RIGHT"))
    with lesson.testbed.cluster("LEFT") as left:
        assert left.broker_config()["log.retention.check.interval.ms"] == "1000"  # L2 need not restart the broker
    lesson.close()
    lesson.close()
    assert not (folder / "lab").exists()
    assert not any(one.alive for one in lab.status())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("key", list(FIRST))
def test_open_lesson_resumes_after_a_kernel_kill_at_any_access(key: str, lesson_lab: Lab, tmp_path: Path) -> None:
    """Kill the kernel at the first, third, fifth ... access (L7: each fifth); the next one resumes, and all is complete."""
    with lab_of(key, lesson_lab) as lab:
        is_resumed_after_each_kill(key, lesson_lab, lab, tmp_path)


def is_resumed_after_each_kill(key: str, lesson_lab: Lab, lab: Lab, tmp_path: Path) -> None:
    killed, last, tag = 0, 1, ""
    while (done := learner(key, lesson_lab, tmp_path, last)).returncode == -9:
        current = progress.read(tmp_path).of(key).current
        assert current is not None
        assert tag in ("", current.tag), "a new attempt was started instead of resuming"
        killed, last, tag = killed + 1, last + (5 if key == "L7" else 2), current.tag
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()  # before it, L7 shows what kafka-acls.sh prints
    assert said[-1] == "100 of 100 points.", done.stdout
    assert key == "L7" or len(said) == 1, done.stdout
    assert killed > 2
    lesson = open_lesson(key, lesson_lab.root, tmp_path)
    assert lesson.testbed.tag == tag
    assert [row["holds"] for row in lesson.check().rows] == ["yes"] * 3
    assert lesson.close().note.startswith("100 of 100 points.")
    assert all(cluster.alive for cluster in lab.clusters.values())
