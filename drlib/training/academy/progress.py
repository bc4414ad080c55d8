"""A learner's record: one small file, `progress.json`, in a folder beside the runs.

Rules: it is its owner's alone (0600) and replaced whole; changes are made under a lock on the folder, so that two notebooks
that are open at once do not lose each other's points. Another notebook may have begun an attempt meanwhile: who changes one
names it, and is refused when it is no longer the one under way. A digest of the content stands in the file: what was changed
by hand, or was cut off, is told and counts for nothing. It is no secret and no lock: whoever runs lessons could write it.
Not for: deciding what anything is worth (`drlib.training.academy.points`).
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from drlib.errors import UsageError
from drlib.files import file_lock, write_whole
from drlib.training.academy import points
from drlib.training.academy.points import Attempt, LessonRecord

FILE: Final = "progress.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """By lesson, such as L1; one that was never opened is not in it."""

    lessons: Mapping[str, LessonRecord] = field(default_factory=dict)

    def of(self, lesson: str) -> LessonRecord:
        return self.lessons.get(lesson, LessonRecord())


@dataclass(frozen=True, slots=True)
class _File:
    """What stands in the file. `seal` is of `progress` alone, however it is spaced."""

    progress: Progress
    seal: str


_ADAPTER: Final = TypeAdapter(_File)
_PROGRESS: Final = TypeAdapter(Progress)


def read(folder: Path) -> Progress:
    """Empty where nothing was learnt yet. Raises `UsageError` for a file that is something else or was changed."""
    path = folder / FILE
    try:
        found = _ADAPTER.validate_json(path.read_bytes())
    except FileNotFoundError:
        return Progress()
    except ValidationError:
        raise _unreadable(folder, "it is cut off, or something else wrote it") from None
    except OSError as error:
        raise _unreadable(folder, f"it cannot be read ({error.strerror})") from error
    if found.seal != _seal(found.progress):
        raise _unreadable(folder, "it was changed by something else than a lesson, and points are earned at clusters")
    return found.progress


def _unreadable(folder: Path, why: str) -> UsageError:
    return UsageError(
        f"{folder / FILE} is no record of lessons",
        why,
        f"Put back what stood there, or begin anew: drlib academy reset --dir {shlex.quote(str(folder))}",
    )


def _seal(progress: Progress) -> str:
    return hashlib.sha256(b"drlib academy\n" + _PROGRESS.dump_json(progress)).hexdigest()


def begin(folder: Path, attempt: Attempt) -> None:
    """Start `attempt`. Those of other lessons on the same lab end: it is made ready for this one alone."""
    with _locked(folder):
        found = read(folder)
        others = {
            name: replace(one, current=replace(one.current, closed=True))
            if one.current is not None and one.current.lab == attempt.lab
            else one
            for name, one in found.lessons.items()
        }
        changed = {**others, attempt.lesson: points.start_attempt(found.of(attempt.lesson), attempt)}
        _write(folder, Progress(changed))


def update(folder: Path, attempt: Attempt, step: Callable[[Attempt], Attempt]) -> Attempt:
    """`attempt` as it is on file, after `step`. Raises `UsageError` when another one was begun since."""
    with _locked(folder):
        found = read(folder)
        after = step(_current(found, attempt))
        _write(
            folder, Progress({**found.lessons, attempt.lesson: points.record_attempt(found.of(attempt.lesson), after)})
        )
        return after


def require_current(folder: Path, attempt: Attempt) -> Attempt:
    """`attempt` as it is on file. Raises `UsageError` when it was closed or another one was begun since."""
    return _current(read(folder), attempt)


def _current(found: Progress, attempt: Attempt) -> Attempt:
    current = found.of(attempt.lesson).current
    if current is None or current.tag != attempt.tag or current.closed:
        raise UsageError(
            f"this attempt at {attempt.lesson} has ended",
            "it was closed, or another lesson was opened on the same lab since",
            "Run the notebook again from its first cell.",
        )
    return current


def close(folder: Path, attempt: Attempt) -> Attempt:
    """`attempt`, closed; also when another one has taken its place."""
    with _locked(folder):
        found = read(folder)
        standing = found.of(attempt.lesson)
        if standing.current is not None and standing.current.tag == attempt.tag:
            done = replace(standing.current, closed=True)
            _write(folder, Progress({**found.lessons, attempt.lesson: points.record_attempt(standing, done)}))
    return replace(attempt, closed=True)


def forget(folder: Path, names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Take lessons off the record, all of them without `names`; returns which were there.

    All of them are forgotten of a file that is no record, too: that is the way out of it.
    """
    path = folder / FILE
    if not path.exists():
        return ()
    with _locked(folder):
        if not names and path.is_file():
            try:
                gone = tuple(read(folder).lessons)
            except UsageError:
                gone = (FILE,)
            path.unlink()
            return gone
        found = read(folder)
        gone = tuple(name for name in found.lessons if not names or name in names)
        _write(folder, Progress({name: one for name, one in found.lessons.items() if name not in gone}))
        return gone


def _write(folder: Path, progress: Progress) -> None:
    write_whole(folder / FILE, _ADAPTER.dump_json(_File(progress, _seal(progress)), indent=1))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file_lock(folder):
        yield
