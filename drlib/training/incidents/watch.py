"""The watch process of an incident: injects the faults when their delay is over, observes the testbed about every second,
and records what it sees.

Rules: observations and symptoms are public, injected causes and recovery are sealed. An incident recovers only after each
of its causes showed a symptom: a fault without a visible effect yet does not count as repaired. Causes that a game master
adds are read from the sealed journal. Apart from injecting, the watch changes nothing. It outlives the process that started
it and ends with the lab; after `LASTS_S` it stops what writes and ends: a forgotten incident would fill the disk.
Not for: scoring.

Run as `python -m drlib.training.incidents.watch FOLDER LAB [DELAY_S]`; without a delay it injects nothing.
"""

import sys
import time
from collections import deque
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Final

from drlib.errors import DrlibError
from drlib.formats import one_line
from drlib.lab.apps.process import Stop
from drlib.lab.lab import Lab
from drlib.outgoing.terminal import show
from drlib.training.incidents.lab.inject import inject_faults
from drlib.training.incidents.lab.observe import Observer
from drlib.training.incidents.lab.testbed import IncidentTestbed
from drlib.training.incidents.record import IncidentRecord
from drlib.training.incidents.rules.avoided_loss import Sample, sample_of, thinned
from drlib.training.incidents.rules.causes import InjectedCause
from drlib.training.incidents.rules.recovery import unresolved
from drlib.training.incidents.rules.score import EventKind
from drlib.training.incidents.rules.symptoms import Observation, detect_symptoms

KEPT_MS: Final = 9_000
PERIOD_S: Final = 0.8
SAVED_S: Final = 5.0
LASTS_S: Final = 8 * 3600.0  # of running, in which about 5 GB are written


class IncidentWatch:
    """The watch over the incident recorded in `record`, on `testbed`."""

    def __init__(self, testbed: IncidentTestbed, record: IncidentRecord) -> None:
        self._testbed = testbed
        self._record = record
        self._observer = Observer(testbed)
        self._baseline = record.baseline()
        self._observations: deque[Observation] = deque()
        self._samples: list[Sample] = []
        self._saved = time.monotonic()
        self._symptoms: set[str] = set()
        self._visible: set[InjectedCause] = set()
        self._recovered = False

    def run(self, stop: Stop, delay_s: float | None) -> None:
        """Observe until `stop`. `delay_s`: seconds from now to the injection; None to inject nothing."""
        due = None if delay_s is None else time.monotonic() + delay_s
        until = time.monotonic() + LASTS_S
        while not stop.wait(0.0):
            if time.monotonic() >= until:
                self._testbed.stop_writers()
                show(f"after {LASTS_S / 3600:g} hours the applications and the mirror were stopped", error=True)
                break
            self._observe()  # before the faults, which may take long to inject: players ask for it meanwhile
            if due is not None and time.monotonic() >= due:
                due = None
                inject_and_record(self._testbed, self._record, self._record.plan().causes)
            stop.wait(PERIOD_S)
        self._record.save_samples(self._samples)

    def _observe(self) -> None:
        """Make one observation and record it, new symptoms, and a change of recovery."""
        now = self._observer.observe()
        self._observations.append(now)
        while now.at_ms - self._observations[0].at_ms > KEPT_MS:
            self._observations.popleft()
        observations = tuple(self._observations)
        self._record.save_observations(observations)
        symptoms = {symptom.value for symptom in detect_symptoms(observations, self._baseline)}
        for kind, symptom in symptom_changes(self._symptoms, symptoms):
            self._record.write(kind, word=symptom)
        self._symptoms = symptoms
        self._judge_recovery(observations)
        self._keep(sample_of(observations, self._baseline))

    def _keep(self, sample: Sample) -> None:
        """Keep a sample, with all others of the incident; a bounded number, thinned out when there are more."""
        self._samples = [*thinned(self._samples), sample]
        if time.monotonic() - self._saved >= SAVED_S:
            self._saved = time.monotonic()
            self._record.save_samples(self._samples)

    def _judge_recovery(self, observations: tuple[Observation, ...]) -> None:
        injected = self._record.injected_causes()
        if not injected:
            return
        for cause in injected:
            if cause not in self._visible and self._is_visible(cause, observations):
                self._visible.add(cause)
                self._recovered = False
        recovered = self._visible >= set(injected) and not unresolved(injected, observations, self._baseline)
        if recovered != self._recovered:
            self._recovered = recovered
            self._record.write_sealed(EventKind.RECOVERED if recovered else EventKind.RELAPSED)

    def _is_visible(self, cause: InjectedCause, observations: Sequence[Observation]) -> bool:
        if not unresolved([cause], observations, self._baseline):
            return False
        return any(symptom in cause.definition.symptoms for symptom in detect_symptoms(observations, self._baseline))


def symptom_changes(before: Set[str], now: Set[str]) -> tuple[tuple[EventKind, str], ...]:
    """What to record when the symptoms `before` have become those `now`: what is new, then what is gone."""
    new = [(EventKind.SYMPTOM, symptom) for symptom in sorted(now - before)]
    return (*new, *((EventKind.SYMPTOM_GONE, symptom) for symptom in sorted(before - now)))


def inject_and_record(
    testbed: IncidentTestbed, record: IncidentRecord, causes: Sequence[InjectedCause], by: str = "the seed"
) -> None:
    """Inject causes and record it in the sealed journal. Raises what a broker raises; then nothing is recorded."""
    inject_faults(testbed, causes)
    for cause in causes:
        record.write_sealed(EventKind.CAUSE_IN, cause=cause.cause, where=cause.where, how=cause.how, by=by)


def main(argv: Sequence[str]) -> int:
    folder, lab_dir, *delay = argv
    stop = Stop()
    stop.install()
    testbed = IncidentTestbed(Lab.attach(Path(lab_dir)), Path(folder))
    try:
        IncidentWatch(testbed, IncidentRecord(Path(folder))).run(stop, float(delay[0]) if delay else None)
    except DrlibError as error:
        show(one_line(str(error)), error=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
