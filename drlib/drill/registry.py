"""Every action and probe a drill can name, by the modules that offer them.

Rules: a module offers `makers(workplace)`, `probes(workplace)` or both; each name is offered once. A module is loaded when
a drill is opened, not before. To add one, add its name to `MODULES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from drlib.drill.steps import ActionMaker, ProbeMaker
from drlib.drill.workplace import Workplace

MODULES: Final = (
    "drlib.drill.actions",
    "drlib.drill.group_actions",
    "drlib.drill.lab_actions",
    "drlib.drill.moving_actions",
    "drlib.drill.proof_actions",
    "drlib.drill.rehearsal",
    "drlib.drill.active_actions",
    "drlib.drill.ordering_actions",
    "drlib.drill.hook_steps",
    "drlib.drill.probes",
    "drlib.drill.tail_actions",
    "drlib.drill.failback_actions",
    "drlib.drill.switchover_actions",
    "drlib.drill.round_trip_actions",
)


def action_makers(workplace: Workplace) -> dict[str, ActionMaker]:
    """Every action there is, at `workplace`."""
    found: dict[str, ActionMaker] = {}
    for name in MODULES:
        offered = getattr(import_module(name), "makers", None)
        if offered is not None:
            _add(found, offered(workplace), name)
    return found


def probe_makers(workplace: Workplace) -> dict[str, ProbeMaker]:
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
