"""Ask a worker for its status over HTTP, and find the addresses at which workers answer.

Rules: a worker that does not answer within `TIMEOUT_S` is silent, which does not mean dead. A loopback address in a claim is
used only on the machine that it belongs to.
Not for: the clusters' view (`survey`), combining both (`observer`).
"""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

from pydantic import ValidationError

from drlib.config.flow_settings import FlowSettings
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status import worker_status

TIMEOUT_S = 2.0


def fetch_status(address: str) -> worker_status.WorkerStatus | None:
    """The status of the worker at HOST:PORT; None where no worker answers."""
    try:
        with urllib.request.urlopen(f"http://{address}/status", timeout=TIMEOUT_S) as response:
            return worker_status.decode(response.read())
    except (OSError, ValueError, ValidationError, urllib.error.URLError):
        return None


def claimed_addresses(survey: Survey) -> dict[str, str]:
    """Address by worker, of the workers that own a lane now and have an address in their claim."""
    owned = {tp.partition for member in survey.members for tp in member.assignment}
    addresses: dict[str, str] = {}
    for lane, claim in survey.claims.items():
        worker, _, address = claim.worker.partition(" ")
        host = worker.rpartition("-")[0]
        local = address.startswith(("127.", "localhost:"))
        if lane in owned and address and (not local or host == socket.gethostname()):
            addresses[worker] = address
    return addresses


def configured_address(flow: FlowSettings) -> str | None:
    """The address in the flow's file; None for port 0, which only the worker and its claim know."""
    address = flow.metrics_address
    return address if address and not address.endswith(":0") else None
