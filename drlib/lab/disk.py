"""A disk with no room left, without root: the kernel's limit on the size of a file, set on a running broker.

Rules: the limit is RLIMIT_FSIZE of the broker's process, set from outside (prlimit(2), same user). An append beyond
it fails with EFBIG, which Kafka takes for what ENOSPC is to it: the log directory has failed, and with the only one
the broker shuts down (seen on 4.3.1). A start does not help while there is no room, since it sizes index files at
once; so whether there is room is a file of the lab, and every start of a broker through here asks it. A limit of a
process ends with it. Not for: other processes; their own files are not limited.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

from drlib.lab.brokers.broker import Broker, BrokerFailed
from drlib.lab.lab import Lab

_NO_ROOM: Final = 16 * 1024  # below what any log holds after a moment of traffic
_START_S: Final = 20.0


class Disk:
    """The disk of a site's only broker."""

    def __init__(self, lab: Lab, site: str) -> None:
        self._lab = lab
        self._broker: Broker = lab.clusters[site].brokers[0]
        self._full = lab.root / f".{self._broker.name}.full"

    @property
    def full(self) -> bool:
        return self._full.exists()

    def fill(self) -> None:
        """From now on nothing more fits on it; a broker that does not run will find it so."""
        self._full.touch(mode=0o600)
        if self._broker.alive:
            self._limit()

    def free(self) -> None:
        """Make room. A broker that gave up has to be started again; one that runs goes on."""
        self._full.unlink(missing_ok=True)
        if self._broker.alive:
            resource.prlimit(self._pid(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def start_broker(self) -> None:
        """Start the broker again on its data, stopping it first if it runs. Raises `BrokerFailed`, and leaves none
        running then."""
        if self._broker.alive:
            self._broker.stop()
        self._broker.launch()
        if self.full:
            self._limit()
        try:
            self._broker.wait_ready(_START_S if self.full else 60.0)
        except BrokerFailed:
            self._broker.kill()
            raise

    def log(self) -> Path:
        return self._broker.log

    def _limit(self) -> None:
        resource.prlimit(self._pid(), resource.RLIMIT_FSIZE, (_NO_ROOM, resource.RLIM_INFINITY))

    def _pid(self) -> int:
        return next(one.pid for one in self._lab.registry.records() if one.name == self._broker.name)
