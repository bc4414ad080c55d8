"""The screen of the way back: the assessment, how the flow back catches up, what comes next; as text and as JSON.

Rules: as of a failover's screen (`failover`), whose parts it uses: what is advised stands last, lists are cut with the number
that is left out, JSON is complete, unknown is written as unknown.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drlib import formats
from drlib.drill.actions.failback.returned_rules import Procedure
from drlib.drill.assessment.assessment import Next
from drlib.drill.assessment.observe_return import Mirrored
from drlib.drill.assessment.returning import Return, Stage, TopicTail
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.runs.journal import Scalar
from drlib.ui.terminal.failover import SHOWN, document

_HEADS: Final = {
    Next.BEGIN: ("FAIL BACK", "bold reverse yellow"),
    Next.CONTINUE: ("CONTINUE", "bold reverse yellow"),
    Next.NOTHING: ("DONE", "bold reverse green"),
    Next.REFUSE: ("DO NOT FAIL BACK", "bold reverse red"),
    Next.SUPERSEDE_FIRST: ("UNFINISHED RUN", "bold reverse red"),
}
_MEANS: Final[Mapping[Settle, str]] = {
    Settle.RECOVER: "written to the target's own topics, where groups read them again",
    Settle.QUARANTINE: "copied to topics of their own, for people to decide",
    Settle.LEAVE: "left where they are, and read there by groups that return",
}


def render_return(made: Return, chosen: Settle | None) -> RenderableType:
    """The whole assessment, then what comes next and why. `chosen`: what becomes of the unreplicated records."""
    head, style = _HEADS[made.next]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text, colour in _rows(made, chosen):
        table.add_row(name, Text(formats.one_line(text), style=colour))
    last = Text.assemble((f" {head} ", style), f"  {formats.one_line(made.why)}")
    more = [Text(formats.one_line(made.remedy), style="cyan")] if made.remedy else []
    title = Text(f"{made.flow}, as of {formats.second(made.at_ms)} UTC", style="bold")
    return Group(title, Padding(table, (0, 0, 1, 2)), last, *more)


def return_json(made: Return) -> str:
    """All of it, with `"event": "assessment"`."""
    return document("assessment", {**asdict(made), "tail_records": made.tail_records})


def _rows(made: Return, chosen: Settle | None) -> Iterator[tuple[str, str, str]]:
    """Name, text and colour."""
    since = f" since {formats.second(made.since_ms)} UTC" if made.since_ms else ""
    yield made.flow, f"{made.state}{since}{f', by run {made.by_run}' if made.by_run else ''}", ""
    yield "pointer", f"names {made.pointer}" if made.pointer else "unknown, or there is none", ""
    good = made.procedure == Procedure.SETTLE
    yield made.source, f"the source: {made.source_state}", "" if good else "red"
    yield "", f"{made.found}: {made.found_why}", "" if good else "red"
    yield made.target, f"the target: {made.target_state}", ""
    if Stage.REPROTECT in made.stages:
        yield from _tail(made, chosen)
    back = "->".join(reversed(made.flow.split("->")))
    yield back, _back(made), "" if made.back_enabled else "red"
    if made.stages:
        yield "does", ", then ".join(made.stages), ""
    if made.unfinished is not None:
        run = made.unfinished
        yield (
            "unfinished",
            f"run {run.run} ({run.mode}) is {run.state}; superseding it: {made.supersede_means}",
            "yellow",
        )


def _tail(made: Return, chosen: Settle | None) -> Iterator[tuple[str, str, str]]:
    name = "unreplicated"
    if made.tail is None:
        yield name, f"records that only {made.source} has: unknown: {made.tail_why}", "yellow"
        return
    if not made.tail:
        yield name, f"{made.source} has no record that {made.target} lacks", ""
        return
    yield name, f"{formats.records(made.tail_records)} that only {made.source} has", ""
    for topic in made.tail[:SHOWN]:
        yield "", tail_words(topic), ""
    if len(made.tail) > SHOWN:
        yield "", f"and {len(made.tail) - SHOWN:,} more topics, all in --json", "dim"
    for group, records in sorted(made.read_there.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]:
        yield "", f"group {group} had read {formats.records(records)} of them on {made.source}", ""
    if chosen is not None:
        yield "", f"{chosen}: {_MEANS[chosen]}", ""


def tail_words(topic: TopicTail) -> str:
    """The unreplicated records of one topic, in a few words."""
    span = ""
    if topic.first_ms is not None and topic.last_ms is not None:
        span = f", of {formats.second(topic.first_ms)} to {formats.second(topic.last_ms)} UTC"
    return f"{topic.topic}: {formats.records(topic.records)}, {topic.bytes:,} B{span}"


def _back(made: Return) -> str:
    if not made.back_enabled:
        return "not enabled in the file"
    workers = "workers unknown" if made.back_workers is None else f"{made.back_workers} workers"
    lag = f"lag unknown: {made.back_why}" if made.back_missing is None else f"{made.back_missing:,} offsets behind"
    return f"{workers}, {lag}"


def choices() -> Iterator[str]:
    """What may become of the unreplicated records, one line each."""
    for how, means in _MEANS.items():
        yield f"  {how}: {means}"


def catching_up_line(row: Mapping[str, Scalar]) -> str:
    """How far a flow is from having caught up."""
    return f"{row.get('flow')}: {row.get('missing')} offsets missing, caught up in {row.get('caught up in')}"


def catching_up_json(row: Mapping[str, Scalar]) -> str:
    """The same with `"event": "catching-up"`."""
    return document("catching-up", {str(name).replace(" ", "_"): value for name, value in row.items()})


def home_lines(again: Mirrored, source: str, target: str, file: str) -> Iterator[str]:
    """Whether the source is protected again after a failback, and what is to be done next."""
    flow, name = shlex.quote(f"flow={source}->{target}"), shlex.quote(file)
    if not again.workers:
        yield f"{source} serves, and nothing protects it: no worker mirrors {again.flow}. Run: drlib mirror {name}"
        return
    lag = f"lag unknown: {again.why}" if again.missing is None else f"{again.missing:,} offsets behind"
    yield f"{source} serves, and is mirrored to {target} again: {again.workers} workers, {lag}."
    yield f"  The next failover may come: drlib run runbooks/rehearse-failover.yaml {name} -p {flow}"


def mirrored_json(again: Mirrored) -> str:
    """How the flow is mirrored again, with `"event": "mirrored"`."""
    return document("mirrored", asdict(again))
