"""`drlib doctor FILE --rights`: the minimal rights of each role as `kafka-acls.sh` commands. No cluster is asked."""

from collections.abc import Mapping
from pathlib import Path

from drlib.drill.readiness.required_rights import Role
from drlib.outgoing.terminal import show


def print_rights(file: Path, flow: str | None, role: Role | None, principals: Mapping[Role, str | None]) -> None:
    """Print what every role, or `role` alone, needs for the enabled flows of `file`, or for `flow`. Raises `UsageError`."""
    from drlib.config.settings import load_mirror_settings
    from drlib.drill.readiness.required_rights import flows_of, lines, required_rights
    from drlib.model import Flow

    settings = load_mirror_settings(file)
    for chosen in flows_of(settings, Flow.parse(flow) if flow is not None else None):
        for each in Role if role is None else (role,):
            for line in lines(required_rights(settings, chosen, each), settings.clusters, principals.get(each) or ""):
                show(line)
