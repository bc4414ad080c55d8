"""The roles of a secured lab: a properties file for each, and exactly the rights that `drlib doctor --rights` prints.

Rules: rights are granted for both directions of the flow between the lab's first two clusters, each as its drills enable it.
A lab whose brokers cannot tell clients apart has no roles. Granting again changes nothing. No file holds a secret.
Not for: what a role needs (`drlib.drill.readiness.required_rights`).
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.required_rights import required_rights
from drlib.drill.readiness.role import Role
from drlib.lab.brokers.acls import grant, grant_application
from drlib.lab.brokers.cluster import Cluster as LabCluster
from drlib.lab.lab import Lab
from drlib.mirror.preflight.required_acls import Right
from drlib.model import Flow


def prepare_users(lab: Lab) -> Mapping[Role, Path]:
    """Write the files of all users of a secured lab, and grant each role its rights. Returns the roles' files."""
    for user in lab.users:
        lab.client_file(user)
    if not lab.operator:
        return {}
    files = {Role.MIRROR: lab.write_properties()}
    for role in (Role.DRILL, Role.DOCTOR, Role.AUDIT):
        files[role] = lab.write_properties(lab.root / f"{role}.properties", user=role)
    flow = Flow(*lab.aliases[:2])
    grant_roles(files, flow, lab.clusters)
    way_back = lab.write_properties(lab.root / "way-back.properties", **_way_back(flow))
    grant_roles(dict.fromkeys(files, way_back), flow, lab.clusters)
    way_back.unlink()
    for cluster in lab.clusters.values():
        grant_application(cluster)
    return files


def _way_back(flow: Flow) -> dict[str, str]:
    """What the file of a lab's drill has after it failed over: the opposite mirror, which emits heartbeats, too."""
    return {f"{flow}.enabled": "false", f"{flow.reverse}.enabled": "true"}


def grant_roles(files: Mapping[Role, Path], flow: Flow, clusters: Mapping[str, LabCluster]) -> None:
    """Grant each role what it needs for `flow` and its reverse; `clusters` by the aliases of its file.

    Raises `KafkaException`.
    """
    for role, file in files.items():
        settings = load_mirror_settings(file)
        wanted: dict[str, list[Right]] = defaultdict(list)
        for each in (flow, flow.reverse):
            for granted in required_rights(settings, settings.flow(each.source, each.target), role).grants:
                wanted[granted.alias].append(granted.right)
        for alias, rights in wanted.items():
            grant(clusters[alias], role, rights)
