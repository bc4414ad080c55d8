"""The reference player: waits for symptoms, diagnoses, makes the moves of the cause table, and waits for recovery.

Rules: it makes only moves that any player can make, and is scored like any player. It knows the causes from the sealed
plan, but diagnoses and repairs only causes that show a symptom, the most urgent first.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from drlib.training.incidents.incident import Incident
from drlib.training.incidents.rules.cause import Cause
from drlib.training.incidents.rules.causes import by_urgency
from drlib.training.incidents.rules.moves import ACKNOWLEDGE
from drlib.training.incidents.rules.reveal import Reveal

_CAUSE_S: Final = 90.0
_SYMPTOM_S: Final = 60.0
_RECOVERY_S: Final = 180.0  # a busy machine catches up slowly; recovery within five minutes earns all points


def solve(incident: Incident, *, report: Callable[[str], None] = lambda _: None, keep_lab: bool = False) -> Reveal:
    """Solve a started `incident` and finish it; `report` gets a line for each action.

    Raises `Unreachable` when a cause is not injected, or shows no symptom, in time.
    """
    testbed = incident.testbed()
    testbed.wait(
        "the fault is injected",
        lambda: incident.require_watch() and bool(incident.record.injected_causes()),
        _CAUSE_S,
    )
    for number, injected in enumerate(by_urgency(incident.record.injected_causes())):
        testbed.wait(f"symptoms of {injected.cause}", partial(_has_symptom, incident, injected.definition), _SYMPTOM_S)
        report("; ".join(symptom.value for symptom in incident.status()[1]))
        if not number:
            incident.act(ACKNOWLEDGE)
        incident.diagnose(injected.cause)
        report(f"diagnosis: {injected.cause}")
        for move in injected.repair:
            report(f"{move}: {incident.act(str(move))}")
    return incident.finish(settle_s=_RECOVERY_S, keep_lab=keep_lab)


def _has_symptom(incident: Incident, cause: Cause) -> bool:
    return any(symptom in cause.symptoms for symptom in incident.status()[1])
