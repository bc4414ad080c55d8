"""Free TCP ports on 127.0.0.1 that stay free for a while.

Rules: ports are below the kernel's range for outgoing connections, so that a restarted listener finds its port free; a
returned port was free a moment ago, so callers retry with others when it is taken. Random numbers are the system's: a seeded
generator finds the same ports in several processes.
"""

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

_FLOOR: Final = 15_000  # above the usual ports of services
_TRIES: Final = 2_000
_RANDOM: Final = random.SystemRandom()


def free_ports(count: int) -> tuple[int, ...]:
    """`count` distinct ports without a listener. Raises `OSError` when there are not enough."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:  # held until all are bound, so that they are distinct
        for _ in range(_TRIES):
            if len(ports) == count:
                return tuple(ports)
            port = _RANDOM.randrange(_FLOOR, _ceiling())
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
    raise OSError(f"found {len(ports)} free ports on 127.0.0.1 and needed {count}")


def _ceiling() -> int:
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    return max(_FLOOR + 1_000, int(text.split()[0]))
