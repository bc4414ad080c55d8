"""Findings about the topics that producers write to after a failover: do they exist on the target, as on the source?

Rules: a missing topic or right is a warning and not critical, because the step `topics.create` of a failover creates it before
the pointer moves, if it may; producers wait meanwhile. Settings are compared as they apply, wherever they are set. What cannot
be read is unknown, in a finding of its own. Where mirrors keep their names there is nothing to check, and the evidence says so.
"""

from collections.abc import Iterator
from typing import Final

from drlib.drill.readiness.checks.objectives import CheckContext, Judgements, count, passed
from drlib.drill.readiness.checks.observations import ProducerTopics, Unanswered, available
from drlib.drill.readiness.score import Severity
from drlib.errors import DrlibError
from drlib.formats import first_few
from drlib.kafka.admin.descriptions import ConfigValue, Quota

COMPARED: Final = ("cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas", "max.message.bytes")


def producer_topics(both: ProducerTopics, flow: str, context: CheckContext) -> Judgements:
    """Can the producers of the source's topics write to topics of the same names on the target?"""
    if both.names is None:
        return passed("mirror topics have the names of their sources: there is no other topic to write to")
    rows: Judgements = [row for name in both.names for row in _topic(both, name, flow, context)]
    if isinstance(both.locked_out, Unanswered):
        rows.append(("ACLs", Severity.UNKNOWN, both.locked_out.why, both.locked_out.fix))
    if isinstance(both.quotas, Unanswered):
        rows.append(("quotas", Severity.UNKNOWN, both.quotas.why, both.quotas.fix))
    else:
        rows += [_quota(quota, limit, context) for quota, limit in both.quotas]
    if not rows and not both.names:
        return passed("no topic is mirrored, so none is written to after a failover")
    return rows or passed(
        f"{count(len(both.names), 'topic')} exist on the target, with settings, ACLs and quotas to write"
    )


def _topic(both: ProducerTopics, name: str, flow: str, context: CheckContext) -> Judgements:
    wanted = len(both.source[name].partitions)
    if not available(both.target, name):
        options = ("--create", "--topic", name, "--partitions", str(wanted), *_settings_to_set(both, name))
        fix = f"Set {flow}.drlib.sync.local.topics.enabled = true; or: " + context.tool(
            "kafka-topics", context.target, *options
        )
        why = "it does not exist on the target, so that its producers cannot write there after a failover"
        return [(name, Severity.WARN, why, fix)]
    rows: Judgements = []
    existing = len(both.target[name].partitions)
    if existing < wanted:
        options = ("--alter", "--topic", name, "--partitions", str(wanted))
        why = f"{count(existing, 'partition')} on the target, {wanted} on the source: keys would go to other partitions"
        rows.append((name, Severity.WARN, why, context.tool("kafka-topics", context.target, *options)))
    rows += _settings(both, name, context)
    if not isinstance(both.locked_out, Unanswered) and (principals := both.locked_out.get(name, ())):
        options = ("--add", *(word for p in principals for word in ("--allow-principal", p)))
        fix = context.tool("kafka-acls", context.target, *options, "--operation", "Write", "--topic", name)
        why = f"no ACL of the target lets {first_few(principals)} write to it"
        rows.append((name, Severity.WARN, why, fix))
    return rows


def _settings(both: ProducerTopics, name: str, context: CheckContext) -> Judgements:
    source, target = both.source_settings.get(name, ()), both.target_settings.get(name, ())
    for answer in (source, target):
        if isinstance(answer, DrlibError):
            return [(name, Severity.UNKNOWN, f"{answer.what}: {answer.why}", answer.remedy)]
    assert not isinstance(source, DrlibError)
    assert not isinstance(target, DrlibError)
    here, there = dict(_values(source)), dict(_values(target))
    differing = {key: here[key] for key in COMPARED if key in here and key in there and here[key] != there[key]}
    if not differing:
        return []
    listed = ",".join(f"{key}=[{value}]" if "," in value else f"{key}={value}" for key, value in differing.items())
    options = ("--entity-type", "topics", "--entity-name", name, "--alter", "--add-config", listed)
    why = "as on the source it would have " + first_few(
        f"{key}: {there[key]} -> {value}" for key, value in differing.items()
    )
    return [(name, Severity.WARN, why, context.tool("kafka-configs", context.target, *options))]


def _settings_to_set(both: ProducerTopics, name: str) -> list[str]:
    """The options of kafka-topics.sh for a new topic."""
    source = both.source_settings.get(name, ())
    values = {} if isinstance(source, DrlibError) else dict(_values(source))
    return [word for key in COMPARED if key in values for word in ("--config", f"{key}={values[key]}")]


def _values(settings: tuple[ConfigValue, ...]) -> Iterator[tuple[str, str]]:
    return ((each.name, each.value) for each in settings if each.value is not None)


def _quota(quota: Quota, limit: float | None, context: CheckContext) -> tuple[str, Severity, str, str]:
    who = ", ".join(f"{kind} {name or '(default)'}" for kind, name in quota.entity)
    there = (
        "has no such quota, so that the defaults of the target apply" if limit is None else f"allows {limit:,.0f} B/s"
    )
    words = [
        word
        for kind, name in quota.entity
        for word in (
            "--entity-type",
            "users" if kind == "user" else "clients",
            *(("--entity-name", name) if name else ("--entity-default",)),
        )
    ]
    options = (*words, "--alter", "--add-config", f"producer_byte_rate={quota.bytes_per_s:.0f}")
    why = f"producers of {who} may write {quota.bytes_per_s:,.0f} B/s on the source, and the target {there}"
    return (who, Severity.WARN, why, context.tool("kafka-configs", context.target, *options))
