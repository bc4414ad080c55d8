"""Every action and probe a drill can name, by the modules that offer them.

Rules: a module offers `makers(workplace)`, `probes(workplace)` or both; each name is offered once. A module is loaded when
a drill is opened, not before. To add one, add its name to `MODULES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from drlib.drill.step.action import ActionMaker, ProbeMaker
from drlib.drill.step.context import DrillContext

MODULES: Final = (
    "drlib.drill.actions.topics_and_groups",
    "drlib.drill.actions.groups.translate",
    "drlib.drill.scenarios.failover.actions",
    "drlib.drill.actions.failover.actions",
    "drlib.drill.scenarios.failover.proof_actions",
    "drlib.drill.actions.groups.rehearsal",
    "drlib.drill.scenarios.active.actions",
    "drlib.drill.scenarios.ordering.actions",
    "drlib.drill.actions.hooks.actions",
    "drlib.drill.actions.probes",
    "drlib.drill.actions.failback.unreplicated_actions",
    "drlib.drill.actions.failback.actions",
    "drlib.drill.actions.failback.switchover",
    "drlib.drill.scenarios.failover.round_trip",
)


def action_makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """Every action there is, at `workplace`."""
    found: dict[str, ActionMaker] = {}
    for name in MODULES:
        offered = getattr(import_module(name), "makers", None)
        if offered is not None:
            _add(found, offered(workplace), name)
    return found


def probe_makers(workplace: DrillContext) -> dict[str, ProbeMaker]:
    """Every probe of a hypothesis there is, at `workplace`."""
    found: dict[str, ProbeMaker] = {}
    for name in MODULES:
        offered = getattr(import_module(name), "probes", None)
        if offered is not None:
            _add(found, offered(workplace), name)
    return found


def _add(found: dict, offered: dict, module: str) -> None:  # type: ignore[type-arg]
    twice = found.keys() & offered.keys()
    if twice:
        raise ValueError(f"{module} offers {', '.join(sorted(twice))}, which another module offers")
    found.update(offered)
