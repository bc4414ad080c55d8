"""The rights of each role, from a file alone."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

import pytest

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.actions.groups import rehearsal
from drlib.drill.readiness.required_rights import (
    DENY_WRITES,
    NEW_TOPICS,
    SHADOWS,
    flows_of,
    lines,
    required_rights,
)
from drlib.drill.readiness.role import Role
from drlib.errors import UsageError
from drlib.model import Flow

FILE = """\
clusters = paris, lyon
paris.bootstrap.servers = p:1
lyon.bootstrap.servers = l:1
paris->lyon.enabled = true
topics = orders.*
groups = billing
"""


def settings(folder: Path, *more: str, file: str = FILE) -> MirrorSettings:
    path = folder / "mm2.properties"
    path.write_text(file + "\n".join(more))
    return load_mirror_settings(path)


def rights(settings: MirrorSettings, role: Role) -> dict[tuple[str, str], set[str]]:
    """Operations by cluster and resource, those for some steps alone left out."""
    required = required_rights(settings, settings.flow("paris", "lyon"), role)
    found: dict[tuple[str, str], set[str]] = {}
    for grant in required.grants:
        if not grant.only:
            right = grant.right
            key = (grant.alias, f"{right.kind} {right.name}{'*' * right.prefixed}")
            assert key not in found, "one command for each resource"
            found[key] = {*right.operations}
    return found


def test_mirror_writes_nothing_but_syncs_and_heartbeats_to_the_source(tmp_path: Path) -> None:
    found = rights(settings(tmp_path), Role.MIRROR)
    writes = {resource for (alias, resource), operations in found.items() if alias == "paris" and "WRITE" in operations}
    assert writes == {"topic heartbeats", "topic mm2-offset-syncs.lyon.internal"}
    assert found["paris", "topic orders*"] == {"READ", "DESCRIBE_CONFIGS"}
    assert found["lyon", "transactional-id drlib.paris.lyon.*"] == {"WRITE"}


def test_mirror_lists_optional_rights_with_what_is_missing_without_them(tmp_path: Path) -> None:
    of_file = settings(tmp_path)
    printed = list(lines(required_rights(of_file, of_file.flow("paris", "lyon"), Role.MIRROR), of_file.clusters))
    (at,) = [
        n for n, line in enumerate(printed) if line.startswith("# on paris, for transactions.list alone, optional: ")
    ]
    assert "does not know which partitions a transaction has" in printed[at]
    assert "--operation Read --topic __transaction_state" in printed[at + 1]
    (at,) = [n for n, line in enumerate(printed) if "on paris, for a source without groups alone, optional: " in line]
    assert printed[at + 1].endswith("--operation Describe --cluster")
    (at,) = [n for n, line in enumerate(printed) if "for the checkpoints of former groups alone, optional: " in line]
    assert "--operation Read --topic paris.checkpoints.internal" in printed[at + 1]


def test_mirror_with_a_right_for_every_use_has_it_not_listed_apart(tmp_path: Path) -> None:
    of_file = settings(tmp_path, "sync.topic.acls.enabled = true")
    printed = list(lines(required_rights(of_file, of_file.flow("paris", "lyon"), Role.MIRROR), of_file.clusters))
    assert sum("p:1" in line and line.endswith("--operation Describe --cluster") for line in printed) == 1


def test_mirror_of_a_chain_may_mirror_the_heartbeats_that_it_brings(tmp_path: Path) -> None:
    """`tokyo->paris` brings its heartbeats to paris, where `paris->lyon` finds them, as MirrorMaker 2 does."""
    chain = FILE.replace("clusters = paris, lyon", "clusters = paris, lyon, tokyo\ntokyo.bootstrap.servers = t:1")
    found = rights(settings(tmp_path, "tokyo->paris.enabled = true", file=chain), Role.MIRROR)
    assert "READ" in found["paris", "topic tokyo.heartbeats"]
    assert {"CREATE", "WRITE"} <= found["lyon", "topic paris.tokyo.heartbeats"]
    assert "ALTER" not in found["lyon", "topic paris.tokyo.heartbeats"]
    apart = rights(settings(tmp_path, "paris->tokyo.enabled = true", file=chain), Role.MIRROR)
    assert not [key for key in apart if "tokyo.heartbeats" in key[1]]


def test_mirror_of_a_ring_has_rights_on_no_heartbeats_that_come_back(tmp_path: Path) -> None:
    ring = FILE + "lyon->paris.enabled = true\n"
    topics = {
        resource for _, resource in rights(settings(tmp_path, file=ring), Role.MIRROR) if "heartbeats" in resource
    }
    assert topics == {"topic heartbeats", "topic paris.heartbeats"}


def test_mirror_keys_of_the_file_add_and_remove_rights(tmp_path: Path) -> None:
    found = rights(settings(tmp_path, "sync.topic.configs.enabled = false"), Role.MIRROR)
    assert found["paris", "topic orders*"] == {
        "READ",
        "DESCRIBE_CONFIGS",
    }  # a mirror topic is created with its settings
    assert "ALTER_CONFIGS" not in found["lyon", "topic paris.orders*"]
    found = rights(
        settings(tmp_path, "sync.group.offsets.enabled = true", "sync.topic.acls.enabled = true"), Role.MIRROR
    )
    assert found["lyon", "group billing"] == {"READ"}
    assert found["lyon", "cluster "] == {"ALTER", "DESCRIBE_CONFIGS"}  # the former implies Describe


def test_identity_policy_keeps_names(tmp_path: Path) -> None:
    policy = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert "CREATE" in rights(settings(tmp_path, policy), Role.MIRROR)["lyon", "topic orders*"]


@pytest.mark.parametrize("role", [Role.DOCTOR, Role.AUDIT])
def test_reading_roles_change_nothing(tmp_path: Path, role: Role) -> None:
    allowed = {"READ", "DESCRIBE", "DESCRIBE_CONFIGS"}
    assert all(operations <= allowed for operations in rights(settings(tmp_path), role).values())


def test_audit_of_topics_that_both_directions_copy_reads_the_journals_that_say_which_records_are_copies(
    tmp_path: Path,
) -> None:
    both = (
        "lyon->paris.enabled = true",
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    journals = ("lyon", "topic __drlib-journal.paris.internal"), ("paris", "topic __drlib-journal.lyon.internal")
    assert [rights(settings(tmp_path, *both), Role.AUDIT)[each] for each in journals] == [{"READ"}, {"READ"}]
    assert not {*journals} & rights(settings(tmp_path), Role.AUDIT).keys()


def test_drill_may_do_what_the_doctor_may(tmp_path: Path) -> None:
    drill, doctor = (rights(settings(tmp_path), role) for role in (Role.DRILL, Role.DOCTOR))
    for resource, operations in doctor.items():
        implied = {"DESCRIBE"} if drill[resource] & {"READ", "WRITE"} else set()
        assert operations <= drill[resource] | implied, resource
    assert rehearsal.PREFIX == SHADOWS


def test_rights_of_some_steps_are_listed_apart(tmp_path: Path) -> None:
    made = settings(tmp_path)
    required = required_rights(made, made.flow("paris", "lyon"), Role.DRILL)
    alters = [grant for grant in required.grants if "ALTER" in grant.right.operations]
    assert [(grant.alias, grant.only) for grant in alters] == [("paris", DENY_WRITES), ("lyon", NEW_TOPICS)]
    printed = list(lines(required, made.clusters, "User:dr"))
    assert f"# on paris, for {DENY_WRITES} alone" in printed


def test_lines_are_comments_and_commands_for_the_principal(tmp_path: Path) -> None:
    made = settings(tmp_path, "paris.security.protocol = SASL_SSL", "paris.sasl.mechanism = PLAIN")
    required = required_rights(made, made.flow("paris", "lyon"), Role.AUDIT)
    commands = [shlex.split(line) for line in lines(required, made.clusters, "User:dr") if not line.startswith("#")]
    assert commands
    assert all(words[0] == "kafka-acls.sh" and "User:dr" in words and "--command-config" in words for words in commands)
    named = {(word, name) for words in commands for word, name in itertools.pairwise(words)}
    assert {each for each in named if each[0] == "--command-config"} == {
        ("--command-config", f"{alias}-admin.properties") for alias in ("paris", "lyon")
    }
    unknown = "\n".join(lines(required, made.clusters))
    assert "replace User:PRINCIPAL" in unknown
    assert "User:ANONYMOUS" in unknown  # lyon's listener has no login


def test_lines_have_one_command_for_all_resources_of_the_same_rights(tmp_path: Path) -> None:
    made = settings(tmp_path, file=FILE.replace("orders.*", "orders, payments, clicks.*, web.*"))
    required = required_rights(made, made.flow("paris", "lyon"), Role.AUDIT)
    commands = [line for line in lines(required, made.clusters) if line.startswith("kafka-acls.sh")]
    literal, prefixed = (
        each for each in commands if "--operation Read --operation DescribeConfigs" in each and "p:1" in each
    )
    assert literal.endswith("--topic orders --topic payments")
    assert prefixed.endswith("--topic clicks --topic web --resource-pattern-type prefixed")


def test_pattern_without_a_resource_is_a_note(tmp_path: Path) -> None:
    made = settings(tmp_path, file=FILE.replace("orders.*", "orders[12]"))
    required = required_rights(made, made.flow("paris", "lyon"), Role.MIRROR)
    assert required.notes == ("topics = orders[12]; grant it on each topic that matches",)
    assert list(lines(required, made.clusters))[-1].startswith("# not expressed: topics = orders[12]")


def test_flows_without_an_enabled_one_are_refused(tmp_path: Path) -> None:
    made = settings(tmp_path, file=FILE.replace("true", "false"))
    with pytest.raises(UsageError, match="enables no flow"):
        flows_of(made, None)
    assert [str(each.flow) for each in flows_of(made, Flow("lyon", "paris"))] == ["lyon->paris"]


def test_mirror_of_a_pair_reads_the_journal_of_the_flow_back(tmp_path: Path) -> None:
    names = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    found = rights(settings(tmp_path, names, "lyon->paris.enabled = true"), Role.MIRROR)
    assert found["paris", "topic __drlib-journal.lyon.internal"] == {"READ"}
    assert ("paris", "topic __drlib-journal.lyon.internal") not in rights(settings(tmp_path, names), Role.MIRROR)


def test_mirror_that_brings_positions_back_reads_what_was_settled(tmp_path: Path) -> None:
    """It does so by default in a pair whose flow back synchronizes groups."""
    pair = settings(tmp_path, "lyon->paris.enabled = true", "lyon->paris.sync.group.offsets.enabled = true")
    found = rights(pair, Role.MIRROR)
    assert found["lyon", "topic drlib.tails.internal"] == {"READ"}
    assert "READ" in found["paris", "group billing"]
    assert ("lyon", "topic drlib.tails.internal") not in rights(settings(tmp_path), Role.MIRROR)


def test_mirror_in_a_ring_has_the_rights_on_the_journals_of_relays(tmp_path: Path) -> None:
    file = FILE.replace("paris, lyon", "paris, lyon, nice") + "nice.bootstrap.servers = n:1\n"
    names = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    found = rights(
        settings(tmp_path, names, "lyon->nice.enabled = true", "nice->paris.enabled = true", file=file), Role.MIRROR
    )
    assert (
        found["lyon", "topic __drlib-relay.paris.1.internal"] == found["lyon", "topic __drlib-journal.paris.internal"]
    )
    incoming = [
        found["paris", f"topic {name}"] for name in ("__drlib-journal.nice.internal", "__drlib-relay.nice.1.internal")
    ]
    assert incoming == [{"READ"}, {"READ"}]
