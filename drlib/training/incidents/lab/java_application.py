"""The Java application of an incident: an unmodified consumer of flights with kafka-clients, which knows one address.

Rules: it follows no pointer. It is moved as such applications are: stopped, and started with the other site's address and
topics; where it works is kept in a pointer file that only this module reads. It writes a history like all applications, and
no status file: its progress is what its history has. A lab has it only if this machine has a JDK, which runs its source.
Not for: the applications that follow a pointer (`testbed`), judging its history (`measure`).
"""

from pathlib import Path
from typing import Final

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.lab.clients.runtimes import Client, command, found
from drlib.lab.lab import Lab

CATERING: Final = "catering"  # its name and its group
READS: Final = "flights"
_FAMILY: Final = "java"
_STOP_S: Final = 20.0  # it commits and leaves its group; killed before that, it would read records again


class JavaApplication:
    """`CATERING` on `lab`. `address`: the file that says where it works. `history`: its history."""

    def __init__(self, lab: Lab, address: Path, history: Path) -> None:
        self._lab = lab
        self._address = address
        self._history = history

    @property
    def present(self) -> bool:
        """Report whether this lab has it, running or not."""
        return self._address.exists()

    @property
    def site(self) -> str:
        """Where it works, or would work. Raises `UsageError` where the lab does not have it."""
        return pointer_file.read(self._address).active

    @staticmethod
    def missing() -> str:
        """Why this machine cannot run it, in words; empty where it can."""
        return next(runtime.missing for runtime in found() if runtime.family == _FAMILY)

    def place(self, site: str) -> None:
        """Write that it works at `site`; the next start uses that."""
        version = pointer_file.read(self._address).version + 1 if self.present else 1
        pointer_file.write_atomic(self._address, Pointer(version, site, self._lab.clusters[site].bootstrap))

    def start(self) -> bool:
        """Start it where it works; False if it runs or the lab does not have it."""
        if not self.present or self._lab.registry.alive(CATERING):
            return False
        site = self.site
        topics = (READS,) if site == "LEFT" else (f"LEFT.{READS}", READS)
        self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        servers = self._lab.clusters[site].bootstrap
        client = Client(
            _FAMILY, "consume", CATERING, site, servers, topics, self._history, 0.0, self._lab.client_file()
        )
        self._lab.start_program(CATERING, command(client))
        return True

    def stop(self) -> None:
        """SIGTERM: it commits what it has read, and leaves its group."""
        self._lab.registry.stop(CATERING, deadline_s=_STOP_S)

    def move(self, site: str) -> None:
        """Give it another address: a restart. Does nothing if it works at `site`; one that was stopped stays so."""
        if self.site == site:
            return
        ran = self._lab.registry.alive(CATERING)
        if ran:
            self.stop()
        self.place(site)
        if ran:
            self.start()
