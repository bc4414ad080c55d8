"""Lines of YAML that several runbooks of `drlib init` have, and names from outside as YAML and comments have them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from drlib.drill.plan.plan import Mode
from drlib.formats import one_line
from drlib.model import Flow
from drlib.runbook.first_runbooks.observation import FlowFacts
from drlib.runs.scorecard import Objectives

_SHOWN: Final = 3
_WAVES: Final = (
    "  # Without the following, all applications move at once. In waves, each is served before the next one is moved:",
    "  # waves: # docs/drills.md#waves",
    "  #   - {name: first, applications: [{name: APPLICATION, groups: [GROUP], written: [TOPIC]}]}",
    '  #   - {name: last, applications: [{name: OTHERS, groups: [".*"], idle: true}]}',
)
_LONGEST_NAME: Final = 250  # letters of a name in a comment; a topic has at most 249


def quoted(text: str) -> str:
    """`text` as a YAML scalar on one line: double-quoted, with everything but printable ASCII escaped."""
    return f'"{"".join(map(_scalar, text))}"'


def _scalar(letter: str) -> str:
    code = ord(letter)
    if letter in '"\\':
        return f"\\{letter}"
    if 0x20 <= code < 0x7F:
        return letter
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def short(text: str) -> str:
    """A name on one line, of at most `_LONGEST_NAME` letters."""
    line = one_line(text) or "(no name)"
    return line if len(line) <= _LONGEST_NAME else f"{line[:_LONGEST_NAME]}..."


def objective_lines(objectives: Objectives) -> list[str]:
    """The section of the objectives, or a comment where none were given."""
    given = {name: value for name, value in objectives.model_dump().items() if value is not None}
    if not given:
        return ["# objectives: none were given. Such as: drlib init FILE --rto 5m --rpo 30s"]
    return ["objectives:", *(f"  {name}: {value:.15g}" for name, value in given.items())]


def drill_lines(
    facts: FlowFacts,
    mode: str,
    answering: Iterable[str],
    activity: str = "",
    rollback: str = "",
    *,
    waves: bool = False,
) -> list[str]:
    """The section of the drill up to its steps; `answering`: those that have to answer. `waves`: how to say the order.

    How far a cluster serves in an emergency is for the triage to judge, which takes a reason where it serves in part.
    """
    probe = "cluster.answers" if mode == Mode.EMERGENCY else "cluster.serves"
    probes = [
        f"    - {{title: {quoted(f'{alias} answers')}, probe: {probe}, arguments: {{cluster: {quoted(alias)}}}}}"
        for alias in answering
    ]
    return [
        "drill:",
        f"  flow: {quoted(str(facts.flow))}",
        f"  mode: {mode}",
        *([f"  activity: {activity}"] if activity else []),
        *([f"  rollback: {rollback}"] if rollback else []),
        "  hypothesis:",
        *probes,
        *(_WAVES if waves else ()),
        "  steps:",
    ]


def inventory_lines(moving: Flow, *, named: bool = False) -> list[str]:
    """The step that keeps who uses the topics of the cluster that applications leave; `named`: its flow is not the drill's."""
    both = f"      arguments: {{source: {quoted(moving.source)}, target: {quoted(moving.target)}}}"
    return [
        "    - name: inventory",
        f"      title: {quoted(f'Keep who uses the topics of {moving.source}, and how each moves')}",
        "      action: inventory.take",
        *([both] if named else []),
        "      danger: none",
    ]


def few(items: Sequence[str]) -> str:
    """The first few of `items`, on one line."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(short(item) for item in items[:_SHOWN]) + more


def fence_notes(facts: FlowFacts) -> list[str]:
    """Comments at a step `source.fence`: whether writers that do not follow the pointer can be denied."""
    alias = facts.flow.source
    if facts.copied_back and facts.source.authorizer is not False:
        return [
            f"      # the mirror writes to topics on {alias}, too: name principals to deny writing to, and not its own",
            '      # arguments: {deny_write: [".*"], deny_principals: ["User:NAME"]}',
        ]
    match facts.source.authorizer:
        case True:
            return [
                f"      # {alias} has an authorizer: this also denies writers that do not follow the pointer",
                '      # arguments: {deny_write: [".*"]}',
            ]
        case False:
            return [f"      # {alias} has no authorizer: only applications that follow the pointer can be fenced"]
    return [
        f"      # not known whether {alias} has an authorizer; if so, writers that do not follow the pointer are denied by",
        '      # arguments: {deny_write: [".*"]}',
    ]


def written(facts: FlowFacts, alias: str) -> list[str]:
    """The argument `written` of a step that verifies: topics of `alias` that producers write to."""
    if facts.written is None:
        return [f"        written: [] # not known: the topics of {alias} that producers write to after the move"]
    note = "idempotent or transactional producers of the last day; add what other producers write to"
    if not facts.written:
        return [f"        written: [] # none had {note}"]
    of = dict.fromkeys(facts.transactional, " # in transactions")
    return [f"        written: # {note}", *(f"          - {quoted(n)}{of.get(n, '')}" for n in facts.written)]


def by_hand() -> list[str]:
    """For how long it waits."""
    return [
        "        members_s: 300 # how long applications that are changed by hand may take: consumers to appear,",
        "        deadline_s: 300 # and then to read, and producers to write; it ends when all are back",
    ]
