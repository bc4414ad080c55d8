"""When the source failed and when that was noticed: by the operator, by the mirror, or by the first failed probe of this drill
or of the command that began it.

Rules: what the operator gives comes first; else it failed between the mirror's last successful fetch and the first that failed,
or the first failed probe where the mirror has not noticed yet; without a worker that answers, at that probe. Each is kept with
what it was read from. A worker's times are by its machine's clock: they are corrected by its skew, measured between two
requests for its status, and keep its bounds. A clock that cannot be compared gives no moment.
Not for: keeping moments (`drlib.drill.step.rto_clock`).
"""

import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from drlib import clock
from drlib.drill.step.rto_clock import Moment
from drlib.errors import UsageError
from drlib.kafka.net.authorized_operations import Skew
from drlib.mirror.monitor.observer import fetch_status
from drlib.mirror.status.worker_status import LONGEST_S, WorkerStatus

NO_SKEW: Final = Skew(0, 0)
_PAUSE_S: Final = 0.25  # a worker builds a status at most once in 0.2 s
_MOST_REQUESTS: Final = 8


def parse(text: str) -> int | None:
    """The operator's moment in ms, such as `2026-11-21T03:12:05Z`; None for "". Raises `UsageError` for anything else."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.utcoffset() is None:
        raise UsageError(
            f"fault_at: {text!r}", "it is no time with a zone", "Give ISO 8601 in UTC, such as 2026-11-21T03:12:05Z."
        )
    at_ms = int(at.astimezone(UTC).timestamp() * 1000)
    if at_ms > clock.now_ms():
        raise UsageError(
            f"fault_at: {text}", "it is in the future by this machine's clock", "Correct it, or the clock."
        )
    return at_ms


@dataclass(frozen=True, slots=True)
class MirrorFetches:
    """By the workers' clocks: the last successful fetch (0: unknown), and the first that failed (None: none has yet, as workers
    wait for a silent source for seconds). `skew` None: it could not be measured."""

    last_ms: int
    silent_since_ms: int | None
    skew: Skew | None


def fault_and_detection(given_ms: int | None, fetches: MirrorFetches | None, probe_ms: int) -> tuple[Moment, Moment]:
    """When it failed, and when that was noticed. `probe_ms`: the first failed probe, by this machine's clock."""
    probe = Moment(earliest_ms=probe_ms, latest_ms=probe_ms, basis="the first failed probe")
    fault, detect = probe, probe
    if fetches is not None and fetches.skew is None:
        fault = detect = probe.model_copy(update={"basis": f"{probe.basis}; the mirror's clock could not be compared"})
    elif fetches is not None and fetches.skew is not None:
        failed, since = "the first failed probe", fetches.silent_since_ms
        if since is not None:
            noticed = corrected(since, fetches.skew, "the mirror's first failed fetch")
            if noticed.earliest_ms < probe_ms:
                failed, detect = "its first failed one", noticed
        last_ms = fetches.last_ms or since
        if last_ms is not None:
            served = corrected(last_ms, fetches.skew, "")
            fault = Moment(
                earliest_ms=min(served.earliest_ms, detect.earliest_ms),
                latest_ms=detect.latest_ms,
                basis=f"between the mirror's last successful fetch and {failed}",
            )
    if given_ms is not None:
        fault = Moment(earliest_ms=given_ms, latest_ms=given_ms, basis="given by the operator")
    return fault, detect


def corrected(at_ms: int, skew: Skew, basis: str) -> Moment:
    """`at_ms` of a clock that is ahead of this one by `skew`, by this clock."""
    return Moment(earliest_ms=at_ms - skew.high, latest_ms=at_ms - skew.low, basis=basis)


def workers_skew(addresses: Collection[str]) -> Skew | None:
    """How far the clocks of the workers at `addresses` are ahead of this one, over all that answer; None where none does.

    Without addresses the workers are on this machine. Blocks for some hundred milliseconds where one is on another machine.
    """
    if not addresses:
        return NO_SKEW
    measured = [skew for address in addresses if (skew := measure(address)) is not None]
    if not measured:
        return None
    return Skew(min(skew.low for skew in measured), max(skew.high for skew in measured))


def measure(
    address: str,
    fetch: Callable[[str], WorkerStatus | None] = fetch_status,
    now_ms: Callable[[], int] = clock.now_ms,
    pause: Callable[[float], None] = time.sleep,
) -> Skew | None:
    """The bounds of (the worker's clock - this clock), ms; None where it does not answer, or its status does not change.

    A status may have been built some time before it was asked for. One that differs from the one before was built after that
    one was requested, and before its own answer.
    """
    asked = now_ms()
    old = fetch(address)
    if old is None:
        return None
    if on_this_machine(old, asked, now_ms()):
        return NO_SKEW
    for _ in range(_MOST_REQUESTS):
        pause(_PAUSE_S)
        asked_again = now_ms()
        new = fetch(address)
        answered = now_ms()
        if new is not None and new.at_ms != old.at_ms:
            return Skew(new.at_ms - answered, new.at_ms - asked)
        asked = asked_again
    return None


def on_this_machine(status: WorkerStatus, asked_ms: int, answered_ms: int) -> bool:
    """Is it of a worker of this host, and may its time be of this clock?"""
    host = status.worker.split(" ")[0].rpartition("-")[0]
    return host == socket.gethostname() and asked_ms - LONGEST_S * 1000 <= status.at_ms <= answered_ms + 1
