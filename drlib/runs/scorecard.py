"""The result of a drill, as `scorecard.json` has it: typed, frozen, versioned by its fields.

Rules: a number that could not be established is None, never 0; a check carries its evidence in words. Seconds are wall-clock
differences of a monotonic clock; counts are records.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from drlib import decoding
from drlib.files import read_stored, write_whole
from drlib.runs.check import Check, Verdict

SCORECARD: Final = "scorecard.json"  # its name in a run folder
Milliseconds = Annotated[int, Field(ge=0, le=253_402_300_799_999)]  # since the epoch, to the end of the year 9999


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RtoSeconds(_Frozen):
    """Fault to: noticed, decided, acted, verified. Each is the time that stage took; None when it was not reached.

    `total` is the most it can have been, `at_least` the least where the clocks leave a range; `why` it was not measured.
    """

    detect: float | None = None
    decide: float | None = None
    act: float | None = None
    verify: float | None = None
    total: float | None = None
    at_least: float | None = None
    why: str = ""


class Rpo(_Frozen):
    """Acknowledged on the source and not on the target. `measured`: did a step look for it, whether it could tell or not?
    `at_least`: the source is gone, and what it acknowledged after its last word is counted when it returns; `records` may be
    None then. `seconds`: the most that the missing records can span, `seconds_at_least` the least where both differ;
    `why`: what they rest on."""

    records: int | None = None
    seconds: float | None = None
    measured: bool = True
    at_least: bool = False
    seconds_at_least: float | None = None
    why: str = ""


class Records(_Frozen):
    produced: int | None = None
    mirrored: int | None = None
    lost: int | None = None
    duplicated: int | None = None
    out_of_order: int | None = None


class GroupScore(_Frozen):
    """`positions`: how its positions were translated, by kind. `reached`: its last commit had crossed before the fault.

    `re_read`: records, as they were counted; `re_read_at_most`: as predicted when its positions were decided.
    """

    group: str
    re_read: int | None = None
    re_read_at_most: int | None = None
    skipped: int | None = None
    reached: bool | None = None
    positions: dict[str, int] = {}


class ClientScore(_Frozen):
    """One family of unmodified clients at one address. The seconds are from the fault to the first record that was
    acknowledged, and processed, on the other cluster. `settings` were set beside the library's defaults. `sums`: the keys of
    which a Kafka Streams application has a running sum, and `sums_differ` those of which it is not that of the records there.
    A family that did not run has a `why` alone."""

    family: str
    library: str
    version: str
    verdict: Verdict
    why: str = ""
    settings: tuple[str, ...] = ()
    wrote_after_s: float | None = None
    read_after_s: float | None = None
    restarts: int = 0
    acknowledged: int | None = None
    processed: int | None = None
    re_read: int | None = None
    written_twice: int | None = None
    not_crossed: int | None = None
    lost: int | None = None
    skipped: int | None = None
    sums: int | None = None
    sums_differ: int | None = None
    left_behind: bool = False


class Objectives(_Frozen):
    """None is no objective. One that no figure can be compared with is refused."""

    rto_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    rpo_records: Annotated[int, Field(ge=0)] | None = None
    rpo_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class PartitionOffsets(_Frozen):
    """One partition before and after: where the source ended, how far it was mirrored, where the mirror ends.

    The seconds are bounds of the time that its missing records span; None is unknown. `basis`: what they rest on.
    """

    topic: str
    partition: int
    source_end: int | None
    mirrored_to: int | None
    target_end: int | None
    unmirrored: int | None
    at_least_seconds: float | None = None
    at_most_seconds: float | None = None
    basis: str = ""


class LagPosition(_Frozen):
    """How far one reader, a mirror or a group, is behind in one partition of a topic on `cluster`.

    `records` and `age_seconds` are the most that it can be; `records_at_least` the least, where that is another number.
    """

    reader: str
    cluster: str
    topic: str
    partition: int
    records: int
    records_at_least: int | None = None
    age_seconds: float
    trend: str
    verdict: Verdict
    why: str


class LostExample(_Frozen):
    """One record that only the source has."""

    id: str
    key: str
    partition: int
    offset: int
    acked_ms: Milliseconds


class Mark(_Frozen):
    """A moment of the drill. `at_ms` since the epoch, UTC."""

    name: str
    at_ms: Milliseconds
    detail: str = ""


class Sample(_Frozen):
    """Totals at one moment, for the picture: records produced, mirrored, consumed by group."""

    at_ms: Milliseconds
    produced: int
    mirrored: int
    consumed: dict[str, int]


class KeptTable(_Frozen):
    """Rows that a step enumerates, under a heading of their own in the report. `left_out`: how many more there are; `file`: the
    file of the run's folder that has more of them, or all."""

    title: str
    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0
    file: str = ""


class Kind(StrEnum):
    DRILL = "drill"
    ANALYSIS = "analysis"  # it looked, and moved nothing: recovery time and data at risk do not apply


class Scorecard(_Frozen):
    """A count that is None was not established in a drill, and not asked for in an analysis."""

    runbook: str
    run_id: str
    verdict: Verdict
    rto_seconds: RtoSeconds
    rpo: Rpo
    records: Records
    groups: tuple[GroupScore, ...]
    checks: tuple[Check, ...]
    clients: tuple[ClientScore, ...] = ()
    objectives: Objectives = Objectives()
    started_ms: Milliseconds = 0
    finished_ms: Milliseconds = 0
    marks: tuple[Mark, ...] = ()
    samples: tuple[Sample, ...] = ()
    partitions: tuple[PartitionOffsets, ...] = ()
    lost_examples: tuple[LostExample, ...] = ()
    lag: tuple[LagPosition, ...] = ()
    tables: tuple[KeptTable, ...] = ()
    environment: dict[str, str] = {}
    kind: Kind = Kind.DRILL

    def write(self, path: Path) -> None:
        """Put it at `path` in one move: a reader, or a kernel killed meanwhile, leaves the old file or the new one."""
        write_whole(path, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Scorecard":
        """Raises `Undecodable`, a ValueError, for anything that is no scorecard, and OSError."""
        return cls.parse(read_stored(path))

    @classmethod
    def parse(cls, data: bytes) -> "Scorecard":
        """Raises `Undecodable`, a ValueError, for anything that is no scorecard."""
        return decoding.json_as(cls, data, strict=True)
