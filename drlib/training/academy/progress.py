"""A learner's record: one small file, `progress.json`, in a folder next to the runs.

Rules: the file belongs to its owner alone (0600) and is replaced as a whole. Changes are made under a lock on the folder,
so that two open notebooks do not overwrite each other's points. A change names its attempt and is refused if another
notebook has started a newer one. The file holds a SHA-256 digest of its content: a truncated file, or points edited by
hand, are refused. The digest has no key, so it does not protect against a learner who computes it. A lab keeps which
attempt has it: while that is open, an attempt of another record is refused there, as it would delete its topics and groups.
Not for: deciding points (`drlib.training.academy.points`).
"""

import hashlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import UsageError
from drlib.files import file_lock, read_json, read_stored, write_whole
from drlib.runs.folder import unwritable
from drlib.training.academy import points
from drlib.training.academy.points import Attempt, LessonRecord

FILE: Final = "progress.json"
_LOCK: Final = ".learner"
LEARNER: Final = "learner.json"  # in a lab's folder: the attempt that has it


@dataclass(frozen=True, slots=True)
class Progress:
    """Records by lesson, such as L1; a lesson that was never opened is not included."""

    lessons: Mapping[str, LessonRecord] = field(default_factory=dict)

    def of(self, lesson: str) -> LessonRecord:
        return self.lessons.get(lesson, LessonRecord())


@dataclass(frozen=True, slots=True)
class _File:
    """The file's content. `seal`: digest of `progress`, independent of white space."""

    progress: Progress
    seal: str


@dataclass(frozen=True, slots=True)
class _Learner:
    """An attempt that has a lab, and the folder of the record that it is in."""

    folder: str
    lesson: str
    tag: str


_ADAPTER: Final = TypeAdapter(_File)
_LEARNER: Final = TypeAdapter(_Learner)
_PROGRESS: Final = TypeAdapter(Progress)


def read(folder: Path) -> Progress:
    """Read the record; empty if there is no file. Raises `UsageError` for a file that is damaged or was edited."""
    path = folder / FILE
    try:
        file = decoding.json_as(_ADAPTER, read_stored(path))
    except FileNotFoundError:
        return Progress()
    except Undecodable:
        raise _unreadable(folder, "it is truncated or was not written by drlib") from None
    except OSError as error:
        raise _unreadable(folder, f"it cannot be read ({error.strerror})") from error
    if file.seal != _seal(file.progress):
        raise _unreadable(folder, "its digest does not match: it was edited, and points are earned at clusters only")
    return file.progress


def _unreadable(folder: Path, why: str) -> UsageError:
    return UsageError(
        f"{folder / FILE} is not a valid record of lessons",
        why,
        f"Restore the file, or delete all progress: drlib academy reset --dir {shlex.quote(str(folder))}",
    )


def _seal(progress: Progress) -> str:
    return hashlib.sha256(b"drlib academy\n" + _PROGRESS.dump_json(progress)).hexdigest()


def begin(folder: Path, attempt: Attempt) -> None:
    """Start `attempt`. Attempts at other lessons on the same lab end, because the lab is prepared for this one."""
    with _locked(folder):
        stored = read(folder)
        others = {name: _closed_on(record, attempt.lab) for name, record in stored.lessons.items()}
        started = points.start_attempt(stored.of(attempt.lesson), attempt)
        _write(folder, Progress({**others, attempt.lesson: started}))


@contextmanager
def alone_on(lab: Path, folder: Path) -> Iterator[Callable[[Attempt], None]]:
    """While inside, no other attempt begins on the lab in `lab`; yields what begins one of the record in `folder` there.

    Raises `UsageError` while an attempt of another record is open there.
    """
    with file_lock(lab / _LOCK):
        other = _learner(lab)
        if other is not None and other.folder != str(folder.resolve()) and _is_open(other):
            raise UsageError(
                f"the lab in {lab} has an open attempt at {other.lesson}",
                f"it is of another record of lessons, in {other.folder}, and a new attempt would delete its topics and groups",
                f"Close it there: drlib.open_lesson({other.lesson!r}, lab_dir, {other.folder!r}).close(). "
                "Or name another lab_dir: a lab is for one learner at a time.",
            )

        def begin_here(attempt: Attempt) -> None:
            write_whole(lab / LEARNER, _LEARNER.dump_json(_Learner(str(folder.resolve()), attempt.lesson, attempt.tag)))
            begin(folder, attempt)

        yield begin_here


def _learner(lab: Path) -> _Learner | None:
    try:
        return read_json(lab / LEARNER, _LEARNER, "Remove it, if nothing is learned on this lab now.")
    except FileNotFoundError:
        return None


def _is_open(learner: _Learner) -> bool:
    """Also where its record cannot be read: it may be."""
    try:
        current = read(Path(learner.folder)).of(learner.lesson).current
    except UsageError:
        return True
    return current is not None and current.tag == learner.tag and not current.closed


def _closed_on(record: LessonRecord, lab: str) -> LessonRecord:
    """`record`, with its current attempt closed if that is on `lab`."""
    if record.current is None or record.current.lab != lab:
        return record
    return replace(record, current=replace(record.current, closed=True))


def update(folder: Path, attempt: Attempt, step: Callable[[Attempt], Attempt]) -> Attempt:
    """Apply `step` to the stored `attempt` and return it. Raises `UsageError` if the attempt has ended."""
    with _locked(folder):
        stored = read(folder)
        changed = step(_current(stored, attempt))
        record = points.record_attempt(stored.of(attempt.lesson), changed)
        _write(folder, Progress({**stored.lessons, attempt.lesson: record}))
        return changed


def require_current(folder: Path, attempt: Attempt) -> Attempt:
    """Return the stored `attempt`. Raises `UsageError` if it was closed or replaced by a newer one."""
    return _current(read(folder), attempt)


def _current(stored: Progress, attempt: Attempt) -> Attempt:
    current = stored.of(attempt.lesson).current
    if current is None or current.tag != attempt.tag or current.closed:
        raise UsageError(
            f"this attempt at {attempt.lesson} has ended",
            "it was closed, or another lesson was opened on the same lab since",
            "Run the notebook again from its first cell.",
        )
    return current


def is_replaced(folder: Path, attempt: Attempt, lab: Path) -> bool:
    """Report whether another attempt, at this lesson or another one, has the lab of `attempt`, which is in `lab`, now."""
    if (learner := _learner(lab)) is not None and (learner.folder, learner.tag) != (str(folder.resolve()), attempt.tag):
        return True
    current = [record.current for record in read(folder).lessons.values()]
    return any(
        each is not None and not each.closed and each.lab == attempt.lab and each.tag != attempt.tag for each in current
    )


def close(folder: Path, attempt: Attempt) -> Attempt:
    """Return `attempt` closed, also if a newer one has replaced it."""
    with _locked(folder):
        stored = read(folder)
        record = stored.of(attempt.lesson)
        if record.current is not None and record.current.tag == attempt.tag:
            done = replace(record.current, closed=True)
            _write(folder, Progress({**stored.lessons, attempt.lesson: points.record_attempt(record, done)}))
    return replace(attempt, closed=True)


def forget(folder: Path, names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Delete lessons from the record, all of them without `names`; returns the deleted ones.

    Without `names` an invalid file is deleted too.
    """
    path = folder / FILE
    if not path.exists():
        return ()
    with _locked(folder):
        if not names and path.is_file():
            try:
                deleted = tuple(read(folder).lessons)
            except UsageError:
                deleted = (FILE,)
            path.unlink()
            return deleted
        stored = read(folder)
        deleted = tuple(name for name in stored.lessons if not names or name in names)
        _write(folder, Progress({name: record for name, record in stored.lessons.items() if name not in deleted}))
        return deleted


def _write(folder: Path, progress: Progress) -> None:
    try:
        write_whole(folder / FILE, _ADAPTER.dump_json(_File(progress, _seal(progress)), indent=1))
    except OSError as error:
        raise UsageError(
            f"{folder / FILE} was not written",
            f"{error.strerror or error}; what the call did on the clusters is done, and not recorded",
            "Make room, then run the cell again.",
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    with file_lock(folder):
        yield
