"""Moments of a run that are kept in its folder, each as it was first: the stages RTO is counted from, and what steps note.

Rules: wall-clock milliseconds, because the process that marks one may not be the one that marked the last; a moment that is
marked twice, by any process, keeps the first. A moment has bounds, and the name of the machine by whose clock it counts: one
that was read on another clock is corrected by that clock's measured skew, whose bounds are the moment's. Moments of different
machines are not subtracted. A duration is never negative: where one would be, the clocks contradict each other, and it is not
measured. A stage of the RTO (fault, detect, decide, act, verify) that was not reached is None, and so is the total until the
last is.
Not for: marks in the picture of a run, which have names of their own (`details.Part`); measuring a skew.
"""

import itertools
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from drlib import decoding
from drlib.clock import now_ms
from drlib.decoding import Undecodable
from drlib.errors import UsageError
from drlib.files import make_folder, read_stored, write_first, write_whole
from drlib.runs.scorecard import RtoSeconds

FOLDER: Final = "moments"
CLOCK: Final = ".clock"  # what follows the moment's name in the file with its bounds
_MOST_BYTES: Final = 64
MIRROR: Final = "mirror"
SILENT: Final = "silent"
STAGES: Final = ("fault", "detect", "decide", "act", "verify")
NO_FAULT: Final = "no moment of the fault is known"
NOT_SERVED: Final = "no application was observed to be served"


class Moment(BaseModel):
    """When something was, in ms since the epoch, by the clock of `machine`: not before `earliest_ms`, not after `latest_ms`.

    `basis` is what it was read from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    earliest_ms: int
    latest_ms: int
    machine: str = ""
    basis: str = ""


def mark(run_dir: Path, stage: str, at_ms: int | None = None, *, moment: Moment | None = None) -> int:
    """Keep the moment (now, when None) at which `stage` ended, "fault" the first; what is kept, in ms since the epoch.

    `moment`: its bounds, where it is not exact. Raises ValueError for an unknown stage.
    """
    if stage not in STAGES:
        raise ValueError(f"no stage {stage}")
    if moment is None:
        at_ms = now_ms() if at_ms is None else at_ms
        moment = Moment(earliest_ms=at_ms, latest_ms=at_ms)
    moment = moment if moment.machine else moment.model_copy(update={"machine": socket.gethostname()})
    path = run_dir / FOLDER / stage
    if not path.exists():
        make_folder(path.parent)
        write_whole(path.with_name(stage + CLOCK), moment.model_dump_json())
    return once(run_dir, stage, moment.earliest_ms if stage == "fault" else moment.latest_ms)


def once(run_dir: Path, name: str, at_ms: int | None = None) -> int:
    """Keep the moment (now, when None) under `name`, unless one is kept; what is kept, in ms since the epoch."""
    path = run_dir / FOLDER / name
    make_folder(path.parent)
    if not path.exists():
        write_first(path, str(now_ms() if at_ms is None else at_ms))
    return _moment(path)


def at(run_dir: Path, name: str) -> int | None:
    """When it was, None when it was not reached."""
    try:
        return _moment(run_dir / FOLDER / name)
    except FileNotFoundError:
        return None


def moment_of(run_dir: Path, stage: str) -> Moment | None:
    """The moment with its bounds, None when it was not reached. Without a file of bounds it is exact."""
    at_ms = at(run_dir, stage)
    if at_ms is None:
        return None
    path = run_dir / FOLDER / (stage + CLOCK)
    try:
        return decoding.json_as(Moment, read_stored(path))
    except FileNotFoundError:
        return Moment(earliest_ms=at_ms, latest_ms=at_ms)
    except (OSError, Undecodable) as error:
        raise UsageError(f"{path} cannot be used", str(error), "Do not rely on this run.") from None


def keep_mirror_ahead(run_dir: Path, low_ms: int, high_ms: int) -> None:
    """Keep the bounds of (the mirror's clock - this machine's)."""
    kept = Moment(earliest_ms=low_ms, latest_ms=high_ms, machine=socket.gethostname(), basis="the mirror's clock")
    path = run_dir / FOLDER / (MIRROR + CLOCK)
    make_folder(path.parent)
    write_whole(path, kept.model_dump_json())


def mirror_ahead(run_dir: Path) -> tuple[int, int] | None:
    """The same in ms; None where it was not measured on this machine."""
    return None if (kept := _kept(run_dir, MIRROR)) is None else (kept.earliest_ms, kept.latest_ms)


def keep_silent(run_dir: Path, at_ms: int) -> None:
    """Keep that the source did not answer at `at_ms`, before the run began; of several moments the first."""
    kept = Moment(earliest_ms=at_ms, latest_ms=at_ms, machine=socket.gethostname(), basis="the first failed probe")
    path = run_dir / FOLDER / (SILENT + CLOCK)
    make_folder(path.parent)
    write_first(path, kept.model_dump_json())


def silent_since(run_dir: Path) -> int | None:
    """The same in ms; None where nothing was kept, or on another machine."""
    return None if (kept := _kept(run_dir, SILENT)) is None else kept.earliest_ms


def _kept(run_dir: Path, name: str) -> Moment | None:
    """A moment of this machine, None where none can be read."""
    try:
        kept = decoding.json_as(Moment, read_stored(run_dir / FOLDER / (name + CLOCK)))
    except (OSError, Undecodable):
        return None
    return kept if kept.machine == socket.gethostname() else None


def _moment(path: Path) -> int:
    try:
        return decoding.integer(read_stored(path, _MOST_BYTES).strip())
    except FileNotFoundError:
        raise
    except (OSError, Undecodable) as error:
        raise UsageError(f"{path} cannot be used", str(error), "Do not rely on this run.") from None


def seconds(run_dir: Path) -> RtoSeconds:
    """Seconds per stage, to the millisecond, and the bounds of their total; `why` where it was not measured."""
    return between_stages({stage: moment_of(run_dir, stage) for stage in STAGES})


def between_stages(marks: Mapping[str, Moment | None]) -> RtoSeconds:
    """The same from the moments: `total` is the most it can have been, `at_least` the least."""
    fault, verify = marks["fault"], marks["verify"]
    counted = {
        stage: None if m is None else (m.earliest_ms if stage == "fault" else m.latest_ms) for stage, m in marks.items()
    }

    def took(before: str, stage: str) -> float | None:
        """Counted so that the stages add up to the most that the total can be."""
        one, other = marks[before], marks[stage]
        begin, end = counted[before], counted[stage]
        if one is None or other is None or begin is None or end is None or _apart(one, other):
            return None
        return None if end < begin else round((end - begin) / 1000, 3)

    reached = RtoSeconds.model_validate({stage: took(before, stage) for before, stage in itertools.pairwise(STAGES)})
    if fault is None or verify is None:
        return reached.model_copy(update={"why": NO_FAULT if fault is None else NOT_SERVED})
    if _apart(fault, verify):
        why = f"the fault is known by the clock of {fault.machine}, recovery by that of {verify.machine}, not compared"
        return RtoSeconds(why=why)
    most, least = verify.latest_ms - fault.earliest_ms, verify.earliest_ms - fault.latest_ms
    if most < 0:
        return RtoSeconds(why=f"clocks differ by at least {-most / 1000:.3f} s: recovery would be before the fault")
    low = max(0, least)
    bound = None if low == most else round(low / 1000, 3)
    return reached.model_copy(update={"total": round(most / 1000, 3), "at_least": bound})


def _apart(one: Moment, other: Moment) -> bool:
    return bool(one.machine and other.machine) and one.machine != other.machine
