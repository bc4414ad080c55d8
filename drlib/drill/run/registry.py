"""The actions and probes that a drill can name: one table each, from name to class.

Rules: a class is imported when a drill names it, not before, so that a command starts without what drills need. The
arguments of a whole drill are parsed before anything is asked of a cluster. To add an action, write its class and add its
line here; `docs/actions.md` is made from the classes (`docs/make_actions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Final, TypeVar

from drlib.drill.plan.plan import Call, Drill
from drlib.drill.step.action import Action, DrillAction, DrillCall, DrillProbe, Probe
from drlib.drill.step.argument_types import nearest
from drlib.drill.step.context import DrillContext
from drlib.errors import UsageError

Kind = TypeVar("Kind", bound=DrillCall)
Table = Mapping[str, "str | type[Kind]"]
"""From name to class, or to `module:Class` below `drlib.drill`."""

ACTIONS: Final[dict[str, str | type[DrillAction]]] = {
    # failover
    "failover.triage": "actions.failover.triage:Triage",
    "source.fence": "actions.applications.fence_source:FenceSource",
    "source.unfence": "actions.applications.fence_source:UnfenceSource",
    "inventory.take": "actions.applications.inventory:TakeInventory",
    "topics.create": "actions.applications.create_topics:CreateTopics",
    "mirror.drain": "actions.failover.drain:DrainMirror",
    "transactions.list": "actions.failover.transactions:ListTransactions",
    "groups.translate": "actions.groups.translate:TranslateGroups",
    "pointer.move": "actions.applications.move_pointer:MovePointer",
    "groups.verify": "actions.groups.verify:VerifyGroups",
    # rehearsal
    "groups.shadow": "actions.groups.rehearsal:ShadowGroups",
    "canary.read": "actions.groups.rehearsal:ReadCanary",
    # failback and planned switchover
    "source.returned": "actions.failback.returned:SourceReturned",
    "tail.list": "actions.failback.unreplicated_actions:ListTail",
    "tail.recover": "actions.failback.unreplicated_actions:RecoverTail",
    "tail.quarantine": "actions.failback.unreplicated_actions:QuarantineTail",
    "tail.settle": "actions.failback.unreplicated_actions:SettleTail",
    "tail.transactions": "actions.failback.tail_transactions:ListTailTransactions",
    "reverse.verify": "actions.failback.actions:VerifyWorkers",
    "reverse.wait": "actions.failback.actions:WaitCaughtUp",
    "groups.translate_back": "actions.failback.actions:TranslateBack",
    "readiness.verify": "actions.failback.verify_ready:VerifyReady",
    "groups.left": "actions.failback.groups_left:GroupsLeft",
    "switchover.move": "actions.failback.switchover:MoveApplications",
    # applications that move in waves
    "wave.move": "actions.waves.move:MoveWave",
    "wave.switchover": "actions.waves.switchover:MoveWaveApplications",
    "wave.verify": "actions.waves.verify:VerifyWave",
    # clients that follow no pointer, made to leave a cluster that stays up
    "clients.refuse": "actions.clients.refuse:RefuseClients",
    "clients.gone": "actions.clients.gone:ClientsGone",
    "clients.admit": "actions.clients.refuse:AdmitClients",
    "clients.throttle": "actions.clients.throttle:ThrottleClients",
    # hooks
    "hook.command": "actions.hooks.actions:CallCommand",
    "hook.http": "actions.hooks.actions:CallHttp",
    # a lab's applications, mirror and clusters
    "lab.applications": "scenarios.failover.applications:StartApplications",
    "lab.clients": "scenarios.failover.clients:StartClients",
    "lab.mirror": "scenarios.failover.mirror:StartMirror",
    "lab.steady": "scenarios.failover.applications:WaitSteady",
    "lab.traffic": "scenarios.failover.round_trip:WaitTraffic",
    "lab.kill_mirror": "scenarios.failover.mirror:KillMirror",
    "lab.stop_mirror": "scenarios.failover.mirror:StopMirror",
    "lab.kill": "scenarios.failover.clusters:KillCluster",
    "lab.restart": "scenarios.failover.clusters:RestartCluster",
    "lab.roll_brokers": "scenarios.failover.clusters:RollBrokers",
    "lab.cut_applications": "scenarios.failover.clusters:CutApplications",
    "lab.reconnect_applications": "scenarios.failover.clusters:ReconnectApplications",
    "lab.read_locally": "scenarios.failover.proof_actions:ReadLocally",
    "lab.stop": "scenarios.failover.applications:StopApplications",
    "proof.check": "scenarios.failover.proof_actions:CheckHistories",
    "proof.clients": "scenarios.failover.clients:JudgeClients",
    "proof.audit": "scenarios.failover.proof_actions:AuditClusters",
    "proof.round_trip": "scenarios.failover.round_trip:ProveRoundTrip",
    # active/active, on a lab
    "active.start": "scenarios.active.actions:Start",
    "active.link": "scenarios.active.measurements:MeasureLink",
    "active.join": "scenarios.active.actions:Join",
    "active.kill": "scenarios.active.measurements:Kill",
    "active.revive": "scenarios.active.measurements:Revive",
    "active.prove": "scenarios.active.actions:Prove",
    # ordered reading, on a lab
    "ordering.start": "scenarios.ordering.actions:Start",
    "ordering.move": "scenarios.ordering.actions:Move",
    "ordering.disturb": "scenarios.ordering.kill_member:Disturb",
    "ordering.prove": "scenarios.ordering.actions:Prove",
}

PROBES: Final[dict[str, str | type[DrillProbe]]] = {
    "cluster.answers": "actions.probes:ClusterAnswers",
    "cluster.serves": "actions.probes:ClusterServes",
    "topic.exists": "actions.probes:TopicExists",
    "group.active": "actions.probes:GroupActive",
    "mirror.lag": "actions.probes:MirrorLag",
    "readiness.score": "actions.probes:ReadinessScore",
    "lab.serves": "scenarios.active.actions:LabServes",
}


def find(table: Table[Kind], name: str, where: str) -> type[Kind]:
    """The class of that name. Raises `UsageError` naming `where`."""
    if name not in table:
        known = ", ".join(sorted(table)) or "none"
        hint = nearest(name, table, f"The names are: {known}.")
        raise UsageError(f"{where}: {name}", "no action or probe has this name", hint)
    entry = table[name]
    if not isinstance(entry, str):
        return entry
    module, _, attribute = entry.partition(":")
    kind: type[Kind] = getattr(import_module(f"drlib.drill.{module}"), attribute)
    return kind


@dataclass(frozen=True)
class ParsedDrill:
    """A drill's steps and probes, their arguments checked, before they are bound to a context."""

    actions: Mapping[str, DrillAction]
    """By the step's name."""
    probes: Mapping[str, DrillProbe]
    """By the title of the expectation or stop condition."""

    def bind(self, context: DrillContext) -> tuple[dict[str, DrillAction], dict[str, Probe]]:
        """Actions and probes at `context`. Raises `UsageError` for what does not fit it."""
        actions = {step: action.bind(context, step) for step, action in self.actions.items()}
        probes: dict[str, Probe] = {title: probe.bind(context) for title, probe in self.probes.items()}
        return actions, probes


def parse_drill(drill: Drill, actions: Table[DrillAction] = ACTIONS, probes: Table[DrillProbe] = PROBES) -> ParsedDrill:
    """Raises `UsageError` for a name that is not in the tables, and for arguments that are wrong. Touches no cluster."""
    return ParsedDrill(
        {step.name: _parsed(actions, step.action, f"step {step.name}") for step in drill.steps},
        {
            **{each.title: _parsed(probes, each.probe, f"hypothesis '{each.title}'") for each in drill.hypothesis},
            **{
                each.title: _parsed(probes, each.probe, f"stop condition '{each.title}'")
                for each in drill.stop_conditions
            },
        },
    )


def kept(drill: Drill, actions: Mapping[str, Action]) -> Drill:
    """`drill` as it may be written down: its calls as `DrillCall.kept` has them. `actions` are its steps' own."""

    def call(step: str, asked: Call) -> Call:
        action = actions.get(step)
        return action.kept(asked) if isinstance(action, DrillCall) else asked

    def probe(asked: Call) -> Call:
        return find(PROBES, asked.name, "hypothesis").kept(asked) if asked.name in PROBES else asked

    return replace(
        drill,
        steps=tuple(replace(step, action=call(step.name, step.action)) for step in drill.steps),
        hypothesis=tuple(replace(expected, probe=probe(expected.probe)) for expected in drill.hypothesis),
        stop_conditions=tuple(replace(each, probe=probe(each.probe)) for each in drill.stop_conditions),
    )


def make_action(call: Call, context: DrillContext, step: str) -> Action:
    """One action at `context`. Raises `UsageError`."""
    return _parsed(ACTIONS, call, f"step {step}").bind(context, step)


def _parsed(table: Table[Kind], call: Call, where: str) -> Kind:
    return find(table, call.name, where).parse(call, where)
