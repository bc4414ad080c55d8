"""The roles of a secured lab: a properties file for each, and exactly the rights that `drlib doctor --rights` prints.

Rules: rights are granted for both directions of the flow between the lab's first two clusters. A lab whose brokers cannot tell
clients apart has no roles. Granting again changes nothing. No file holds a secret.
Not for: what a role needs (`drlib.drill.readiness.required_rights`).
"""

from collections.abc import Mapping
from pathlib import Path

from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.required_rights import required_rights
from drlib.drill.readiness.role import Role
from drlib.lab.brokers.acls import grant, grant_application
from drlib.lab.lab import Lab


def prepare_users(lab: Lab) -> Mapping[Role, Path]:
    """Write the files of all users of a secured lab, and grant each role its rights. Returns the roles' files."""
    for user in lab.users:
        lab.client_file(user)
    if not lab.operator:
        return {}
    files = {Role.MIRROR: lab.write_properties()}
    for role in (Role.DRILL, Role.DOCTOR, Role.AUDIT):
        files[role] = lab.write_properties(lab.root / f"{role}.properties", user=role)
    grant_roles(lab, files)
    for cluster in lab.clusters.values():
        grant_application(cluster)
    return files


def grant_roles(lab: Lab, files: Mapping[Role, Path]) -> None:
    """Grant each role what it needs for the flows of its file. Raises `KafkaException`."""
    source, target = lab.aliases[:2]
    for role, file in files.items():
        settings = load_mirror_settings(file)
        for pair in ((source, target), (target, source)):
            for granted in required_rights(settings, settings.flow(*pair), role).grants:
                grant(lab.clusters[granted.alias], role, [granted.right])
