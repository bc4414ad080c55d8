"""What an operator can see of an incident: its symptoms, the state of topics, groups and applications, and what to do next.

Rules: it names no cause. At most 100 columns of a terminal are needed, also with seven digits. An unknown value is shown as
unknown. That there are no symptoms is said with what it means: nothing was seen yet, it has recovered, or neither is known.
Not for: judging (`drlib.training.incidents.rules`).
"""

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import formats
from drlib.formats import html_text
from drlib.runs.table import Table
from drlib.training.incidents.incident import Calm
from drlib.training.incidents.rules.symptoms import Observation, Symptom, TopicObservation

WIDE: Final = 100  # columns
_NARROW: Final = 80  # columns of a sentence
_FINISH: Final = (
    "Next: drlib incident finish, in a notebook incident.finish(). It measures what was lost, and shows the score."
)
_WAIT: Final = "Not everything has recovered yet: look again in some seconds, and at what symptoms do not show."
_ACT: Final = "Next: drlib incident act acknowledge, then find the cause, and repair it: drlib incident list."
_FIND: Final = "Next: find the cause, and repair it: drlib incident list."
_STANDBY: Final = "used after a failover"
_BEFORE: Final = "Next: look again. The fault follows 8 to 40 seconds after the start."


@dataclass(frozen=True, slots=True)
class _Said:
    """The headline's explanation above the table: lines of text, or a list in a page."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(
            textwrap.fill(formats.one_line(line), _NARROW, subsequent_indent="  ", break_long_words=False)
            for line in self.lines
        )

    def html(self) -> str:
        return f"<ul>{''.join(f'<li>{html_text(line)}</li>' for line in self.lines)}</ul>"


def status_shown(observation: Observation, symptoms: Sequence[Symptom], calm: Calm, properties: str) -> Table:
    """Symptoms and the next step, then topics, groups, applications and the mirror."""
    rows = [row for topic in observation.topics for row in _topic_rows(topic, observation.at_ms)]
    for group in observation.groups:
        state = f"{group.skipped:,} not processed" if group.skipped else ""
        rows.append(
            _row("group offsets", group.group, formats.count(group.left), formats.count(group.right), "", state)
        )
    for application in observation.applications:
        done = f"{application.done:,} done"
        left, right = (done if application.site == site else "" for site in ("LEFT", "RIGHT"))
        rows.append(_row("application", application.name, left, right, "", application.phase))
    rows.append(_row("mirror", "LEFT->RIGHT", state="runs" if observation.mirror_runs else "does not run"))
    title = f"{headline(symptoms, calm)}, {formats.moment(observation.at_ms)}"
    above = _Said((*(f"symptom: {symptom.value}" for symptom in symptoms), next_step(symptoms, calm)))
    return Table(title, rows, note=f"What the mirror reports:\ndrlib status {shlex.quote(properties)}", above=above)


def from_here(path: Path, here: Path) -> str:
    """`path` as a command in the folder `here` names it: relative below it, else absolute."""
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def headline(symptoms: Sequence[Symptom], calm: Calm) -> str:
    """ "2 symptoms", "Recovered since 10:15:03", "No symptoms since 10:15:03" or "No symptoms yet"."""
    if symptoms:
        return f"{len(symptoms)} symptom{'s' if len(symptoms) > 1 else ''}"
    if calm.recovered_ms is not None:
        return f"Recovered since {formats.clock(calm.recovered_ms)[:8]}"
    return "No symptoms yet" if calm.quiet_ms is None else f"No symptoms since {formats.clock(calm.quiet_ms)[:8]}"


def next_step(symptoms: Sequence[Symptom], calm: Calm) -> str:
    """What to do now."""
    if symptoms:
        return _FIND if calm.acknowledged else _ACT
    if calm.recovered_ms is not None:
        return _FINISH
    return _BEFORE if calm.quiet_ms is None else _WAIT


def _topic_rows(topic: TopicObservation, at_ms: int) -> Iterator[dict[str, object]]:
    """The topic on LEFT, its mirror topic, and its standby topic where there is one."""
    source, mirror, standby = topic.partitions
    newest = "" if topic.newest_ms is None else f"newest {(at_ms - topic.newest_ms) / 1000:,.0f} s old"
    yield _row("topic", topic.topic, formats.count(topic.end), "", formats.count(source), newest)
    yield _row("mirror topic", topic.topic, "", "", formats.count(mirror), f"lag {formats.count(topic.lag)}")
    if standby is not None:
        yield _row("standby topic", topic.topic, "", formats.count(topic.local), formats.count(standby), _STANDBY)


def _row(
    what: str, which: str, left: str = "", right: str = "", partitions: str = "", state: str = ""
) -> dict[str, object]:
    return {
        "what": what,
        "which": which,
        "on LEFT": left,
        "on RIGHT": right,
        "partitions": partitions,
        "state": state,
    }
