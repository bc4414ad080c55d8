"""The producing application: replays the flights to the cluster that the pointer names.

Rules: no record is produced twice, and no acknowledged one again. When the pointer moves it stops, waits briefly for
outstanding acknowledgements, searches the tail of the mirror topic on the new cluster for records in doubt, produces those that
are missing there, and continues with the next flight. While the cluster is dead and the pointer has not moved it waits, with at
most `max_in_flight` records in doubt.
Not for: transactions (`transactions`).

Run as `python -m drlib.lab.apps.producer SPEC.json`.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from drlib.client.pointer import Pointer
from drlib.errors import Unreachable
from drlib.lab.apps import flights, specs, transactions
from drlib.lab.apps.fleet import Fleet, Sent
from drlib.lab.apps.flights import Flight
from drlib.lab.apps.in_doubt import still_to_send
from drlib.lab.apps.pacing import Pace
from drlib.lab.apps.process import StatusFile, Stop, run_app
from drlib.lab.checker.history_files import HistoryWriter
from drlib.lab.clocks import MachineClock

_TICK_S = 0.005
_SILENT_S = 1.0


class Replay:
    """One run of the application."""

    def __init__(self, spec: specs.ProducerSpec, stop: Stop, history: HistoryWriter) -> None:
        self._spec = spec
        self._stop = stop
        self._history = history
        self._watcher = specs.watcher(spec)
        self._status = StatusFile(f"producer:{spec.topic}", spec.status)
        self._clock = MachineClock(Path(spec.clocks) if spec.clocks else None)
        self._acked_before = 0

    def run(self) -> None:
        pointer = self._watcher.wait(self._spec.pointer_deadline_s, self._stop)
        if pointer is None:
            return
        upcoming = flights.stream(self._spec.start_at)
        doubts: list[Sent] = []
        backlog = self._spec.backlog
        while not self._stop():
            where = specs.where(self._spec, pointer)
            unresolved = still_to_send(doubts, pointer, self._spec.topic, self._history, self._stop, where)
            upcoming = _chain(unresolved, upcoming)
            fleet = Fleet(where, pointer.active, self._spec.topic, self._history.append, self._clock)
            pointer, sent, held_back = self._send(pointer, fleet, upcoming, backlog)
            backlog = max(0, backlog - sent)
            upcoming = _chain(held_back, upcoming)
            fleet.drain(2.0, self._spec.settle_s)
            self._history.flush()
            doubts = fleet.give_up()
            self._acked_before += fleet.acked
            self._status.report("moving", pointer.active, pointer.version, self._acked_before, len(doubts))
        self._status.report("stopped", pointer.active, pointer.version, self._acked_before, len(doubts))

    def _send(
        self, pointer: Pointer, fleet: Fleet, upcoming: Iterator[Flight], backlog: int
    ) -> tuple[Pointer, int, list[Flight]]:
        """Produce until the pointer names another cluster or the application is stopped.

        Returns the newest pointer, how many records were sent, and the flight that found the queue full, if any.
        """
        pace = Pace(self._spec.records_per_second, backlog)
        sent = 0
        held_back: list[Flight] = []
        while not self._stop():
            newest = self._watcher.current() or pointer
            if newest.elsewhere(pointer):
                return newest, sent, held_back
            pointer = newest
            fleet.poll()
            self._history.tick()
            waiting = fleet.silent_s > _SILENT_S
            phase = "holding" if pointer.hold else "waiting" if waiting else "running"
            self._status.report(
                phase, pointer.active, pointer.version, self._acked_before + fleet.acked, fleet.in_flight
            )
            room = self._spec.max_in_flight - fleet.in_flight
            due = 0 if pointer.hold else min(pace.due(), room, 500)
            if due <= 0:
                if pointer.hold or room <= 0:
                    pace.forgive()
                self._stop.wait(_TICK_S)
                continue
            for flight in _chain(held_back, islice(upcoming, due - len(held_back))):
                if not fleet.send(flight):
                    held_back = [flight]
                    break
                sent += 1
                pace.count()
            else:
                held_back = []
        return pointer, sent, held_back


def produce_2013(spec: specs.ProducerSpec, stop: Stop, history: HistoryWriter) -> None:
    """Produce `spec.records` flights with their original timestamps to `spec.topic`; return when all are acknowledged.

    Raises `Unreachable` when some are not.
    """
    pointer = specs.watcher(spec).wait(spec.pointer_deadline_s, stop)
    if pointer is None:
        return
    fleet = Fleet(specs.where(spec, pointer), pointer.active, spec.topic, history.append)
    sent = 0
    for flight in islice(flights.stream(spec.start_at), spec.records):
        while not fleet.send(flight, flight.event_ms):
            fleet.poll()
            if stop.wait(_TICK_S):
                break
        sent += 1
    fleet.drain(30.0, 15.0)
    doubts = fleet.give_up()
    if doubts or fleet.acked != sent:
        raise Unreachable(
            f"{sent - fleet.acked} of {sent} records of {spec.topic} were not acknowledged",
            f"{pointer.bootstrap} did not answer",
            "Read the broker's log, and check that the topic exists",
        )


def run(path: Path, stop: Stop) -> None:
    """Run the application that a spec file describes. Raises `UsageError`, `Unreachable`."""
    spec = specs.load(path, specs.ProducerSpec)
    with HistoryWriter(Path(spec.history)) as history:
        match spec.mode:
            case specs.ProducerMode.FLIGHTS:
                Replay(spec, stop, history).run()
            case specs.ProducerMode.FLIGHTS_2013:
                produce_2013(spec, stop, history)
            case specs.ProducerMode.FLIGHTS_TX:
                transactions.Transactions(spec, stop, history).run()


def _chain(first: list[Flight], others: Iterator[Flight]) -> Iterator[Flight]:
    yield from first
    yield from others


if __name__ == "__main__":
    sys.exit(run_app(sys.argv[1:], run))
