"""Which rights a flow needs at its start, and what a refused lane says is missing."""

from pathlib import Path

import pytest

from drlib.config.settings import load_mirror_settings
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED, BrokerError
from drlib.mirror.preflight.checks import OWN_JOURNAL, READ_SOURCE, Grants, start_rights
from drlib.mirror.preflight.required_acls import Right

FILE = """\
clusters = paris, lyon
paris.bootstrap.servers = p:1
lyon.bootstrap.servers = l:1
paris->lyon.enabled = true
"""


@pytest.mark.parametrize(
    ("topic", "named", "server"),
    [
        ("mm2-offsets.paris.internal", "--operation Read --topic mm2-offsets.paris.internal", "l:1"),
        ("mm2-offset-syncs.lyon.internal", "--operation Read --topic mm2-offset-syncs.lyon.internal", "p:1"),
        ("", "--topic journal", "l:1"),
        ("orders", "--topic journal", "l:1"),
    ],
)
def test_refused_topic_of_mirrormaker_is_named_instead_of_the_journal(
    tmp_path: Path, topic: str, named: str, server: str
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    settings = load_mirror_settings(path)
    grants = Grants(settings.flow("paris", "lyon"), settings.clusters["paris"], settings.clusters["lyon"])
    refused = BrokerError(TOPIC_AUTHORIZATION_FAILED, "looking up", topics=[topic] if topic else [])
    remedy = grants.refused(refused, "journal").remedy
    assert named in remedy
    assert f"--bootstrap-server {server} " in remedy


NAMES = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
PAIR = f"{FILE}{NAMES}lyon->paris.enabled = true\n"
RING = (
    FILE.replace("paris, lyon", "paris, lyon, nice") + f"{NAMES}nice.bootstrap.servers = n:1\n"
    "lyon->nice.enabled = true\nnice->paris.enabled = true\n"
)


@pytest.mark.parametrize(
    ("file", "read", "own"),
    [
        (FILE, (), ("__drlib-journal.paris.internal",)),
        (FILE + NAMES, (), ("__drlib-journal.paris.internal",)),
        (PAIR, ("__drlib-journal.lyon.internal",), ("__drlib-journal.paris.internal",)),
        (
            RING,
            ("__drlib-journal.nice.internal", "__drlib-relay.nice.1.internal"),
            ("__drlib-journal.paris.internal", "__drlib-relay.paris.1.internal"),
        ),
    ],
)
def test_flow_needs_its_own_journals_and_those_that_say_what_are_copies_on_its_source(
    tmp_path: Path, file: str, read: tuple[str, ...], own: tuple[str, ...]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(file)
    settings = load_mirror_settings(path)
    found = start_rights(settings.flow("paris", "lyon"), settings.flows)
    assert found.source == tuple(Right("topic", name, READ_SOURCE) for name in read)
    journals = [right for right in found.target if right.name.startswith("__drlib-")]
    assert journals == [Right("topic", name, OWN_JOURNAL) for name in own]
    others = {right.name for right in found.target} - set(own)
    assert others == {"paris.checkpoints.internal", "heartbeats", "drlib-paris-lyon"}


def test_lane_that_may_not_read_the_journal_of_the_flow_back_names_it(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(PAIR)
    settings = load_mirror_settings(path)
    clusters = settings.clusters["paris"], settings.clusters["lyon"]
    grants = Grants(settings.flow("paris", "lyon"), *clusters, settings.flows)
    journal = "__drlib-journal.lyon.internal"
    refused = BrokerError(TOPIC_AUTHORIZATION_FAILED, "looking up", topics=[journal])
    remedy = grants.refused(refused, "journal").remedy
    assert f"--operation Read --topic {journal}" in remedy
    assert "--bootstrap-server p:1 " in remedy
