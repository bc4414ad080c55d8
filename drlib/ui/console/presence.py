"""Whether a page is connected to this kernel: a console whose notebook was closed stops polling clusters.

Rules: the Jupyter server that started the kernel counts its connections; it is asked at most every few seconds, on this
machine only, with the token from its own file of mode 0600. A page counts as closed after `AWAY_S` without a connection, as a
reload disconnects for a moment. Where no such server is found, a page is assumed. A cell that waits for a click is stricter
(`Presence`): a page that reconnects to a busy kernel has no buttons until the kernel is idle.
Source: Jupyter Server's REST API, GET /api/kernels/ID, `connections`.
"""

import os
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from drlib import decoding
from drlib.files import read_stored
from drlib.outgoing import http_request

ASK_S: Final = 5.0
AWAY_S: Final = 15.0
LOOK_S: Final = 0.4
MOST_BYTES: Final = 1 << 20


class _Server(BaseModel):
    """What a Jupyter server writes about itself, as far as it is used."""

    model_config = ConfigDict(frozen=True)

    port: int
    base_url: str
    token: str


class _Kernel(BaseModel):
    """What a Jupyter server answers about a kernel, as far as it is used."""

    model_config = ConfigDict(frozen=True)

    connections: int


class Attention:
    """`connections` returns the number of connected front ends, None when unknown; `clock` is monotonic seconds."""

    def __init__(self, connections: Callable[[], int | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._connections = connections
        self._clock = clock
        self._asked = float("-inf")
        self._seen = clock()

    def away(self) -> bool:
        """Has no page been connected for `AWAY_S`? May ask the server, which answers in milliseconds."""
        now = self._clock()
        if now - self._asked >= ASK_S:
            self._asked = now
            if self._connections() != 0:
                self._seen = now
        return now - self._seen >= AWAY_S


class Presence:
    """Has a page been connected without a break since the last call? False when unknown."""

    def __init__(self, connections: Callable[[], int | None], clock: Callable[[], float] = time.monotonic) -> None:
        self._connections = connections
        self._clock = clock
        self._asked = float("-inf")
        self._here = False

    def __call__(self) -> bool:
        """Asks the server at most every `LOOK_S`, which a reload takes longer than."""
        now = self._clock()
        if now - self._asked >= LOOK_S:
            self._asked, self._here = now, bool(self._connections())
        return self._here


def connections_here() -> int | None:
    """Connections of this kernel; None outside a kernel, or where its server is unknown."""
    kernel = _kernel_id()
    runtime = os.environ.get("JUPYTER_RUNTIME_DIR", "")
    if not kernel or not runtime:
        return None
    for note in Path(runtime).glob("jpserver-*.json"):
        try:
            server = decoding.json_as(_Server, read_stored(note))
            request = http_request.Request(
                http_request.parse(f"http://127.0.0.1:{server.port}{server.base_url}api/kernels/{kernel}"),
                headers={"Authorization": f"token {server.token}"},
                timeout_s=2.0,
                secret=True,
            )
            answer = http_request.fetch(request, MOST_BYTES)
            if answer.status == HTTPStatus.OK:
                return decoding.json_as(_Kernel, answer.body).connections
        except (OSError, ValueError, http_request.NoAnswer):
            continue
    return None


def _kernel_id() -> str:
    """Its connection file is called kernel-ID.json."""
    try:
        from ipykernel.connect import get_connection_file

        return Path(get_connection_file()).stem.removeprefix("kernel-")
    except (ImportError, RuntimeError):
        return ""
