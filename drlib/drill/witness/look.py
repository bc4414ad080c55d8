"""Look at a source from everywhere that can be asked, until what is seen has settled.

Rules: this host, the mirror's workers and the witnesses are asked at the same time, each for `ANSWER_S` at most. A worker sees
the source by what it fetches: log ends that are newer than `FRESH_S` are an answer, its event `SourceUnreachable` is none, and
anything else is unknown, also where the worker is refused there. Only ages by one clock are compared. Looking ends with the
first sign of life at this host, once being gone has held, or after `MOST_S` more, where others still reach it. It only reads,
and raises nothing that a peer can cause.
Not for: judging (`evidence`), whether the source serves in full (`drlib.kafka.admin.reachability`).
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from drlib import clock
from drlib.drill.witness import service
from drlib.drill.witness.evidence import GONE, Answer, Condition, Finding, Look, Place, View, judge_looks
from drlib.drill.witness.login import NO_LOGIN, WitnessLogin
from drlib.errors import Unreachable
from drlib.kafka.admin.connect import Refused, blocking, who_answers
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import CANNOT_USE
from drlib.mirror.monitor.observer import fetch_status
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.model import Flow

ANSWER_S: Final = 2.0
HOLD_S: Final = 2.0  # for how long a source has to be gone, where nothing else was asked for
FRESH_S: Final = 3.0  # a worker measures every second
MOST_S: Final = 8.0  # beyond the time that being gone has to hold
PAUSE_S: Final = 0.5
_CONNECT_S: Final = 1.0
_UNUSABLE: Final = "it cannot use the source"


def look_until_settled(
    source: ClusterSettings,
    target: ClusterSettings,
    workers: Collection[str],
    witnesses: Collection[str] = (),
    *,
    hold_s: float,
    login: WitnessLogin = NO_LOGIN,
    first: View | None = None,
    statuses: Callable[[], Sequence[WorkerStatus]] = tuple,
    pause: Callable[[float], None] = time.sleep,
) -> Finding:
    """What all places say together. A target that this host cannot use raises what `who_answers` raises.

    `workers`, `witnesses`: HOST:PORT, of witnesses also https://HOST:PORT; these are asked with `login`. `first`: what this
    host has just seen, so that it does not wait for the same once more. `statuses`: of workers that are known otherwise.
    `pause` waits so many seconds, and raises to end the looking.
    """
    looks: list[Look] = []
    end = time.monotonic() + hold_s + MOST_S
    flow = Flow(source.alias, target.alias)
    while True:
        views = _look(source, target, flow, workers, [(each, login) for each in witnesses], statuses, first)
        first = None
        looks.append(Look(time.monotonic(), views))
        finding = judge_looks(looks, hold_s)
        more_s = 0.0
        if finding.condition is Condition.CUT_OFF:  # of a source that has just failed, others do not know it yet
            more_s = end - time.monotonic()
        elif finding.condition in GONE and not finding.settled:
            more_s = end + hold_s - time.monotonic()
        if more_s <= 0:
            return finding
        pause(PAUSE_S)


def _look(
    source: ClusterSettings,
    target: ClusterSettings,
    flow: Flow,
    workers: Collection[str],
    witnesses: Collection[tuple[str, WitnessLogin]],
    statuses: Callable[[], Sequence[WorkerStatus]],
    first: View | None,
) -> tuple[View, ...]:
    with ThreadPoolExecutor(1 + len(workers) + len(witnesses), "look") as pool:
        asked = [(address, pool.submit(fetch_status, address)) for address in workers]
        others = [pool.submit(service.ask, address, source, target, login) for address, login in witnesses]
        now_ms = clock.now_ms()
        known = [status for status in statuses() if 0 <= now_ms - status.at_ms <= FRESH_S * 1000]  # of this machine
        views = [first or from_here(source, target)]
        for address, answer in asked:
            status = answer.result()
            if status is None:
                views.append(View(Place.MIRROR, address, Answer.UNKNOWN, Answer.UNKNOWN))
            else:
                views.append(of_worker(status, flow))
        views += [of_worker(status, flow) for status in known]
        return (*views, *(other.result() for other in others))


def from_here(source: ClusterSettings, target: ClusterSettings) -> View:
    """What this host gets from both, within `ANSWER_S`."""
    found = answers([source, target], {source.alias})
    return View(Place.HERE, "", found[source.alias], found[target.alias])


def without_answer(source: ClusterSettings, *, target_answers: bool, waited_s: float, refused: bool = False) -> View:
    """What this host sees of a source that it has just waited for; nothing of one that it cannot use."""
    if refused:
        return View(Place.HERE, "", Answer.UNKNOWN, Answer.SERVES if target_answers else Answer.SILENT, note=_UNUSABLE)
    closed = blocking(_refused([source]))[source.alias]
    target = Answer.SERVES if target_answers else Answer.SILENT
    return View(Place.HERE, "", Answer.REFUSED if closed else Answer.SILENT, target, waited_s)


def answers(clusters: Sequence[ClusterSettings], dispensable: Collection[str] = ()) -> dict[str, Answer]:
    """What this host gets from each cluster, by alias: unknown where it cannot use one that is `dispensable`. Blocks; raises
    what `who_answers` raises."""
    found = who_answers(clusters, ANSWER_S, dispensable)
    silent = [cluster for cluster in clusters if isinstance(found[cluster.alias], Unreachable)]
    refused = blocking(_refused(silent)) if silent else {}
    return {
        cluster.alias: Answer.SERVES
        if cluster not in silent
        else Answer.UNKNOWN
        if isinstance(found[cluster.alias], Refused)
        else Answer.REFUSED
        if refused[cluster.alias]
        else Answer.SILENT
        for cluster in clusters
    }


async def _refused(clusters: Sequence[ClusterSettings]) -> dict[str, bool]:
    """Does every address of a cluster refuse connections, by alias?"""

    async def one(address: str) -> bool:
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError, ValueError):
            return False
        writer.close()
        return False

    async def every(cluster: ClusterSettings) -> bool:
        return all(await asyncio.gather(*map(one, cluster.bootstrap_servers)))

    return dict(zip([c.alias for c in clusters], await asyncio.gather(*map(every, clusters)), strict=True))


def of_worker(status: WorkerStatus, flow: Flow) -> View:
    """What a worker sees of the flow's source. Pure."""
    name = status.worker or str(status.pid)
    flows = [each for each in status.flows if each.flow == str(flow)]
    events = [e for e in status.events if e.resolved_ms is None and e.flow in ("", str(flow))]
    answered_ms = max((p.as_of_ms for each in flows for p in each.partitions), default=0)
    silent = [e.opened_ms for e in events if e.name == "SourceUnreachable"]
    refused = any(e.name == "SourceUnreachable" and CANNOT_USE in e.detail for e in events)
    down = any(e.name == "TargetUnreachable" for e in events)
    target = Answer.SILENT if down else Answer.SERVES if flows else Answer.UNKNOWN
    if answered_ms and 0 <= status.at_ms - answered_ms <= FRESH_S * 1000:
        return View(Place.MIRROR, name, Answer.SERVES, target)
    if not silent or refused:
        return View(Place.MIRROR, name, Answer.UNKNOWN, target, note=_UNUSABLE if refused else "")
    since_s = max(0, status.at_ms - max(min(silent), answered_ms)) / 1000
    return View(Place.MIRROR, name, Answer.SILENT, target, since_s)
