"""Opening a lesson: where its lab is, and whether an attempt goes on or a new one begins.

Rules: an attempt that is under way on the same lab is taken up where it stood, whatever became of the kernel; another one
makes the lab ready first. A lab that was started here is stopped by `close`, also when its cell was run twice; a cluster that
a lesson has killed is no reason to start another lab. Reference answers are an attempt of their own.
"""

from __future__ import annotations

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
from drlib.training.academy.stage import HASTY, LessonTestbed, heal, ready

LESSONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "L0": ("drlib.training.academy.lessons.l0_flow", "WhatAFlowIs"),
        "L1": ("drlib.training.academy.lessons.l1_offsets", "OffsetsDoNotMatch"),
        "L2": ("drlib.training.academy.lessons.l2_retention", "LagAndRetention"),
        "L3": ("drlib.training.academy.lessons.l3_failover", "UnplannedFailover"),
        "L4": ("drlib.training.academy.lessons.l4_failback", "FailbackAndTail"),
        "L5": ("drlib.training.academy.lessons.l5_order", "OrderAndDuplicates"),
        "L6": ("drlib.training.academy.lessons.l6_link", "TheLongLink"),
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
    """Lesson `name`, L0 to L6, on the lab in `lab_dir`, which is started where none runs; `run_dir` keeps your progress.

    An attempt under way goes on where it stood unless `again`. `answers="reference"` is a trainer's dry run. Raises
    `UsageError` for what is wrong with any of it, and when something else mirrors on that lab.
    """
    key = name.strip().upper()
    if key not in LESSONS:
        raise UsageError(f"there is no lesson {name}", f"there are {', '.join(LESSONS)}", "Name one of them.")
    if answers not in ("", REFERENCE):
        raise UsageError(f"answers {answers!r}", "they are yours, or the reference", f'Use "" or "{REFERENCE}".')
    folder = Path(run_dir).absolute()
    progress.read(folder)  # a record that cannot be read is told before a lab is started
    lab, own = _lab(Path(lab_dir))
    try:
        attempt = _attempt(key, lab, folder, dry=answers == REFERENCE, again=again)
        module, made = LESSONS[key]
        found: type[Lesson] = getattr(import_module(module), made)
        return found(LessonTestbed(lab, key, attempt.tag), attempt, folder, lab.down if own else partial(heal, lab))
    except BaseException:
        if own:
            lab.down()
        raise


def title_of(key: str) -> str:
    """What lesson `key` is about."""
    module, made = LESSONS[key]
    return str(getattr(import_module(module), made).title)


def _attempt(key: str, lab: Lab, folder: Path, *, dry: bool, again: bool) -> Attempt:
    identity = " ".join(lab.clusters[alias].cluster_id for alias in ("LEFT", "RIGHT"))
    current = progress.read(folder).of(key).current
    if current is not None and not again and points.can_resume(current, identity, dry=dry):
        return current
    ready(lab)
    fresh = Attempt(key, secrets.token_hex(2), identity, clock.now_ms(), dry)
    progress.begin(folder, fresh)
    return fresh


def _lab(root: Path) -> tuple[Lab, bool]:
    """The lab that runs in `root`, or one started there, and whether this kernel did."""
    where = root.absolute()
    if (started := _STARTED.get(where)) is not None and any(one.alive for one in started.status()):
        return started, True
    lab, own = Lab.attach_or_up(root, needed=("LEFT", "RIGHT"), extra=HASTY)
    if own:
        _STARTED[where] = lab
    return lab, own
