"""The runbooks of a flow as YAML, made of what was observed: rehearsal, failover, planned switchover, audit, lag report. Pure.

Rules: no runbook is written that would be refused: where one direction copies a topic under its own name, there is no planned
move and no way back. Nothing is invented: without answers there is no `objectives` section, and what could not be learned is a
comment to fill in. Patterns of groups end with `.*`, because a group that is created later has to move, too. A rehearsal has no
objectives, as nothing moves in it. Names are text from outside: values are quoted, patterns escaped, comments on one line.
Nothing has a date, so the same observation makes the same files.
Not for: asking clusters (`drlib.runbook.first_runbooks.observe`), the page for people (`readme`), writing (`folder`), and
the runbooks after a failover (`way_back`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.config.patterns.selection import LONGEST
from drlib.formats import one_line
from drlib.model import Flow
from drlib.runbook.first_runbooks.observation import FlowFacts, SeenGroup
from drlib.runbook.first_runbooks.way_back import fail_back, reprotect, swap_roles
from drlib.runbook.first_runbooks.yaml_lines import (
    by_hand,
    drill_lines,
    fence_notes,
    few,
    inventory_lines,
    objective_lines,
    quoted,
    short,
    written,
)
from drlib.runs.scorecard import Objectives

REHEARSE: Final = "rehearse"
FAILOVER: Final = "failover"
REPROTECT: Final = "reprotect"
FAIL_BACK: Final = "fail-back"
SWAP: Final = "swap-roles"
SWITCHOVER: Final = "planned-switchover"
AUDIT: Final = "nightly-audit"
LAG: Final = "lag-report"
KINDS: Final = (REHEARSE, FAILOVER, REPROTECT, FAIL_BACK, SWAP, SWITCHOVER, AUDIT, LAG)
_WITH_A_WAY_BACK: Final = frozenset({REPROTECT, FAIL_BACK, SWAP, SWITCHOVER})
DRILL_NOTEBOOK: Final = "10_run_a_drill.ipynb"
NOTEBOOKS: Final[Mapping[str, str]] = {
    REHEARSE: DRILL_NOTEBOOK,
    FAILOVER: DRILL_NOTEBOOK,
    REPROTECT: DRILL_NOTEBOOK,
    FAIL_BACK: DRILL_NOTEBOOK,
    SWAP: DRILL_NOTEBOOK,
    SWITCHOVER: DRILL_NOTEBOOK,
    AUDIT: "08_audit_clusters.ipynb",
    LAG: "06_analyse_lag.ipynb",
}
APPROVED: Final[Mapping[str, str]] = {  # the step that waits for an approval
    FAILOVER: "fence",
    REPROTECT: "settle",
    FAIL_BACK: "go-home",
    SWAP: "settle",
    SWITCHOVER: "go-home",
}
COPIES: Final = "notebooks"  # the folder of copies, beside the runbooks
_PLAIN: Final = re.compile(r"([^A-Za-z0-9_\-\u0080-\U0010ffff])")
_MOST_LISTED: Final = 250_000  # letters of one list of groups: a runbook has at most 1 MiB


@dataclass(frozen=True, slots=True)
class Place:
    """How commands name the properties file and the folder of runbooks. `takes`: the parameters of the drills' notebook."""

    file: str
    folder: str
    takes: frozenset[str] = frozenset()

    def command(self, name: str, kind: str) -> str:
        """The command that runs the runbook in `name`."""
        approve = f" --approve {APPROVED[kind]}" if kind in APPROVED else ""
        return f"drlib run {shlex.quote(f'{self.folder}/{name}')} {shlex.quote(self.file)}{approve}"


def names(flows: Sequence[FlowFacts]) -> list[dict[str, str]]:
    """By kind, the file of each flow's runbook: `failover.yaml`, in a file with several flows `failover-paris-lyon.yaml`."""
    every = dict.fromkeys(flow for facts in flows for flow in (*facts.of_file, facts.flow))
    suffixes: dict[Flow, str] = {}
    for flow in every:
        suffix = ""
        if len(every) > 1:
            plain = suffix = f"-{flow.source}-{flow.target}".lower()
            number = 2
            while suffix in suffixes.values():
                suffix, number = f"{plain}-{number}", number + 1
        suffixes[flow] = suffix
    return [
        {kind: f"{kind}{suffixes[facts.flow]}.yaml" for kind in KINDS if facts.way_back or kind not in _WITH_A_WAY_BACK}
        for facts in flows
    ]


def texts(facts: FlowFacts, files: Mapping[str, str], place: Place, objectives: Objectives) -> dict[str, str]:
    """By file, its text. `files`: the file of each kind (`names`)."""
    bodies = {
        REHEARSE: _rehearse(facts),
        FAILOVER: _failover(facts, place.takes, objectives),
        REPROTECT: reprotect(facts, place.takes),
        FAIL_BACK: fail_back(facts, objectives),
        SWAP: swap_roles(facts, place.takes),
        SWITCHOVER: _switchover(facts, objectives),
        AUDIT: _audit(facts),
        LAG: _lag(facts, objectives),
    }
    return {name: _head(kind, name, facts, place) + "\n".join(bodies[kind]) + "\n" for kind, name in files.items()}


def pattern(group: str) -> str | None:
    """A pattern that matches this group alone; None where no pattern can."""
    escaped = _PLAIN.sub(r"\\\1", group)
    try:
        group.encode()
    except UnicodeEncodeError:
        return None
    return escaped if group and len(escaped) <= LONGEST else None


_WHAT: Final = {
    REHEARSE: "Rehearses a failover of {flow} while everything runs. No application's group is changed.",
    FAILOVER: "{source} is down: the applications continue on {target}. Nothing is rolled back automatically.",
    REPROTECT: "{source} is back after a failover: what only it has is settled, and {target} is mirrored back to it.",
    FAIL_BACK: "After a reprotect: the applications move home from {target} to {source}. Nothing is lost or read twice.",
    SWAP: "{source} is back after a failover: {target} stays the source, and what only {source} has is settled.",
    SWITCHOVER: "Both clusters are up: the applications move from {source} to {target}. Nothing is lost or read twice.",
    AUDIT: "Compares both clusters of {flow} record by record, and checks its checkpoints. Read-only.",
    LAG: "Lag of the mirror and of the groups of {flow}, and when retention deletes unread records. Read-only.",
}


def _head(kind: str, name: str, facts: FlowFacts, place: Place) -> str:
    flow = facts.flow
    what = _WHAT[kind].format(flow=flow, source=flow.source, target=flow.target)
    lines = [
        f"# {what}",
        f"#   {one_line(place.command(name, kind))}",
        "# Written by drlib init. Edit it: drlib init does not replace a file that was edited since.",
    ]
    if facts.both_ways and kind in (REPROTECT, SWAP):
        lines.append("# Both directions copy the topics, so nothing is settled: what crossed late is counted.")
    silent = [each for each in (facts.source, facts.target) if each.silence or each.in_part]
    lines += [f"# {each.alias} did not answer: {one_line(each.silence or each.in_part)}" for each in silent]
    lines += [
        f"name: {quoted(name.removesuffix('.yaml'))}",
        f"title: {quoted(_title(kind, facts))}",
        f"notebook: {COPIES}/{NOTEBOOKS[kind]}",
    ]
    return "\n".join(lines) + "\n"


def _title(kind: str, facts: FlowFacts) -> str:
    flow = facts.flow
    return {
        REHEARSE: f"Rehearsal of {flow}: a canary reads every group's next records on {flow.target}",
        FAILOVER: f"Failover of {flow}: {flow.source} is down, applications continue on {flow.target}",
        REPROTECT: f"Reprotect {flow}: what only {flow.source} has is settled, and {flow.target} is mirrored back to it",
        FAIL_BACK: f"Fail back: the applications move from {flow.target} home to {flow.source}, nothing is lost",
        SWAP: f"Swap roles after a failover of {flow}: {flow.target} stays the source, {flow.source} becomes its target",
        SWITCHOVER: f"Planned switchover: the applications move from {flow.source} to {flow.target}, nothing is lost",
        AUDIT: f"Nightly audit of {flow}: do {flow.source} and {flow.target} agree?",
        LAG: f"Lag report of {flow}: who lags, does it grow, and how long retention leaves",
    }[kind]


def _rehearse(facts: FlowFacts) -> list[str]:
    flow = facts.flow
    return [
        *_parameters(),
        'schedule: {every: 30d, cron: "0 3 1 * *"} # in UTC; drlib schedule emit prints a file for a scheduler',
        *drill_lines(facts, "practice", (flow.source, flow.target)),
        "    - name: decide",
        f"      title: {quoted(f'Could we fail over from {flow.source} to {flow.target} now?')}",
        "      action: failover.triage",
        '      arguments: {expect: serving, force_reason: "${force_reason}"}',
        "      danger: none",
        *inventory_lines(flow),
        "    - name: translate",
        f"      title: {quoted(f'Commit positions of shadow groups on {flow.target}')}",
        "      action: groups.shadow",
        *_groups(facts),
        "    - name: verify",
        f"      title: {quoted(f'A canary reads from these positions on {flow.target}')}",
        "      action: canary.read",
        "      arguments: {records: 5}",
        "      danger: none",
    ]


def _failover(facts: FlowFacts, takes: Collection[str], objectives: Objectives) -> list[str]:
    source, target = facts.flow.source, facts.flow.target
    fault_at = "fault_at" in takes
    witnesses = "witnesses" in takes
    given = ', fault_at: "${fault_at}"' if fault_at else ""
    given += ', witnesses: "${witnesses}"' if witnesses else ""
    when = ['  fault_at: "" # when the source failed, if you know it, such as 2026-11-21T03:12:05Z'] if fault_at else []
    when += ["  witnesses: [] # HOST:PORT of drlib witness at other places"] if witnesses else []
    return [
        *_parameters(),
        *when,
        *objective_lines(objectives),
        *drill_lines(facts, "emergency", (target,), waves=True),
        "    - name: decide",
        f"      title: {quoted(f'Decide whether to fail over from {source} to {target}')}",
        "      action: failover.triage",
        f'      arguments: {{force_reason: "${{force_reason}}"{given}}}',
        "      danger: none",
        *inventory_lines(facts.flow),
        "    - name: fence",
        f"      title: {quoted(f'Writes to {source} are fenced')}",
        "      action: source.fence",
        "      approval: true # before anything is changed: --approve fence",
        *fence_notes(facts),
        "    - name: drain",
        "      title: Drain what the mirror has fetched",
        "      action: mirror.drain",
        "      danger: none",
        "    - name: transactions",
        f"      title: {quoted(f'List transactions that {target} has in part')}",
        "      action: transactions.list",
        "      danger: none",
        "    - name: translate",
        f"      title: {quoted(f'Commit translated positions on {target}')}",
        "      action: groups.translate",
        *_groups(facts),
        "        leave: [] # groups that may be moved although some of their positions cannot be translated",
        "    - name: topics",
        f"      title: {quoted(f'Topics that producers write to exist on {target}')}",
        "      action: topics.create",
        *_missing_notes(facts),
        "    - name: move",
        f"      title: {quoted(f'Move the pointer to {target} (cutover)')}",
        "      action: pointer.move",
        "    - name: verify",
        f"      title: {quoted(f'Verify that {target} serves the applications')}",
        "      action: groups.verify",
        "      danger: none",
        *_groups(facts, explained=False),
        *written(facts, facts.flow.target),
        *by_hand(),
    ]


def _switchover(facts: FlowFacts, objectives: Objectives) -> list[str]:
    source, target = facts.flow.source, facts.flow.target
    both = f"source: {quoted(source)}, target: {quoted(target)}"
    records = Objectives(rpo_records=objectives.rpo_records)
    return [
        "parameters:",
        '  lab_dir: ""',
        '  properties: ""',
        "  groups: [] # names; empty: all groups that the flow mirrors, listed at the step that moves them",
        "  stopped_seconds: 2.0 # how long the move may hold the applications",
        *objective_lines(records),
        *drill_lines(facts, "planned", (source, target), activity="fail-over", waves=True),
        "    - name: workers",
        "      title: The mirror runs",
        "      action: reverse.verify",
        f"      arguments: {{{both}}}",
        "      danger: none",
        "    - name: caught-up",
        "      title: The mirror has nearly all records",
        "      action: reverse.wait",
        f"      arguments: {{{both}, offsets: 20000}}",
        "      danger: none",
        "    - name: topics",
        f"      title: {quoted(f'Topics that producers write to exist on {target}')}",
        "      action: topics.create",
        f"      arguments: {{{both}}}",
        *_missing_notes(facts),
        *inventory_lines(facts.flow, named=True),
        *_leaving_notes(source),
        "    - name: go-home",
        f"      title: {quoted(f'The applications move to {target}')}",
        "      action: switchover.move",
        f'      arguments: {{{both}, groups: "${{groups}}", stopped_s: "${{stopped_seconds}}"}}',
        "      approval: true # applications move: --approve go-home",
        *_bounded([f"      # {_application(group)}" for group in facts.applications or ()], "      "),
        *_unknown_applications(facts, "      "),
        "    - name: transactions",
        f"      title: {quoted(f'Whether {target} has every transaction and the state of each Kafka Streams application')}",
        "      action: transactions.list",
        f"      arguments: {{{both}, drained: true}}",
        "      danger: none",
    ]


def _leaving_notes(source: str) -> list[str]:
    """The steps for clients that follow no pointer, as comments: their addresses are the operator's to name."""
    of = f"cluster: {quoted(source)}"
    return [
        "    # Clients that follow no pointer stay, unless they are made to leave: brokers refuse their addresses, and a",
        "    #   rolling restart ends their connections (clients.md, Leaving a cluster that stays up). admit: behind go-home",
        f"    # - {{name: refuse, title: Clients are refused, action: clients.refuse, arguments: {{{of}, hosts: [10.0.0.7]}}}}",
        "    # - name: restart",
        "    #   title: Brokers are restarted one after the other",
        "    #   action: hook.command",
        "    #   undoable: false",
        "    #   arguments: {argv: [./roll-brokers.sh], timeout_seconds: 1800}",
        f"    # - {{name: gone, title: Clients are gone, action: clients.gone, danger: none, arguments: {{{of}}}}}",
        f"    # - {{name: admit, title: Clients are admitted again, action: clients.admit, arguments: {{{of}}}}}",
    ]


def _audit(facts: FlowFacts) -> list[str]:
    return [
        "parameters:",
        '  lab_dir: ""',
        f"  flow: {quoted(str(facts.flow))}",
        "  lag_seconds: 300.0 # records that are not mirrored yet are lag if they span at most this",
        'schedule: {every: 1d, cron: "30 2 * * *"} # in UTC',
    ]


def _lag(facts: FlowFacts, objectives: Objectives) -> list[str]:
    age = objectives.rpo_seconds
    return [
        "parameters:",
        '  lab_dir: ""',
        f"  flow: {quoted(str(facts.flow))}",
        "  window: 24h # how far to look back",
        "  slow_group: false",
        "  # objective: \"\" # the greatest age of the mirror's lag; without this line the notebook's own"
        if age is None
        else f"  objective: {quoted(f'{age:g}s')} # the greatest age of the mirror's lag: the RPO",
    ]


def _parameters() -> list[str]:
    return [
        "parameters:",
        '  lab_dir: ""',
        '  properties: ""',
        '  force_reason: "" # reason to go ahead although a cluster is not as expected',
    ]


def _groups(facts: FlowFacts, *, explained: bool = True) -> list[str]:
    lines = [
        "      arguments:",
        "        groups: # patterns, by name; in which order applications move is not said here",
    ]
    lines += _unknown_applications(facts, "          ") if explained else []
    listed = []
    for group in facts.applications or ():
        named = pattern(group.name)
        about = f" # {_application(group)}" if explained or named is None else ""
        listed.append(f"          - {quoted(named)}{about}" if named else f"          # by the last pattern:{about}")
    lines += _bounded(listed, "          ")
    return [*lines, '          - ".*" # and groups that are created later; without this line only those above']


def _bounded(lines: list[str], indent: str) -> list[str]:
    """The first of `lines`, as many as a runbook can hold, and how many more there are."""
    kept: list[str] = []
    letters = 0
    for line in lines:
        letters += len(line)
        if letters > _MOST_LISTED:
            return [*kept, f"{indent}# and {len(lines) - len(kept)} more"]
        kept.append(line)
    return kept


def _unknown_applications(facts: FlowFacts, indent: str) -> list[str]:
    if facts.applications is None:
        return [f"{indent}# the groups of {facts.flow.source} are not known: name them here, one pattern a line"]
    if not facts.applications:
        return [f"{indent}# {facts.flow.source} had no consumer group that the flow mirrors"]
    return []


def _application(group: SeenGroup) -> str:
    """One application for a comment."""
    if group.members is None:
        who = f"members unknown ({short(group.why)})"
    else:
        who = f"{group.members} member{'' if group.members == 1 else 's'}"
    clients = f", client ids {few(group.clients)}" if group.clients else ""
    reads = f", reads {few(group.topics)}" if group.topics else ", topics unknown"
    return f"{short(group.name)}: {who}{clients}{reads}"


def _missing_notes(facts: FlowFacts) -> list[str]:
    if facts.missing is None:
        return [f"      # {facts.flow.target} did not answer: whether topics are missing there is not known"]
    if not facts.missing:
        return []
    return [f"      # missing on {facts.flow.target} when this was written: {few(facts.missing)}"]
