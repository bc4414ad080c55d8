"""The process behind an incident: it puts the cause in when its time has come, looks every second, and writes down
what it sees.

Rules: looks and symptoms are public, causes and recovery are sealed. An incident is over only once each of its causes
was seen: what has not shown yet is not repaired. What game masters put in is taken up from the sealed journal. It
changes nothing but by putting a cause in, and outlives whoever started it; ending the lab ends it. Not for: scoring.

Run as `python -m drlib.training.incidents.watch FOLDER LAB DELAY_S`; without a delay it only watches.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drlib.errors import DrlibError
from drlib.lab.apps.process import Stop
from drlib.lab.lab import Lab
from drlib.training.incidents.lab.inject import put_in
from drlib.training.incidents.lab.observe import Looker
from drlib.training.incidents.lab.scene import Scene
from drlib.training.incidents.record import Record
from drlib.training.incidents.rules.causes import Planted
from drlib.training.incidents.rules.recovery import unresolved
from drlib.training.incidents.rules.score import Happened
from drlib.training.incidents.rules.symptoms import Look, symptoms

KEPT_MS: Final = 9_000
LOOK_S: Final = 0.8


class Watch:
    """One watch over the incident recorded in `record`, on `scene`."""

    def __init__(self, scene: Scene, record: Record) -> None:
        self._scene = scene
        self._record = record
        self._looker = Looker(scene)
        self._usual = record.usual()
        self._looks: deque[Look] = deque()
        self._told: set[str] = set()
        self._shown: set[Planted] = set()
        self._over = False

    def run(self, stop: Stop, delay_s: float | None) -> None:
        """Until stopped. `delay_s`: from now to the cause; None where none is to be put in."""
        due = None if delay_s is None else time.monotonic() + delay_s
        while not stop.wait(0.0):
            if due is not None and time.monotonic() >= due:
                due = None
                plant(self._scene, self._record, self._record.incident().causes)
            self.once()
            stop.wait(LOOK_S)

    def once(self) -> None:
        """One look, and what follows from it."""
        look = self._looker.look()
        self._looks.append(look)
        while look.at_ms - self._looks[0].at_ms > KEPT_MS:
            self._looks.popleft()
        looks = tuple(self._looks)
        self._record.keep_looks(looks)
        seen = {one.value for one in symptoms(looks, self._usual)}
        for word in sorted(seen - self._told):
            self._record.write(Happened.SYMPTOM, word=word)
        self._told = seen
        self._judge(looks)

    def _judge(self, looks: tuple[Look, ...]) -> None:
        planted = self._record.planted()
        if not planted:
            return
        for one in planted:
            if one not in self._shown and unresolved([one], looks, self._usual) and self._is_seen(one, looks):
                self._shown.add(one)
                self._over = False
        over = self._shown >= set(planted) and not unresolved(planted, looks, self._usual)
        if over != self._over:
            self._over = over
            self._record.seal(Happened.RECOVERED if over else Happened.RELAPSED)

    def _is_seen(self, planted: Planted, looks: Sequence[Look]) -> bool:
        return any(one in planted.kind.symptoms for one in symptoms(looks, self._usual))


def plant(scene: Scene, record: Record, causes: Sequence[Planted], by: str = "the seed") -> None:
    """Put causes in and seal that it was done. Raises what a broker raises; then nothing is sealed."""
    put_in(scene, causes)
    for planted in causes:
        record.seal(Happened.CAUSE_IN, cause=planted.cause, where=planted.where, how=planted.how, by=by)


def main(argv: Sequence[str]) -> int:
    folder, lab_dir, *delay = argv
    stop = Stop()
    stop.install()
    scene = Scene(Lab.attach(Path(lab_dir)), Path(folder))
    try:
        Watch(scene, Record(Path(folder))).run(stop, float(delay[0]) if delay else None)
    except DrlibError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
