"""Opens a lesson: finds or starts its lab, and resumes the current attempt or starts a new one.

Rules: an open attempt on the same lab is resumed, also after a kernel restart: a lab that is started here outlives the kernel,
and what the attempt has killed stays down. Where other processes have ended, the clusters are not as the attempt left them:
that is said, and a new attempt begins. A new attempt prepares the lab first. A lab that lessons started is stopped by `close`,
from whatever kernel; its state says so. A lesson that needs other clusters than LEFT and RIGHT has a lab of its own beside
`lab_dir`. Dry runs with reference answers are attempts of their own.
Not for: what a lesson does (`lesson`).
"""

import secrets
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Final

from drlib import clock
from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.training.academy import points, progress
from drlib.training.academy.lesson import REFERENCE, Lesson
from drlib.training.academy.points import Attempt
from drlib.training.academy.testbed import FAST_RETENTION, LessonTestbed, prepare, repair

LESSONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "L0": ("drlib.training.academy.lessons.l0_flow", "WhatAFlowIs"),
        "L1": ("drlib.training.academy.lessons.l1_offsets", "OffsetsDoNotMatch"),
        "L2": ("drlib.training.academy.lessons.l2_retention", "LagAndRetention"),
        "L3": ("drlib.training.academy.lessons.l3_failover", "UnplannedFailover"),
        "L4": ("drlib.training.academy.lessons.l4_failback", "FailbackAndTail"),
        "L5": ("drlib.training.academy.lessons.l5_order", "OrderAndDuplicates"),
        "L6": ("drlib.training.academy.lessons.l6_link", "TheLongLink"),
        "L7": ("drlib.training.academy.lessons.l7_secured", "SecuredRecovery"),
        "L8": ("drlib.training.academy.lessons.l8_names", "IdenticalTopicNames"),
    }
)

OWNER: Final = "lessons"  # of a lab that was started here


def open_lesson(
    name: str,
    lab_dir: str | Path = "../../.lab",
    run_dir: str | Path = "../../runs/academy",
    *,
    answers: str = "",
    again: bool = False,
) -> Lesson:
    """Open lesson `name`, L0 to L8, on the lab in `lab_dir`, which is started if it does not run; L7 has its own beside it.

    `run_dir` keeps your progress. An open attempt is resumed unless `again`. `answers="reference"` is a trainer's dry run.
    Raises `UsageError` for wrong arguments, a damaged record, another mirror worker between the lab's clusters, or another
    learner's open attempt on the lab.
    """
    key = name.strip().upper()
    if key not in LESSONS:
        raise UsageError(f"there is no lesson {name!r}", f"there are {', '.join(LESSONS)}", "Use one of these names.")
    if answers not in ("", REFERENCE):
        raise UsageError(f"answers={answers!r}", "this is not a kind of answers", f'Use "" or "{REFERENCE}".')
    folder = Path(run_dir).absolute()
    progress.read(folder)  # a damaged record is reported before a lab is started
    lesson = lesson_class(key)
    needs = lesson.lab
    lab, started = Lab.attach_or_up(
        needs.folder(Path(lab_dir)),
        needs.aliases,
        needed=needs.aliases,
        extra=FAST_RETENTION,
        security=needs.security,
        detach=True,  # a kernel that is restarted finds its clusters as they were
        owner=OWNER,
    )
    end_lab = lab.down if lab.owner == OWNER else partial(repair, lab, needs.flow)
    try:
        attempt, notice = _attempt(lesson, key, lab, folder, started, dry=answers == REFERENCE, again=again)
        return lesson(_testbed(lesson, key, lab, attempt), attempt, folder, end_lab, notice)
    except BaseException:
        if started:
            lab.down()
        raise


def title_of(key: str) -> str:
    return lesson_class(key).title


def lesson_class(key: str) -> type[Lesson]:
    module, name = LESSONS[key]
    lesson: type[Lesson] = getattr(import_module(module), name)
    return lesson


def _testbed(lesson: type[Lesson], key: str, lab: Lab, attempt: Attempt) -> LessonTestbed:
    return lesson.testbed_type(lab, key, attempt.tag, lesson.keeps_names)


def _attempt(
    lesson: type[Lesson], key: str, lab: Lab, folder: Path, started: bool, *, dry: bool, again: bool
) -> tuple[Attempt, str]:
    """The attempt to continue or a new one, and why it is new where that is not what was asked for."""
    flow, aliases = lesson.lab.flow, lesson.lab.aliases
    identity = " ".join(lab.clusters[alias].cluster_id for alias in aliases)
    current = progress.read(folder).of(key).current
    notice = ""
    if current is not None and not again and points.can_resume(current, current.lab, dry=dry):
        gone = "it was on another lab" if current.lab != identity else "its lab had ended" if started else ""
        if not gone:
            ended = points.ended_by_others(current, _testbed(lesson, key, lab, current).ended(aliases))
            if not ended:
                return current, ""
            gone = f"{', '.join(ended)} ended without it"
        notice = f"A new attempt: the one before cannot be continued, as {gone}."
    with progress.alone_on(lab.root, folder) as begin:
        prepare(lab, flow)
        attempt = Attempt(key, secrets.token_hex(2), identity, clock.now_ms(), dry)
        begin(attempt)
    return attempt, notice
