"""Observe flows: survey their clusters, ask their workers, and combine both into one `FlowView` a flow.

Rules: all clusters are asked at the same time, and so are all workers; a cluster or worker that does not answer is part of the
result. Workers are asked at the addresses given, at those in the flows' files, and at those in the journals' claims. Surveys
are expensive (they read journals), views are cheap: `views` may be called more often than `survey`. Keep one observer for
repeated observation, since rates need two surveys. A loopback address in a claim is used only on the machine that it
belongs to.
Not for: repeating (`drlib.mirror.monitor.polling_thread`), drawing.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from types import MappingProxyType

from drlib import clock, decoding
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.connect import ANSWER_S, blocking
from drlib.mirror.monitor.flow_view import FlowView, overview
from drlib.mirror.monitor.survey import Survey, Surveyor
from drlib.mirror.status import worker_status
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.outgoing import http_request

TIMEOUT_S = 2.0  # of a request to a worker; one that does not answer is silent, which does not mean dead
_PATH = "/status"
_MOST_REQUESTS = 16  # to workers, at the same time


class FlowObserver:
    """Observes the flows given to `survey`. Not thread-safe, but `views` may run while `survey` does.

    `addresses`: workers (HOST:PORT) to ask in any case; `groups`: survey consumer groups too, `ages` with how old their first
    unread records are. `surveys` are the newest ones.
    """

    def __init__(self, *, addresses: Iterable[str] = (), groups: bool = False, ages: bool = False) -> None:
        self.surveys: tuple[Survey, ...] = ()
        self._addresses = frozenset(addresses)
        self._groups = groups
        self._ages = ages
        self._flows: tuple[FlowSettings, ...] = ()
        self._surveyors: dict[str, tuple[FlowSettings, Surveyor]] = {}

    async def survey(
        self,
        flows: Sequence[tuple[MirrorSettings, FlowSettings]],
        source_errors: Mapping[str, str] = MappingProxyType({}),
        answer_s: float = ANSWER_S,
    ) -> tuple[Survey, ...]:
        """Ask the clusters of `flows`; one survey each, in their order. Raises nothing that a cluster can cause.

        `source_errors`: by alias, why a source is known not to answer; it is then not asked. `answer_s`: how long a source's
        brokers may take to give a sign of life.
        """
        surveys = [
            self._surveyor(settings, flow).survey(
                groups=self._groups,
                ages=self._ages,
                source_error=source_errors.get(flow.flow.source, ""),
                answer_s=answer_s,
            )
            for settings, flow in flows
        ]
        self.surveys = tuple(await asyncio.gather(*surveys))
        self._flows = tuple(flow for _, flow in flows)
        return self.surveys

    def survey_blocking(
        self,
        flows: Sequence[tuple[MirrorSettings, FlowSettings]],
        source_errors: Mapping[str, str] = MappingProxyType({}),
        answer_s: float = ANSWER_S,
    ) -> tuple[Survey, ...]:
        """`survey` for callers without an event loop, and for a kernel's main thread, which has a running one."""
        return blocking(self.survey(flows, source_errors, answer_s))

    def views(self, statuses: Sequence[WorkerStatus] = ()) -> tuple[FlowView, ...]:
        """Ask the workers, and combine their answers with the newest surveys. Blocks at most the time-out of one request.

        `statuses`: of workers that are known from elsewhere, for example from a status file.
        """
        surveys = self.surveys
        configured = {address for flow in self._flows if (address := configured_address(flow)) is not None}
        addresses = sorted(
            {address for survey in surveys for address in claimed_addresses(survey).values()}
            | configured
            | self._addresses
        )
        with ThreadPoolExecutor(max(1, min(_MOST_REQUESTS, len(addresses)))) as pool:
            answers = dict(zip(addresses, pool.map(fetch_status, addresses), strict=True))
        now_ms = clock.now_ms()
        # an answer is made when it is asked for, so that it is of now, whatever the clock of its machine says
        current = [replace(status, at_ms=now_ms) for status in answers.values() if status is not None]
        workers = list({(worker.worker, worker.pid): worker for worker in (*current, *statuses)}.values())
        return tuple(overview(survey, workers, now_ms, _silent_workers(survey, answers)) for survey in surveys)

    def _surveyor(self, settings: MirrorSettings, flow: FlowSettings) -> Surveyor:
        known = self._surveyors.get(str(flow.flow))
        if known is None or known[0] != flow:
            known = self._surveyors[str(flow.flow)] = (flow, Surveyor(settings, flow))
        return known[1]


def _silent_workers(survey: Survey, answers: Mapping[str, WorkerStatus | None]) -> list[str]:
    """Workers that own a lane and did not answer at the address in their claim."""
    return [worker for worker, address in claimed_addresses(survey).items() if answers.get(address) is None]


def fetch_status(address: str) -> WorkerStatus | None:
    """The status of the worker at HOST:PORT; None where no worker answers."""
    if (where := _status_at(address)) is None:
        return None
    try:
        answer = http_request.fetch(http_request.Request(where, timeout_s=TIMEOUT_S), decoding.MOST_BYTES)
        return worker_status.decode(answer.body) if answer.status == HTTPStatus.OK else None
    except (ValueError, http_request.NoAnswer):
        return None


def _status_at(address: str) -> http_request.Address | None:
    """The one path that is requested of a worker at HOST:PORT; None for what holds anything else, such as another path.

    The address of a claim is in the journal: a principal with Write on that chooses it.
    """
    try:
        where = http_request.parse(f"http://{address}{_PATH}")
    except http_request.NotAnAddress:
        return None
    return where if where.port is not None and where.target == _PATH else None


def claimed_addresses(survey: Survey) -> dict[str, str]:
    """Address by worker, of the workers that own a lane now, as far as that is known, and have an address in their claim."""
    owned = {tp.partition for member in survey.members or () for tp in member.assignment}
    owned |= survey.claims.keys() if survey.members is None else set()
    addresses: dict[str, str] = {}
    for lane, claim in survey.claims.items():
        worker, _, address = claim.worker.partition(" ")
        host = worker.rpartition("-")[0]
        where = _status_at(address)
        local = where is not None and http_request.is_loopback(where.host)
        if lane in owned and address and (not local or host == socket.gethostname()):
            addresses[worker] = address
    return addresses


def configured_address(flow: FlowSettings) -> str | None:
    """The address in the flow's file; None for port 0, which only the worker and its claim know."""
    address = flow.metrics_address
    return address if address and not address.endswith(":0") else None
