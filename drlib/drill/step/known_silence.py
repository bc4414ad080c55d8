"""What a run has found not to answer, and when: a file in its folder, so that later steps do not wait for it in full again.

Rules: a finding that cost a wait counts for `FRESH_S`, then the question is asked again for `AGAIN_S` only, and after
`FORGOTTEN_S` in full. One that cost no wait, such as a refused connection, is asked again each time. What answers again is
forgotten at once. A cluster most of whose brokers are silent answers Metadata, but nothing that its controller is asked for:
that is a finding of its own (`controller_of`). The target of a run is always asked in full, since no step is done without it.
Any other cluster that this host cannot use, by its certificate, its login or a secret that is not here, counts as one that
does not answer.
Not for: how long a first question may take (`drlib.kafka.admin.connect.ANSWER_S`, `PROBE_S`).
"""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import clock
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step_output import DETAILS
from drlib.errors import Unreachable, UsageError
from drlib.files import make_folder, read_json, write_whole
from drlib.kafka.admin.connect import ANSWER_S, Refused, who_answers
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings

PROBE_S: Final = 10.0  # for everything that one step of an emergency asks of the source
FRESH_S: Final = 5.0
AGAIN_S: Final = 1.0
FORGOTTEN_S: Final = 120.0
CHEAP_S: Final = 0.3
_FILE: Final = "silent.json"
_writing: Final = threading.Lock()  # steps of a plan are observed at the same time


@dataclass(frozen=True, slots=True)
class Silence:
    """Why there was no answer at `at_ms`, and how long that took. `refused`: this host cannot use it, others may."""

    why: str
    at_ms: int
    took_s: float
    refused: bool = False


_SILENCES: Final = TypeAdapter(dict[str, Silence])


def patience_s(known: Silence | None, now_ms: int, full_s: float) -> float:
    """How long to wait for an answer now; 0 where the finding counts as it is. Pure."""
    if known is None or not counts(known, now_ms):
        return full_s
    if known.took_s <= CHEAP_S:
        return min(full_s, AGAIN_S)
    return 0.0 if now_ms - known.at_ms < FRESH_S * 1000 else min(full_s, AGAIN_S)


class KnownSilence:
    """The findings of the run in `run_dir`, by subject: a cluster's alias, or a part of it."""

    def __init__(self, run_dir: Path) -> None:
        self._path = run_dir / DETAILS / _FILE

    def all(self) -> Mapping[str, Silence]:
        """Nothing where the file is missing or cannot be used: then everything is asked in full."""
        try:
            return read_json(self._path, _SILENCES)
        except (FileNotFoundError, UsageError):
            return {}

    def of(self, subject: str) -> Silence | None:
        return self.all().get(subject)

    def note(self, found: Mapping[str, Silence | None]) -> None:
        """Keep what was found of each subject now; None: it answers."""
        with _writing:
            before = self.all()
            after = {name: each for name, each in {**before, **found}.items() if each is not None}
            if after != before:
                make_folder(self._path.parent)
                write_whole(self._path, _SILENCES.dump_json(after))


def ask_in_run(
    context: DrillContext, clusters: Sequence[ClusterSettings], full_s: float = ANSWER_S
) -> Mapping[str, ClusterMetadata | Unreachable]:
    """`who_answers`, with what the run found before. Blocks for `full_s` at most."""
    silence, now_ms = KnownSilence(context.run_dir), clock.now_ms()
    known = silence.all()
    waits = {
        each.alias: full_s if each.alias == context.flow.target else patience_s(known.get(each.alias), now_ms, full_s)
        for each in clusters
    }

    def one(cluster: ClusterSettings) -> ClusterMetadata | Unreachable:
        wait_s = waits[cluster.alias]
        if not wait_s:
            return repeated(cluster.alias, now_ms, known)
        dispensable = {cluster.alias} - {context.flow.target}
        return who_answers([cluster], wait_s, dispensable)[cluster.alias]

    def timed(cluster: ClusterSettings) -> tuple[ClusterMetadata | Unreachable, float]:
        began = time.monotonic()
        return one(cluster), round(time.monotonic() - began, 3)

    with ThreadPoolExecutor(max(1, len(clusters)), "asking") as pool:
        found = dict(zip([each.alias for each in clusters], pool.map(timed, clusters), strict=True))
    silence.note(
        {
            alias: Silence(answer.why, clock.now_ms(), took_s, isinstance(answer, Refused))
            if isinstance(answer, Unreachable)
            else None
            for alias, (answer, took_s) in found.items()
            if waits[alias] and alias != context.flow.target
        }
    )
    return {alias: answer for alias, (answer, _) in found.items()}


def controller_of(alias: str) -> str:
    """What a silence of most brokers is kept under: topics' settings, ACLs and quotas are then asked of other places."""
    return f"controller of {alias}"


def most_are_silent(service: ClusterService, now_ms: int) -> Silence | None:
    """The finding about `controller_of`; None where at least half of the brokers answer. Pure."""
    brokers = len(service.metadata.brokers)
    if 2 * len(service.silent) <= brokers:
        return None
    return Silence(f"{len(service.silent)} of {brokers} brokers do not answer", now_ms, 0.0)


def counts(known: Silence | None, now_ms: int, for_s: float = FORGOTTEN_S) -> bool:
    """Whether a finding is recent enough to rely on it without asking. One of the future, by a clock that was wrong or that of
    another host, is not. Pure."""
    return known is not None and 0 <= now_ms - known.at_ms < for_s * 1000


def repeated(subject: str, now_ms: int, known: Mapping[str, Silence]) -> Unreachable:
    """The error of a subject that was found silent a moment ago and is not asked again."""
    age_s = max(0, now_ms - known[subject].at_ms) / 1000
    why = f"{known[subject].why.rstrip('.')}, as found {age_s:.0f} s ago"
    if known[subject].refused:
        return Refused(f"{subject} cannot be used", why, "Correct that, or continue without it.")
    return Unreachable(f"{subject} does not answer", why, f"Restore {subject}, or continue without it.")
