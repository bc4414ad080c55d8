"""Workers that can be heard: where they answer, what they say, and the view of a flow with it.

Rules: workers are looked for at the addresses given, in the file, and in the journal's claims (a loopback address only on
the machine it belongs to). All are asked at once, and who does not answer in `HEAR_S` is silent, not dead.
Not for: what the clusters say (`survey`), putting the two together (`overview`).
"""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import ValidationError

from drlib.config.settings import FlowSettings
from drlib.mirror.monitor.flow_view import FlowView, overview
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status import worker_status as status

HEAR_S = 2.0


def views(
    surveys: Sequence[Survey],
    flows: Sequence[FlowSettings],
    addresses: Iterable[str],
    told: Sequence[status.WorkerStatus] = (),
) -> tuple[FlowView, ...]:
    """A view for each survey, with every worker that is heard now; `told` are words that were heard already. Blocks."""
    places = {address for survey in surveys for address in claimed(survey).values()}
    places |= {*addresses, *filter(None, (_written(flow) for flow in flows))}
    with ThreadPoolExecutor(max(1, min(16, len(places)))) as pool:
        answers = dict(zip(sorted(places), pool.map(fetch_status, sorted(places)), strict=True))
    heard = [*(answer for answer in answers.values() if answer is not None), *told]
    unique = list({(worker.worker, worker.pid): worker for worker in heard}.values())
    now = int(time.time() * 1000)
    return tuple(
        overview(survey, unique, now, [w for w, at in claimed(survey).items() if answers.get(at) is None])
        for survey in surveys
    )


def fetch_status(address: str) -> status.WorkerStatus | None:
    """What a worker says of itself at HOST:PORT; None when nobody says anything there."""
    try:
        with urllib.request.urlopen(f"http://{address}/status", timeout=HEAR_S) as answer:
            return status.decode(answer.read())
    except (OSError, ValueError, ValidationError, urllib.error.URLError):
        return None


def claimed(survey: Survey) -> dict[str, str]:
    """Worker -> address of those that own a lane now and said in their claim where they answer."""
    owned = {tp.partition for member in survey.members for tp in member.assignment}
    found: dict[str, str] = {}
    for lane, claim in survey.claims.items():
        worker, _, address = claim.worker.partition(" ")
        host = worker.rpartition("-")[0]
        local = address.startswith(("127.", "localhost:"))
        if lane in owned and address and (not local or host == socket.gethostname()):
            found[worker] = address
    return found


def _written(flow: FlowSettings) -> str | None:
    """The address in the file; port 0 is known to the worker alone, and to the journal."""
    address = flow.metrics_address
    return address if address and not address.endswith(":0") else None
