"""What the topic `drlib.drills.internal` says of a flow: where its drills stand, which run it is about, who holds it.

Rules: one record a flow, by key; the last one counts. A record that cannot be read is an error, never "no holder". Runs
that were superseded are kept by name, the newest `MOST_SUPERSEDED`, so that none is resumed or rolled back by accident.
The session of a run that restarts brokers of the target is written only where it is longer, as earlier releases refuse what
they do not know.
Not for: liveness. A holder named in a record may be dead; the consumer group says who lives (`drlib.drill.run.lease`).
"""

from collections.abc import Iterable
from typing import Final

from pydantic import BaseModel, ConfigDict

from drlib import decoding
from drlib.config.replication_policy import DRILLS_TOPIC
from drlib.decoding import Undecodable
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillState
from drlib.errors import UsageError
from drlib.model import Flow

TOPIC: Final = DRILLS_TOPIC
PARTITION: Final = 0
MOST_SUPERSEDED: Final = 32
SESSION_MS: Final = 20_000  # a coordinator that was killed is replaced after 9 s by default, 18 s with ZooKeeper
CLIENT_ID: Final = "drlib-drills"  # of the holder's producer, which `clients.throttle` leaves as it is


class Holder(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    pid: int
    user: str

    def __str__(self) -> str:
        return f"{self.user} on {self.host} (pid {self.pid})"


class Superseded(BaseModel):
    """`run` was given up at `at_ms` (Unix ms) for `by`: a run, or the person who declared what is so."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    by: str
    at_ms: int


class LeaseRecord(BaseModel):
    """`holder` is None when it was given back; `since_ms` (Unix ms) is when the state was entered.

    `mode`, `host` and `folder` are the run's, `mode` None where an earlier release wrote the record. `standing` are the
    run's steps whose changes are, or may be, in place. `session_ms`: after how long a holder that died is out of the group.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: DrillState = DrillState.READY
    run: str = ""
    holder: Holder | None = None
    since_ms: int = 0
    mode: Mode | None = None
    host: str = ""
    folder: str = ""
    standing: tuple[str, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    session_ms: int = SESSION_MS

    def encode(self) -> bytes:
        usual = {"session_ms"} if self.session_ms == SESSION_MS else None
        return self.model_dump_json(exclude=usual).encode()

    def given_up(self, by: str, at_ms: int) -> tuple[Superseded, ...]:
        """The superseded runs when this record's own run is one too, for `by`."""
        kept = (
            *(past for past in self.superseded if past.run != self.run),
            Superseded(run=self.run, by=by, at_ms=at_ms),
        )
        return kept[-MOST_SUPERSEDED:]

    def superseded_by(self, run: str) -> Superseded | None:
        """How `run` was superseded; None where it was not."""
        return next((past for past in self.superseded if past.run == run), None)


def session_ms(outages_s: Iterable[float]) -> int:
    """The session of a holder whose steps keep the target from answering, each for at most so many seconds."""
    return SESSION_MS + round(1000 * max(outages_s, default=0.0))


def key(flow: Flow) -> bytes:
    return str(flow).encode()


def group(flow: Flow) -> str:
    """The consumer group whose membership is the lease, and the transactional ID of its holder."""
    return f"drlib.drill.{flow}"


def decode(value: bytes | None, flow: Flow) -> LeaseRecord:
    """A tombstone is a flow that was never drilled. Raises `UsageError` for what is no record of ours."""
    if value is None:
        return LeaseRecord()
    try:
        return decoding.json_as(LeaseRecord, value)
    except Undecodable as error:
        raise UsageError(
            f"the state of {flow} cannot be read",
            f"its last record in {TOPIC} was written by another release: {error}",
            "Use the release that wrote it.",
        ) from None
