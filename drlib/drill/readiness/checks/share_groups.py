"""Findings about share groups: what they would get again after a failover now, and where they would begin without a position.

Rules: what was acknowledged behind a start offset and cannot be written on the target is a warning, with the number of records;
so are settings of a group that differ, as they decide what its consumers get. A group that cannot be
described is unknown, and one of which a partition is not known. Nothing is said where the source has no share groups.
"""

from drlib.drill.readiness.checks.objectives import CheckContext, Judgements, count
from drlib.drill.readiness.checks.observations import SharesObserved
from drlib.drill.readiness.score import Severity
from drlib.formats import first_few
from drlib.kafka.share_groups.names import SETTINGS, STATE_TOPIC


def share_groups(seen: SharesObserved, target: str, context: CheckContext) -> Judgements:
    """The rows; empty where nothing is wrong. `target`: its alias."""
    rows: Judgements = []
    for group, why in seen.refused:
        fix = context.tool("kafka-acls", context.source, "--add", "--allow-principal", "User:PRINCIPAL",
                           "--operation", "Describe", "--group", group)  # fmt: skip
        rows.append((named(group), Severity.UNKNOWN, why, f"Grant Describe on the group: {fix}"))
    rows += [(named(group), Severity.UNKNOWN, why, remedy) for group, why, remedy in seen.unread]
    if seen.groups and not seen.supported:
        many = count(len(seen.groups), "share group")
        why = f"the brokers of {target} do not know share groups: {many} cannot be used there"
        rows.append(("share groups", Severity.WARN, why, f"Upgrade {target} to Kafka 4.2 or newer."))
        return rows
    if seen.states_refused:
        fix = context.tool("kafka-acls", context.source, "--add", "--allow-principal", "User:PRINCIPAL",
                           "--operation", "Read", "--topic", STATE_TOPIC)  # fmt: skip
        why = f"which records share groups acknowledged may not be read, so they are delivered again: {seen.states_refused}"
        rows.append(("share groups", Severity.WARN, why, f"Grant Read on {STATE_TOPIC}: {fix}"))
    elif not seen.may_write:
        for each in seen.groups:
            if each.acknowledged:
                why = f"{count(each.acknowledged, 'record')} that it acknowledged behind its start offsets would be delivered "
                why += f"again: this user has no ClusterAction on {target}"
                fix = "See docs/clients.md#share-groups for what that right is."
                rows.append((named(each.group), Severity.WARN, why, fix))
    for each in seen.groups:
        other = [key for key in SETTINGS if key in each.here and each.there.get(key, each.here[key]) != each.here[key]]
        if other:
            said = (f"{key} is {each.here[key]} on the source and {each.there[key]} on the target" for key in other)
            decide = first_few(f"{key} decides {SETTINGS[key]}" for key in other)
            copied = ",".join(f"{key}={each.here[key]}" for key in other)
            options = ("--alter", "--entity-type", "groups", "--entity-name", each.group, "--add-config", copied)
            why = f"{'; '.join(said)}: {decide}"
            rows.append(
                (named(each.group), Severity.WARN, why, context.tool("kafka-configs", context.target, *options))
            )
    return rows


def named(group: str) -> str:
    """How a finding calls a share group."""
    return f"{group} (share group)"
