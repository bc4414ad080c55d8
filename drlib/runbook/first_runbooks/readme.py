"""The page beside the runbooks: clusters, flows, which runbook for what, applications, schedules, and what is not known. Pure.

Rules: one page; of many applications and topics the first ones are listed and the rest counted. Names are text from outside:
each is a code span that it cannot leave, whatever is in it. Nothing has a date, so the same observation makes the same page.
Not for: the runbooks themselves (`drlib.runbook.first_runbooks.runbooks`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from drlib.formats import one_line
from drlib.outgoing import markdown
from drlib.runbook.first_runbooks.observation import FlowFacts, SeenCluster, SeenGroup
from drlib.runbook.first_runbooks.runbooks import (
    AUDIT,
    FAIL_BACK,
    FAILOVER,
    LAG,
    REHEARSE,
    REPROTECT,
    SWAP,
    SWITCHOVER,
    Place,
)
from drlib.runbook.first_runbooks.yaml_lines import short
from drlib.runs.scorecard import Objectives

NAME: Final = "README.md"
MOST_APPLICATIONS: Final = 40
MOST_NAMES: Final = 3
_FOR: Final[Mapping[str, str]] = {
    REHEARSE: "rehearse a failover while everything runs; no application's group is changed",
    FAILOVER: "{source} is down: the applications continue on {target}",
    REPROTECT: "{source} is back: settle what only it has, and mirror {target} back to it",
    FAIL_BACK: "after that, the applications move home to {source}; `drlib failback` runs both",
    SWAP: "or {target} stays the source: settle what only {source} has, and make {source} its target",
    SWITCHOVER: "both clusters are up: move the applications from {source} to {target} (a pointer has to name {source})",
    AUDIT: "do both clusters agree, record by record?",
    LAG: "who lags, does it grow, how long does retention leave?",
}


def page(flows: Sequence[FlowFacts], files: Sequence[Mapping[str, str]], place: Place, objectives: Objectives) -> str:
    """`files`: by kind, the runbook of each flow (`runbooks.names`)."""
    clusters = {each.alias: each for facts in flows for each in (facts.source, facts.target)}
    file = shlex.quote(place.file)
    several = "Each flow has runbooks of its own; their names end with the flow's clusters." if len(flows) > 1 else ""
    lines = [
        "# Runbooks of " + ", ".join(code(str(facts.flow)) for facts in flows),
        "",
        f"Written by `drlib init` from {code(place.file)}, as the clusters were then. Run the commands in the folder of that",
        "file. Edit what you like: `drlib init` writes again what was not edited, and names what was. Each runbook uses a copy",
        f"of a notebook of drlib in `notebooks/`. {several}".rstrip(),
        "",
        "## Clusters",
        "",
        "| cluster | ID | bootstrap address | brokers | authorizer |",
        "|---|---|---|---|---|",
        *(_cluster(each) for each in clusters.values()),
    ]
    for facts, named in zip(flows, files, strict=True):
        lines += ["", *_flow(facts, named, place)]
    scheduled = [named[kind] for named in files for kind in (REHEARSE, AUDIT) if kind in named]
    lines += [
        "",
        "## Schedules",
        "",
        "Each prints a file for a scheduler and installs nothing (`--as systemd` and `--as airflow`, too):",
        "",
        *(
            f"    drlib schedule emit {one_line(shlex.quote(f'{place.folder}/{name}'))} {one_line(file)} --as cron"
            for name in scheduled
        ),
        f"    drlib runs --runbooks {one_line(shlex.quote(place.folder))} --check",
        "",
        "## Not known",
        "",
        *(f"- {each}" for each in unknown(flows, objectives)),
        "",
    ]
    return "\n".join(lines)


def unknown(flows: Sequence[FlowFacts], objectives: Objectives) -> list[str]:
    """What has to be found out and filled in, in Markdown."""
    found = []
    for each in {each.alias: each for facts in flows for each in (facts.source, facts.target)}.values():
        if each.silence or each.in_part:
            found.append(f"{code(each.alias)} did not answer: {code(each.silence or each.in_part)}")
        found += [f"{code(each.alias)}: {code(why)}" for why in each.unknown]
    for facts in flows:
        unread = [group.name for group in facts.applications or () if group.why]
        if unread:
            found.append(f"members or positions of {names_of(unread)} could not be read")
        if facts.missing:
            found.append(
                f"whether producers may write on {code(facts.target.alias)}: it lacks {names_of(facts.missing)}, which "
                "`topics.create` creates before the move if it may"
            )
    if objectives == Objectives():
        found.append("the objectives: `drlib init FILE --rto 5m --rpo 30s` writes them into the runbooks of a failover")
    return [
        *found,
        "in which order the applications have to move: say it in `waves` of the failover and the planned switchover",
        "producers without idempotence, and those that were silent for a day: they are not among the written topics",
        "which applications follow the pointer, and which have to be given the other address by hand",
    ]


def code(text: str, *, cell: bool = False) -> str:
    """A name, of at most so many letters, as a code span."""
    return markdown.code(short(text), cell=cell)


def names_of(items: Sequence[str], *, cell: bool = False) -> str:
    """The first few of `items` as code spans, and how many more there are."""
    more = f" and {len(items) - MOST_NAMES} more" if len(items) > MOST_NAMES else ""
    return ", ".join(code(item, cell=cell) for item in items[:MOST_NAMES]) + more


def _cluster(cluster: SeenCluster) -> str:
    answered = not cluster.silence
    known = {True: "yes", False: "no", None: "not known"}[cluster.authorizer]
    return _row(
        code(cluster.alias, cell=True),
        code(cluster.cluster_id, cell=True) if cluster.cluster_id else "not known",
        code(",".join(cluster.addresses), cell=True),
        str(cluster.brokers) if answered else "does not answer",
        known,
    )


def _flow(facts: FlowFacts, files: Mapping[str, str], place: Place) -> list[str]:
    source, target = facts.flow.source, facts.flow.target
    words = {"source": code(source), "target": code(target)}
    lines = [f"## {code(str(facts.flow))}", ""]
    for kind, why in ((kind, why) for kind, why in _FOR.items() if kind in files):
        lines += [f"- {why.format(**words)}:", "", f"      {one_line(place.command(files[kind], kind))}", ""]
    if not facts.way_back:
        lines += [
            f"No way back, no change of roles and no planned move: topics of {words['source']} keep their names, and",
            f"{code(str(facts.flow.reverse))} does not copy all of them. Give both flows the same `topics` and",
            "`topics.exclude`, before anything is mirrored.",
            "",
        ]
    written = "not known" if facts.written is None else names_of(facts.written) or "none"
    missing = "not known" if facts.missing is None else names_of(facts.missing) or "none"
    mirrored = names_of(sorted(facts.mirrored)) or (
        "not known" if facts.source.silence or facts.source.unknown else "none"
    )
    address = code(",".join(facts.target.addresses))
    lines += [
        f"Mirrored topics: {mirrored}. Topics that producers were seen to write to: {written}. Of the topics that producers",
        f"need, missing on {code(target)}: {missing}. After a move, bootstrap address {address}.",
        "",
    ]
    if facts.applications is None:
        return [*lines, f"The applications are not known: {code(source)} did not list its groups."]
    if not facts.applications:
        return [*lines, f"{code(source)} had no consumer group that this flow mirrors."]
    shown, rest = facts.applications[:MOST_APPLICATIONS], len(facts.applications) - MOST_APPLICATIONS
    lines += [
        f"| | application (group) | client ids | topics on {code(source, cell=True)} | topics on {code(target, cell=True)} |",
        "|---|---|---|---|---|",
        *(_application(number, group, facts) for number, group in enumerate(shown, 1)),
    ]
    return [*lines, "", f"and {rest:,} more, in {code(files[FAILOVER])}"] if rest > 0 else lines


def _application(number: int, group: SeenGroup, facts: FlowFacts) -> str:
    there = [facts.on_target(topic) for topic in group.topics if facts.on_target(topic)]
    local = [] if facts.keeps_names else [topic for topic in group.topics if topic in (facts.written or ())]
    clients = names_of(group.clients, cell=True) or ("no member" if group.members == 0 else "not known")
    return _row(
        str(number),
        code(group.name, cell=True),
        clients,
        names_of(group.topics, cell=True) or "not known",
        names_of(list(dict.fromkeys([*there, *local])), cell=True) or "none is mirrored",
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def lines_of(flows: Iterable[FlowFacts]) -> list[str]:
    """One line for the terminal about each flow: what was found."""
    found = []
    for facts in flows:
        groups = "groups not known" if facts.applications is None else f"{len(facts.applications)} consumer groups"
        written = (
            "producers not known" if facts.written is None else f"{len(facts.written)} topics with idempotent producers"
        )
        unknown = not facts.mirrored and (facts.source.silence or facts.source.unknown)
        mirrored = "mirrored topics not known" if unknown else f"{len(facts.mirrored)} mirrored topics"
        found.append(f"{facts.flow}: {mirrored}, {groups}, {written}")
    return found
