"""The runbooks after a failover: `reprotect` and `fail-back`, or `swap-roles`, as `drlib init` writes them. Pure.

Rules: the steps are those of the shipped runbooks of these names, with the names of the clusters and of the topics that are to
be written to again. `drlib failback` runs the first two.
"""

from __future__ import annotations

from collections.abc import Collection

from drlib.runbook.first_runbooks.observation import FlowFacts
from drlib.runbook.first_runbooks.yaml_lines import (
    by_hand,
    drill_lines,
    fence_notes,
    inventory_lines,
    objective_lines,
    quoted,
    written,
)
from drlib.runs.scorecard import Objectives


def reprotect(facts: FlowFacts, takes: Collection[str]) -> list[str]:
    """`takes`: the parameters of the notebook. One that does not take `tail` gets what loses nothing and changes no topic."""
    source, target = facts.flow.source, facts.flow.target
    return _settled(
        facts, takes, f"Workers mirror {target} back to {source}", f"{source} has nearly all records of {target}"
    )


def swap_roles(facts: FlowFacts, takes: Collection[str]) -> list[str]:
    """A reprotect after which the target stays the source. `takes`: as in `reprotect`."""
    source, target = facts.flow.source, facts.flow.target
    return [
        *_settled(
            facts, takes, f"Workers mirror {target} to {source}", f"{source} has all records of {target} but the newest"
        ),
        "    - name: topics",
        f"      title: {quoted(f'Topics that producers write to exist on {source}')}",
        "      action: topics.create",
        f"      arguments: {{source: {quoted(target)}, target: {quoted(source)}}}",
        "    - name: ready",
        f"      title: {quoted(f'{target} could fail over to {source} now')}",
        "      action: readiness.verify",
        "      danger: none",
    ]


def _settled(facts: FlowFacts, takes: Collection[str], workers: str, caught_up: str) -> list[str]:
    """The steps of a reprotect; `workers` and `caught_up` are the titles of the last two."""
    source, target = facts.flow.source, facts.flow.target
    chosen = "tail" in takes
    return [
        "parameters:",
        '  lab_dir: ""',
        '  properties: ""',
        *(
            ["  tail: recover # what becomes of records that only the source has: recover, quarantine, leave"]
            if chosen
            else []
        ),
        *drill_lines(facts, "planned", (target,), activity="reprotect", rollback="never"),
        "    - name: decide",
        f"      title: {quoted(f'{source} is the cluster that failed, with its data')}",
        "      action: source.returned",
        "      danger: none",
        "    - name: fence",
        f"      title: {quoted(f'Nothing is written to {source}')}",
        "      action: source.fence",
        *fence_notes(facts),
        "    - name: tail",
        f"      title: {quoted(f'List what only {source} has')}",
        "      action: tail.list",
        "      danger: none",
        "    - name: settle",
        f"      title: {quoted(f'Settle what only {source} has')}",
        "      action: tail.settle",
        '      arguments: {how: "${tail}"}' if chosen else "      arguments: {how: quarantine}",
        "      undoable: false",
        "      approval: true # before it is settled: --approve settle",
        "    - name: workers",
        f"      title: {quoted(workers)}",
        "      action: reverse.verify",
        "      arguments: {start_s: 120}",
        "      danger: none",
        "    - name: caught-up",
        f"      title: {quoted(caught_up)}",
        "      action: reverse.wait",
        "      arguments: {offsets: 20000}",
        "      danger: none",
        "    - name: transactions",
        f"      title: {quoted(f'List transactions of {source} that are in part')}",
        "      action: tail.transactions",
        "      danger: none",
    ]


def fail_back(facts: FlowFacts, objectives: Objectives) -> list[str]:
    source, target = facts.flow.source, facts.flow.target
    home = f"source: {quoted(target)}, target: {quoted(source)}"
    return [
        "parameters:",
        '  lab_dir: ""',
        '  properties: ""',
        "  groups: [] # names; empty: all groups that the flow back mirrors",
        "  stopped_seconds: 2.0 # how long the move may hold the applications",
        *objective_lines(Objectives(rpo_records=objectives.rpo_records)),
        *drill_lines(facts, "planned", (source, target), activity="fail-back"),
        "    - name: workers",
        f"      title: {quoted(f'Workers mirror {target} back to {source}')}",
        "      action: reverse.verify",
        "      danger: none",
        "    - name: caught-up",
        f"      title: {quoted(f'{source} has nearly all records of {target}')}",
        "      action: reverse.wait",
        "      arguments: {offsets: 20000}",
        "      danger: none",
        "    - name: topics",
        f"      title: {quoted(f'Topics that producers write to exist on {source}')}",
        "      action: topics.create",
        f"      arguments: {{{home}}}",
        *inventory_lines(facts.flow.reverse, named=True),
        "    - name: in-part",
        f"      title: {quoted(f'Where transactions of {source} begin whose rest was left there')}",
        "      action: tail.transactions",
        "      danger: none",
        "    - name: go-home",
        f"      title: {quoted(f'The applications move home to {source}')}",
        "      action: switchover.move",
        '      arguments: {groups: "${groups}", stopped_s: "${stopped_seconds}"}',
        "      approval: true # applications move: --approve go-home",
        "    - name: left",
        f"      title: {quoted(f'The applications have left {target}')}",
        "      action: groups.left",
        "      danger: none",
        "    - name: verify",
        f"      title: {quoted(f'Verify that {source} serves the applications')}",
        "      action: groups.verify",
        "      danger: none",
        "      arguments:",
        f"        source: {quoted(target)}",
        f"        target: {quoted(source)}",
        *written(facts, source),
        *by_hand(),
        "    - name: transactions",
        f"      title: {quoted(f'Whether {source} has every transaction and the state of each Kafka Streams application')}",
        "      action: transactions.list",
        f"      arguments: {{{home}, drained: true}}",
        "      danger: none",
    ]
