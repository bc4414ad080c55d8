"""Free TCP ports on 127.0.0.1 that stay free for a while.

Rules: ports are taken from below the kernel's range for outgoing connections, so that a listener which is down for a
moment finds its port again; what is returned was bindable a moment ago, which is no promise: callers retry with others.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

_FLOOR: Final = 15_000  # above what services of this machine are likely to use
_TRIES: Final = 2_000


def free_ports(count: int) -> tuple[int, ...]:
    """`count` distinct ports that nobody listens on. Raises `OSError` when that many cannot be found."""
    found: list[int] = []
    with contextlib.ExitStack() as held:  # held until all are found, so that they are distinct
        for _ in range(_TRIES):
            if len(found) == count:
                return tuple(found)
            port = random.randrange(_FLOOR, _ceiling())
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
    raise OSError(f"found {len(found)} free ports on 127.0.0.1 and needed {count}")


def _ceiling() -> int:
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    return max(_FLOOR + 1_000, int(text.split()[0]))
