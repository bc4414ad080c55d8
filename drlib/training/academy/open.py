"""Opens a lesson: finds or starts its lab, and resumes the current attempt or starts a new one.

Rules: an open attempt on the same lab is resumed, also after a kernel restart; a new attempt prepares the lab first. A lab
that was started here is stopped by `close`, even if the opening cell was run twice; a cluster that a lesson has killed does
not make this start another lab. A lesson that needs other clusters than LEFT and RIGHT has a lab of its own beside `lab_dir`.
Dry runs with reference answers are attempts of their own.
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
from drlib.training.academy.testbed import FAST_RETENTION, LessonLab, prepare, repair

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

_STARTED: Final[dict[Path, Lab]] = {}  # labs that this kernel started for a lesson


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
    Raises `UsageError` for wrong arguments, a damaged record, or another mirror worker between the lab's clusters.
    """
    key = name.strip().upper()
    if key not in LESSONS:
        raise UsageError(f"there is no lesson {name!r}", f"there are {', '.join(LESSONS)}", "Use one of these names.")
    if answers not in ("", REFERENCE):
        raise UsageError(f"answers={answers!r}", "this is not a kind of answers", f'Use "" or "{REFERENCE}".')
    folder = Path(run_dir).absolute()
    progress.read(folder)  # a damaged record is reported before a lab is started
    lesson = _lesson_class(key)
    lab, own = _lab(Path(lab_dir), lesson.lab)
    try:
        attempt = _attempt(key, lab, lesson.lab, folder, dry=answers == REFERENCE, again=again)
        end_lab = lab.down if own else partial(repair, lab, lesson.lab.flow)
        return lesson(lesson.testbed_type(lab, key, attempt.tag, lesson.keeps_names), attempt, folder, end_lab)
    except BaseException:
        if own:
            lab.down()
        raise


def title_of(key: str) -> str:
    """The title of lesson `key`."""
    return _lesson_class(key).title


def _lesson_class(key: str) -> type[Lesson]:
    module, name = LESSONS[key]
    lesson: type[Lesson] = getattr(import_module(module), name)
    return lesson


def _attempt(key: str, lab: Lab, needs: LessonLab, folder: Path, *, dry: bool, again: bool) -> Attempt:
    identity = " ".join(lab.clusters[alias].cluster_id for alias in needs.aliases)
    current = progress.read(folder).of(key).current
    if current is not None and not again and points.can_resume(current, identity, dry=dry):
        return current
    prepare(lab, needs.flow)
    attempt = Attempt(key, secrets.token_hex(2), identity, clock.now_ms(), dry)
    progress.begin(folder, attempt)
    return attempt


def _lab(lab_dir: Path, needs: LessonLab) -> tuple[Lab, bool]:
    """The running lab that a lesson `needs`, or a new one; and whether this kernel started it."""
    path = needs.folder(lab_dir)
    if (started := _STARTED.get(path)) is not None and any(process.alive for process in started.status()):
        return started, True
    aliases = needs.aliases
    lab, own = Lab.attach_or_up(path, aliases, needed=aliases, extra=FAST_RETENTION, security=needs.security)
    if own:
        _STARTED[path] = lab
    return lab, own
