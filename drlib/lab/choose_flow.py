"""Which flow a run is about: the one that was asked for, else the only one there is to choose.

Rules: the choice is pure. Of a file the only enabled flow is chosen; of several none is, and they are listed with the command
that names one. A flow that was asked for has to be one of the file's, and enabled where the run relies on its mirror. On a lab
the usual flow is from its first cluster to its second, and any two of its clusters may be asked for.
Not for: which topics and groups a flow mirrors (`drlib.config.flow_settings`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drlib.config.settings import MirrorSettings
from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.model import Flow

COMMAND: Final = "drlib run RUNBOOK"
NAME_IT: Final = "-p 'flow={}'"
SHOWN: Final = 10  # flows that an error lists


def of_file(
    settings: MirrorSettings,
    asked: str,
    command: str = COMMAND,
    *,
    enabled: bool = True,
    name_it: str = NAME_IT,
) -> Flow:
    """The flow of a file that `asked` ("A->B") names, "" for its only enabled one.

    `command`: what was called, to which `name_it` is added in errors, with a flow for `{}`. `enabled`: a disabled flow is
    refused. Raises `UsageError`.
    """
    every = tuple(each.flow for each in settings.flows)
    usable = tuple(each.flow for each in settings.enabled_flows)
    if not asked.strip():
        if len(usable) == 1:
            return usable[0]
        if usable:
            raise UsageError(
                f"which flow of {settings.path}",
                f"{len(usable)} flows are enabled there: {_listed(usable)}",
                _name_one(usable, command, name_it),
            )
        raise UsageError(
            f"{settings.path} has no enabled flow",
            f"its clusters are {', '.join(settings.clusters)}",
            "Set 'A->B.enabled = true' for the flow from A to B.",
        )
    flow = Flow.parse(asked)
    if flow not in every:
        raise UsageError(
            f"{settings.path} has no flow {flow}",
            f"its clusters are {', '.join(settings.clusters)}, and its enabled flows are {_listed(usable)}",
            _name_one(usable, command, name_it),
        )
    if enabled and flow not in usable:
        raise UsageError(
            f"flow {flow} of {settings.path} is disabled",
            f"nothing mirrors it, and the enabled flows are {_listed(usable)}",
            _name_one(usable, command, name_it, f"Set '{flow}.enabled = true'"),
        )
    return flow


def of_lab(aliases: Sequence[str], asked: str) -> Flow:
    """The flow of a lab with the clusters `aliases` (two or more). Raises `UsageError` for one that it lacks."""
    if not asked.strip():
        return Flow(aliases[0], aliases[1])
    flow = Flow.parse(asked)
    if flow.source == flow.target or not {flow.source, flow.target} <= set(aliases):
        usual = f"{aliases[0]}->{aliases[1]}"
        raise UsageError(
            f"the lab has no flow {flow}",
            f"its clusters are {', '.join(aliases)}",
            f"Name two of them, for example -p 'flow={usual}', or leave it out for {usual}.",
        )
    return flow


def lab_aliases(root: Path, to_start: Sequence[str]) -> tuple[str, ...]:
    """The clusters of the lab that runs in `root`; `to_start`, which it will have, where none runs."""
    try:
        lab = Lab.attach(root)
    except UsageError:
        return tuple(to_start)
    return tuple(lab.clusters) if any(process.alive for process in lab.status()) else tuple(to_start)


def _listed(flows: Sequence[Flow]) -> str:
    rest = len(flows) - SHOWN
    shown = ", ".join(map(str, flows[:SHOWN])) or "none"
    return f"{shown} and {rest} more" if rest > 0 else shown


def _name_one(usable: Sequence[Flow], command: str, name_it: str, otherwise: str = "Set 'A->B.enabled = true'") -> str:
    if not usable:
        return f"{otherwise}."
    return f"Name one: {command} {name_it.format(usable[0])}"
