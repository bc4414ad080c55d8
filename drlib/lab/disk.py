"""A full disk without root: the kernel's limit on file sizes (RLIMIT_FSIZE), set on a running broker.

Rules: the limit is set from outside (prlimit(2), same user). An append beyond it fails with EFBIG, which Kafka treats like
ENOSPC: the log directory has failed, and a broker with only one shuts down (seen on 4.3.1). A restart fails as well, since it
preallocates index files; as the limit ends with its process, a file of the lab records that the disk is full, and
`start_broker` applies it again. Not for: other processes; their files are not limited.
"""

import resource
from typing import Final

from drlib.files import write_whole
from drlib.lab.brokers.broker import Broker, BrokerFailed
from drlib.lab.lab import Lab

_NO_ROOM: Final = 16 * 1024  # less than any log holds after a second of traffic
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
        """Fill the disk; a broker that does not run meets it at its next start."""
        write_whole(self._full, "")
        if self._broker.alive:
            self._limit()

    def free(self) -> None:
        """Free the disk. A broker that shut down has to be started again; a running one continues."""
        self._full.unlink(missing_ok=True)
        if self._broker.alive:
            resource.prlimit(self._pid(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def start_broker(self) -> None:
        """Restart the broker on its data. Raises `BrokerFailed`; no broker runs then."""
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

    def _limit(self) -> None:
        resource.prlimit(self._pid(), resource.RLIMIT_FSIZE, (_NO_ROOM, resource.RLIM_INFINITY))

    def _pid(self) -> int:
        return next(process.pid for process in self._lab.registry.records() if process.name == self._broker.name)
