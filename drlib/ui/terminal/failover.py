"""The screens of a failover and of the way back: assessments, what applications have to change, who is back; as text and JSON.

Rules: what is advised stands last, next to the question. Lists are cut with the number that is left out; JSON is complete, one
document a line. Unknown is written as unknown. Text from outside is one line and never markup.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from drlib import formats
from drlib.drill.actions.failback.returned_rules import Procedure
from drlib.drill.assessment.assessment import Assessment, Continues, Gate, GroupOutlook, Next
from drlib.drill.assessment.moved_applications import GroupChange, ProducerChange
from drlib.drill.assessment.observe_return import Mirrored
from drlib.drill.assessment.returning import ReturnAssessment, Stage, TailRecord, TopicTail
from drlib.drill.session.unfinished_runs import UnfinishedRun
from drlib.mirror.offsets.unreplicated.rules import Settle
from drlib.runs.journal import Scalar
from drlib.ui.terminal.plain_console import pairs

EXAMPLES: Final = 3  # unreplicated records on the screen; --json has more
SHOWN: Final = 12  # groups, topics or applications of a list on the screen
_WORST: Final = (Continues.UNKNOWN, Continues.READS_AGAIN, Continues.EXACTLY)
_COLOURS: Final = {Gate.OPEN: "green", Gate.CLOSED: "red"}
_HEADS: Final = {
    Next.BEGIN: ("FAIL OVER", "bold reverse yellow"),
    Next.CONTINUE: ("CONTINUE", "bold reverse yellow"),
    Next.NOTHING: ("DONE", "bold reverse green"),
    Next.REFUSE: ("DO NOT FAIL OVER", "bold reverse red"),
    Next.SUPERSEDE_FIRST: ("UNFINISHED RUN", "bold reverse red"),
}


def render_assessment(made: Assessment) -> RenderableType:
    """The whole assessment, then what comes next and why."""
    return _screen(made, _HEADS[made.next], _rows(made))


def _screen(
    made: Assessment | ReturnAssessment, head: tuple[str, str], rows: Iterator[tuple[str, str, str]]
) -> RenderableType:
    """`head`: what comes next, and how it is written."""
    table = pairs()
    for name, text, colour in rows:
        table.add_row(name, Text(formats.one_line(text), style=colour))
    last = Text.assemble((f" {head[0]} ", head[1]), f"  {formats.one_line(made.why)}")
    more = [Text(formats.one_line(made.remedy), style="cyan")] if made.remedy else []
    title = Text(f"{made.flow}, as of {formats.second(made.at_ms)} UTC", style="bold")
    return Group(title, Padding(table, (0, 0, 1, 2)), last, *more)


def assessment_json(made: Assessment) -> str:
    """All of it, with `"event": "assessment"`."""
    return document("assessment", asdict(made))


def _rows(made: Assessment) -> Iterator[tuple[str, str, str]]:
    """Name, text and colour."""
    yield made.source, f"the source: {made.source_state}", "" if made.source_serves else "red"
    for each in made.unreachable:
        since = f"unreachable since {formats.second(each.since_ms)} UTC; " if each.since_ms else ""
        yield "", f"seen from {each.seen_from}: {since}{each.detail}", ""
    yield made.target, f"the target: {made.target_state}", "" if made.target_serves else "red"
    yield "gate", f"{made.gate}{': ' + '; '.join(made.gate_why) if made.gate_why else ''}", _COLOURS[made.gate]
    left = f", which is no cluster of {made.flow}: applications that follow it stay there"
    other = made.pointer is not None and made.pointer not in (made.source, made.target)
    said = f"names {made.pointer}{left if other else ''}" if made.pointer else "unknown, or there is none"
    yield "pointer", said, "yellow" if other else ""
    known = made.loss.records
    yield (
        "loses at most",
        f"unknown: {made.loss.why}" if known is None else f"{formats.records(known)}, {made.loss.why}",
        "",
    )
    yield from _group_rows(made)
    yield "topics", _topics(made), ""
    if made.unfinished is not None:
        yield _unfinished(made.unfinished, made.supersede_means)
    elif made.unfinished_unknown:
        yield "unfinished", f"unknown: {made.unfinished_unknown}", "yellow"


def _group_rows(made: Assessment) -> Iterator[tuple[str, str, str]]:
    if made.groups_unknown:
        yield "groups", f"unknown: {made.groups_unknown}", "yellow"
        return
    by_kind = {kind: [g for g in made.groups if g.continues is kind] for kind in Continues}
    counted = [f"{len(by_kind[Continues.EXACTLY])} continue exactly"]
    counted += [f"{len(found)} {kind}" for kind, found in by_kind.items() if found and kind is not Continues.EXACTLY]
    yield "groups", ", ".join(counted) if made.groups else "no group has a committed position on a mirrored topic", ""
    worst = sorted(made.groups, key=lambda g: (_WORST.index(g.continues), not g.detail, -(g.re_reads or 0), g.group))
    for each in worst[:SHOWN]:
        yield "", f"{each.group}: {group_words(each)}", ""
    if len(worst) > SHOWN:
        yield "", f"and {len(worst) - SHOWN:,} more, all in --json", "dim"


def group_words(group: GroupOutlook) -> str:
    """How one group continues, in a few words."""
    as_of = f"; what it committed after {formats.clock(group.as_of_ms)[:8]} UTC is read again" if group.as_of_ms else ""
    more = f"; {group.detail}" if group.detail else ""
    if group.continues is Continues.UNKNOWN:
        return f"unknown{more}"
    if group.continues is Continues.READS_AGAIN:
        return f"reads at most {formats.records(group.re_reads)} again{as_of}{more}"
    return f"exactly{as_of}{more}"


def _unfinished(run: UnfinishedRun, means: str) -> tuple[str, str, str]:
    return "unfinished", f"run {run.run} ({run.mode}) is {run.state}; superseding it: {means}", "yellow"


def _topics(made: Assessment) -> str:
    if made.missing_topics_unknown:
        return f"which are missing on {made.target} is unknown: {made.missing_topics_unknown}"
    if not made.missing_topics:
        return f"all topics that producers write to are on {made.target}"
    names = few(made.missing_topics)
    does = (
        "the run creates them" if made.creates_topics else "the runbook has no step topics.create: create them yourself"
    )
    return f"{len(made.missing_topics)} that producers write to are missing on {made.target} ({does}): {names}"


def change_lines(
    groups: Sequence[GroupChange], producers: Sequence[ProducerChange], target: str, stays: str = ""
) -> Iterator[str]:
    """What to change where an application does not follow the pointer, in the words of its configuration. `stays`: why the
    pointer does not name `target`."""
    addresses = dict.fromkeys([*(each.bootstrap for each in groups), *(each.bootstrap for each in producers)])
    if stays:
        yield f"The pointer is left: {stays}. Applications of the flow, change now:"
    else:
        yield f"The pointer names {target}. Applications that do not follow it, change now:"
    for address in addresses:
        yield f"  bootstrap.servers = {address}"
    for each in groups:
        again = f"; at most {formats.records(each.re_reads)} again" if each.re_reads else ""
        left = f"; {each.left} positions were not moved" if each.left else ""
        topics = ", then ".join(each.subscribe)
        yield f"  group.id = {each.group}: subscribe to {topics}{again}{left}"
    for producer in producers:
        yield f"  producers of {producer.topic}: topic {producer.topic}"


def changes_json(groups: Sequence[GroupChange], producers: Sequence[ProducerChange], target: str) -> str:
    """The same with `"event": "applications"`."""
    rows = {"groups": [asdict(each) for each in groups], "producers": [asdict(each) for each in producers]}
    return document("applications", {"target": target, **rows})


def seen_line(row: Mapping[str, Scalar]) -> str:
    """One application as the step that verifies sees it."""
    return f"{row.get('kind')} {row.get('name')}: {row.get('seen')}, {row.get('detail')}"


def seen_json(row: Mapping[str, Scalar]) -> str:
    return document("application", dict(row))


def next_lines(source: str, target: str, file: str, *, both_ways: bool = False) -> Iterator[str]:
    """What is to be done after a failover. `both_ways`: both directions copy the topics under one name, and run on."""
    flow, name = shlex.quote(f"{source}->{target}"), shlex.quote(file)
    yield f"Next: {target} serves and nothing protects it until {source} is back and {target}->{source} is mirrored."
    if both_ways:
        yield f"  Keep producers away from {source}: what they write there now, {target} gets late."
        yield f"  When {source} is back, drlib mirror {name} copies in both directions by itself; start it where none runs."
    else:
        yield f"  Keep producers away from {source}: what they write there now, {target} does not get."
        yield f"  When {source} is back: enable {target}->{source} in {file}, and start drlib mirror {name}."
    yield f"  Home again: drlib failback {name} {flow}"


def result_json(values: Mapping[str, object]) -> str:
    """How it ended, with `"event": "result"`."""
    return document("result", values)


def document(event: str, values: Mapping[str, object]) -> str:
    """One line of `--json`."""
    return json.dumps({"event": event, **values}, ensure_ascii=False)


def few(names: Sequence[str]) -> str:
    """The first of a list of names, and how many more there are."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


# -- the way back ----------------------------------------------------------------------------------------------------------

_RETURN_HEADS: Final = {
    **_HEADS,
    Next.BEGIN: ("FAIL BACK", "bold reverse yellow"),
    Next.REFUSE: ("DO NOT FAIL BACK", "bold reverse red"),
}
_BECOMES: Final[Mapping[Settle, str]] = {
    Settle.RECOVER: "written to the target's own topics, where groups read them again",
    Settle.QUARANTINE: "copied to topics of their own, for people to decide",
    Settle.LEAVE: "left where they are, and read there by groups that return",
}


def render_return(made: ReturnAssessment, chosen: Settle | None) -> RenderableType:
    """The whole assessment, then what comes next and why. `chosen`: what becomes of the unreplicated records."""
    return _screen(made, _RETURN_HEADS[made.next], _return_rows(made, chosen))


def return_json(made: ReturnAssessment) -> str:
    """All of it, with `"event": "assessment"`."""
    return document("assessment", {**asdict(made), "tail_records": made.tail_records})


def _return_rows(made: ReturnAssessment, chosen: Settle | None) -> Iterator[tuple[str, str, str]]:
    """Name, text and colour."""
    since = f" since {formats.second(made.since_ms)} UTC" if made.since_ms else ""
    yield made.flow, f"{made.state}{since}{f', by run {made.by_run}' if made.by_run else ''}", ""
    yield "pointer", f"names {made.pointer}" if made.pointer else "unknown, or there is none", ""
    good = made.procedure == Procedure.SETTLE
    yield made.source, f"the source: {made.source_state}", "" if good else "red"
    yield "", f"{made.found}: {made.found_why}", "" if good else "red"
    yield made.target, f"the target: {made.target_state}", ""
    if Stage.REPROTECT in made.stages:
        yield from _late_rows(made) if made.both_ways else _tail_rows(made, chosen)
    back = "->".join(reversed(made.flow.split("->")))
    yield back, _way_back(made), "" if made.back_enabled else "red"
    yield from _again_rows(made)
    if made.stages:
        yield "does", ", then ".join(made.stages), ""
    if made.unfinished is not None:
        yield _unfinished(made.unfinished, made.supersede_means)


def _tail_rows(made: ReturnAssessment, chosen: Settle | None) -> Iterator[tuple[str, str, str]]:
    name = "unreplicated"
    if made.tail is None:
        yield name, f"records that only {made.source} has: unknown: {made.tail_why}", "yellow"
        return
    if not made.tail:
        yield name, f"{made.source} has no record that {made.target} lacks", ""
        return
    doubt = f"; of {made.in_doubt:,} it is unknown whether {made.target} has them, too" if made.in_doubt else ""
    yield name, f"{formats.records(made.tail_records)} that only {made.source} has{doubt}", ""
    for topic in made.tail[:SHOWN]:
        yield "", tail_words(topic), ""
    if len(made.tail) > SHOWN:
        yield "", f"and {len(made.tail) - SHOWN:,} more topics, all in --json", "dim"
    for each in made.examples[:EXAMPLES]:
        yield "", f"such as {record_words(each)}", "dim"
    for group, records in sorted(made.read_there.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]:
        yield "", f"group {group} had read {formats.records(records)} of them on {made.source}", ""
    if chosen is not None:
        yield "", f"{chosen}: {_BECOMES[chosen]}", ""


def _late_rows(made: ReturnAssessment) -> Iterator[tuple[str, str, str]]:
    """Records that only the source had, where both directions copy."""
    name = "late"
    if made.crossed is None:
        yield name, f"how many records of {made.source} crossed after the move is unknown: {made.crossed_why}", "yellow"
        return
    if made.crossed_why:
        yield name, made.crossed_why, "yellow"
        name = ""
    elif not made.crossed:
        yield name, f"no record of {made.source} crossed after the move, and none is left to cross", ""
    for topic in made.crossed[:SHOWN]:
        left = f", {formats.records(topic.left)} still to cross" if topic.left else ""
        yield name, f"{topic.topic}: {formats.records(topic.crossed)} crossed to {made.target} after the move{left}", ""
        name = ""
    if len(made.crossed) > SHOWN:
        yield "", f"and {len(made.crossed) - SHOWN:,} more topics, all in --json", "dim"
    for group, records in sorted(made.read_there.items(), key=lambda each: (-each[1], each[0]))[:SHOWN]:
        read, again = f"had read {formats.records(records)} of them on {made.source}", "and reads them again"
        if made.read_there_at_most:  # what it has read since is in its position there, too
            read, again = (
                f"had read at most {formats.records(records)} of them on {made.source}",
                "and read those again",
            )
        yield "", f"group {group} {read}, {again}", ""


def tail_words(topic: TopicTail) -> str:
    """The unreplicated records of one topic, in a few words."""
    span = ""
    if topic.first_ms is not None and topic.last_ms is not None:
        span = f", of {formats.second(topic.first_ms)} to {formats.second(topic.last_ms)} UTC"
    return f"{topic.topic}: {formats.records(topic.records)}, {topic.bytes:,} B{span}"


def record_words(record: TailRecord) -> str:
    """One unreplicated record, in a few words."""
    at = f"{record.topic}-{record.partition} at {record.offset}"
    return f"{at}: key '{record.key}', {record.bytes:,} B, of {formats.second(record.timestamp_ms)} UTC"


def _way_back(made: ReturnAssessment) -> str:
    if not made.back_enabled:
        return "not enabled in the file"
    workers = "workers unknown" if made.back_workers is None else f"{made.back_workers} workers"
    if made.back_workers == 0:
        workers = made.back_mirror_maker or "nothing mirrors it: start drlib mirror, or MirrorMaker 2, with the file"
    lag = f"lag unknown: {made.back_why}" if made.back_missing is None else f"{made.back_missing:,} offsets behind"
    return f"{workers}, {lag}"


def _again_rows(made: ReturnAssessment) -> Iterator[tuple[str, str, str]]:
    if made.read_again is None:
        yield "", f"how many records groups read again is unknown: {made.read_again_why}", "yellow"
        return
    worst = sorted(made.read_again.items(), key=lambda each: (-each[1], each[0]))
    for group, records in worst[:SHOWN]:
        yield "", f"group {group} reads at most {formats.records(records)} again, were it moved now", ""
    if len(worst) > SHOWN:
        yield "", f"and {len(worst) - SHOWN:,} more groups, all in --json", "dim"


def choices() -> Iterator[str]:
    """What may become of the unreplicated records, one line each."""
    for how, means in _BECOMES.items():
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
    if again.mirror_maker and not again.workers:
        yield (
            f"{source} serves. {again.flow} is {again.mirror_maker}: restart MirrorMaker 2 with {name}, where {again.flow} is "
            f"enabled, or take the flow over, for exact positions: drlib mirror {name}"
        )
        return
    if not again.workers:
        yield f"{source} serves, and nothing protects it: no worker mirrors {again.flow}. Run: drlib mirror {name}"
        return
    lag = f"lag unknown: {again.why}" if again.missing is None else f"{again.missing:,} offsets behind"
    yield f"{source} serves, and is mirrored to {target} again: {again.workers} worker{'s' * (again.workers != 1)}, {lag}."
    yield f"  The next failover may come: drlib run rehearse-failover {name} -p {flow}"


def mirrored_json(again: Mirrored) -> str:
    """How the flow is mirrored again, with `"event": "mirrored"`."""
    return document("mirrored", asdict(again))
