"""Notify systemd that a worker is ready, alive or stopping (sd_notify(3)).

Rules: one datagram to the socket in NOTIFY_SOCKET, nothing without one; the watchdog is notified from the event loop that
mirrors, at half its interval, so that a worker whose loop hangs is restarted. A message that cannot be sent is dropped: the
next one repeats it.
Not for: any other service manager.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from drlib import decoding


@dataclass(slots=True)
class ServiceManager:
    """`address` is a path or, with `@` in front, a name in the abstract namespace; empty without systemd.

    `watchdog_s`: after this time without a notification systemd restarts the worker; 0 without a watchdog.
    """

    address: str = ""
    watchdog_s: float = 0.0
    _next_s: float = field(default=0.0, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ServiceManager:
        """From the variables that systemd sets. A watchdog for another process is ignored."""
        variables = os.environ if environment is None else environment
        address = variables.get("NOTIFY_SOCKET", "")
        microseconds = variables.get("WATCHDOG_USEC", "")
        meant = variables.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        watched = decoding.integer_or(0, microseconds) if address and meant else 0
        return cls(address if address[:1] in ("/", "@") else "", watched / 1e6)

    def ready(self, text: str) -> None:
        self._send(f"READY=1\nSTATUS={text}")

    def stopping(self, text: str = "delivering records already fetched") -> None:
        self._send(f"STOPPING=1\nSTATUS={text}")

    def alive(self, now_s: float, text: str) -> None:
        """Notify the watchdog, twice in its interval. Call it more often, with the event loop's time."""
        if self.watchdog_s and now_s >= self._next_s:
            self._next_s = now_s + self.watchdog_s / 2
            self._send(f"WATCHDOG=1\nSTATUS={text}")

    def _send(self, message: str) -> None:
        if not self.address:
            return
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
        ):
            sender.setblocking(False)
            sender.sendto(message.encode(), address)
