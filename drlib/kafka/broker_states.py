"""Has a client of librdkafka lost its brokers for good?

It drops each broker that a Metadata answer does not name. An answer that names none, of a broker that was just started or of a
cluster whose controllers have fenced all of them for a moment, leaves it without any, and it does not always begin with
bootstrap.servers again, whatever `metadata.recovery.rebootstrap.trigger.ms` is (librdkafka issue 5301; seen with 2.16). Such a
client is silent until it is replaced, and reports nothing.
Rules: its own statistics say whether it is connected to a broker. It is stranded when those of the last half a minute had none
although an address of bootstrap.servers accepts connections; where none does, a new client would find no more. An application
that has statistics for itself gets them as before.
Not for: why a cluster does not answer.
"""

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from drlib import decoding
from drlib.decoding import Undecodable

_EVERY_MS: Final = 5000  # where the application wants none
_LOST_MS: Final = 30_000
_LEAST: Final = 2  # reports
_STATISTICS: Final = "statistics.interval.ms"
_CONNECT_S: Final = 1.0
_CONNECTED: Final = '"state":"UP"'  # of a broker; the states of others are written in small letters


class BrokerStates:
    """What one client reports of its brokers, when it is polled. It is made with `settings` beside its `configuration`."""

    def __init__(self, configuration: Mapping[str, object]) -> None:
        self._servers = str(configuration.get("bootstrap.servers", ""))
        self._every_ms = decoding.integer_or(_EVERY_MS, str(configuration.get(_STATISTICS, "")), least=1)
        self._reader = configuration.get("stats_cb")
        self._without = 0  # reports in a row

    @property
    def settings(self) -> Mapping[str, object]:
        return {_STATISTICS: self._every_ms, "stats_cb": self.reported}

    def reported(self, statistics: str) -> None:
        self._without = 0 if _CONNECTED in statistics else self._without + 1
        if callable(self._reader):
            self._reader(statistics)

    @property
    def none_for_long(self) -> bool:
        """Without any for half a minute, whether or not the cluster can be reached."""
        return self._without >= max(_LEAST, _LOST_MS // self._every_ms)

    def stranded(self) -> bool:
        """True once in half a minute, when the client is to be replaced. Blocks for a connection where there is no broker."""
        if not self.none_for_long:
            return False
        self._without = 0
        return any(_accepts(host, port) for host, port in addresses(self._servers))


def addresses(servers: str) -> Iterable[tuple[str, int]]:
    """The hosts and ports of a bootstrap.servers; what is none is left out."""
    for each in servers.split(","):
        with suppress(Undecodable):
            yield decoding.address(each.rpartition("://")[2])


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), _CONNECT_S):
            return True
    except OSError:
        return False
