"""Connectors of Kafka Connect as properties files, whole; secrets, conflicts and what has no counterpart."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_text import HOSTILE

from drlib.config.imports import import_files
from drlib.config.imports.properties_text import MirrorFile
from drlib.errors import UsageError
from drlib.files import MOST_BYTES
from drlib.kafka.java_formats.properties import parse

NAMES = {name: text for name, text in HOSTILE.items() if name != "lone surrogate"}
PACKAGE = "org.apache.kafka.connect.mirror."
CLUSTERS = {
    "source.cluster.alias": "east",
    "target.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "east-1:9093,east-2:9093",
    "source.cluster.security.protocol": "SASL_SSL",
    "source.cluster.sasl.mechanism": "PLAIN",
    "source.cluster.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="mirror" password="hush";',
    "source.cluster.ssl.truststore.location": "/certs/east.p12",
    "source.cluster.ssl.truststore.password": "${file:/opt/connect/secrets.properties:east.truststore}",
    "target.cluster.bootstrap.servers": "west-1:9092",
}
SOURCE = {
    "name": "mirror-source",
    "connector.class": f"{PACKAGE}MirrorSourceConnector",
    "tasks.max": "12",
    **CLUSTERS,
    "topics": "orders.*, payments",
    "replication.factor": 3,
    "sync.topic.acls.enabled": False,
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "consumer.auto.offset.reset": "latest",
    "producer.override.batch.size": "500000",
    "transforms": "drop",
}
CHECKPOINT = {
    "connector.class": f"{PACKAGE}MirrorCheckpointConnector",
    **CLUSTERS,
    "topics": "orders.*",
    "groups": "billing",
    "sync.group.offsets.enabled": "true",
}
HEARTBEAT = {"connector.class": f"{PACKAGE}MirrorHeartbeatConnector", **CLUSTERS, "emit.heartbeats.interval.seconds": 5}

FILE = r"""clusters = east, west
east.bootstrap.servers = east-1:9093,east-2:9093
east.security.protocol = SASL_SSL
east.sasl.mechanism = PLAIN
# export EAST_SASL_JAAS_CONFIG: the value of SOURCE.config.source.cluster.sasl.jaas.config
east.sasl.jaas.config = ${env:EAST_SASL_JAAS_CONFIG}
east.ssl.truststore.location = /certs/east.p12
east.ssl.truststore.password = ${file:/opt/connect/secrets.properties:east.truststore}
west.bootstrap.servers = west-1:9092
emit.heartbeats.enabled = false
east->west.enabled = true
east->west.topics = orders.*, payments
east->west.replication.factor = 3
east->west.sync.topic.acls.enabled = false
east->west.consumer.auto.offset.reset = latest
east->west.groups = billing
east->west.sync.group.offsets.enabled = true
east->west.emit.heartbeats.enabled = true
east->west.emit.heartbeats.interval.seconds = 5
"""


def write(tmp_path: Path, *documents: object) -> list[Path]:
    paths = [tmp_path / f"{number}.json" for number in range(len(documents))]
    for path, document in zip(paths, documents, strict=True):
        path.write_text(json.dumps(document))
    return paths


def test_three_connectors_are_one_file(tmp_path: Path) -> None:
    paths = write(
        tmp_path, {"name": "mirror-source", "config": SOURCE}, CHECKPOINT, {"name": "beats", "config": HEARTBEAT}
    )
    file = import_files(paths)
    assert file.text().replace(str(paths[0]), "SOURCE") == FILE
    named = [line.replace(f"{paths[0]}.config.", "").replace(f"{paths[1]}.", "checkpoint ") for line in file.left_out]
    assert [line.split(": ")[0] for line in named[:-1]] == [
        "tasks.max",
        "value.converter",
        "producer.override.batch.size",
        "transforms",
        "checkpoint topics",
    ]
    assert "west.drlib.takeover.group" in named[-1]


@pytest.mark.parametrize("expand", [False, True])
def test_connectors_of_one_document_and_of_connects_own_answer(tmp_path: Path, expand: bool) -> None:
    expanded = {c["connector.class"]: {"info": {"name": "x", "config": c}} for c in (SOURCE, CHECKPOINT, HEARTBEAT)}
    file = import_files(write(tmp_path, expanded if expand else [SOURCE, CHECKPOINT, HEARTBEAT]))
    without_comment = [line for line in FILE.splitlines() if not line.startswith("#")]
    assert [line for line in file.text().splitlines() if not line.startswith("#")] == without_comment


def test_connector_that_is_missing_is_off(tmp_path: Path) -> None:
    text = import_files(write(tmp_path, SOURCE)).text()
    for key in ("emit.checkpoints.enabled", "sync.group.offsets.enabled", "emit.heartbeats.enabled"):
        assert f"east->west.{key} = false" in text
    assert "east->west.enabled = false" in import_files(write(tmp_path, CHECKPOINT)).text()


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ('Module required username="u" password="${file:/s:pw}";', True),
        ("Module required username=u password=${env:PW};", True),
        ('Module required username="${file:/s:user}" password="hush";', False),
        ('Module required password="${env:PW}" clientSecret="hush";', False),
        ("${vault:path:login}", True),
    ],
)
def test_login_is_kept_only_if_its_secrets_are_references(tmp_path: Path, value: str, kept: bool) -> None:
    file = import_files(write(tmp_path, {**SOURCE, "source.cluster.sasl.jaas.config": value}))
    text = file.text()
    assert "hush" not in text + "".join(file.left_out)
    assert ("EAST_SASL_JAAS_CONFIG" not in text) is kept
    assert any("drlib resolves ${env:NAME}" in line for line in file.left_out) is ("vault" in value)


def test_values_and_names_cannot_add_lines_to_the_file(tmp_path: Path) -> None:
    odd = "a\\b\nc = d\t\x1b[31m#!\U000e0001"
    text = import_files(write(tmp_path, {**SOURCE, "source.cluster.ssl.truststore.location": odd})).text()
    entry = parse(text, tmp_path).effective()["east.ssl.truststore.location"]
    assert entry.value == odd
    assert all(line.isprintable() for line in text.splitlines())
    with pytest.raises(UsageError):
        import_files(write(tmp_path, {**SOURCE, "source.cluster.alias": "east\nA->B.enabled = true"})).text()


def test_alias_that_would_be_lines_of_a_file_is_refused(tmp_path: Path) -> None:
    """Read as lines, these would be a whole mirror, with clusters that are valid."""
    alias = "west.bootstrap.servers = w:1\nclusters = east, west\neast->west.enabled = true\nrest"
    with pytest.raises(UsageError, match="alias"):
        import_files(write(tmp_path, {**SOURCE, "target.cluster.alias": alias})).text()


def test_half_of_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    file = MirrorFile()
    file.values |= {"clusters": "a, b", "a.bootstrap.servers": "a:1", "b.bootstrap.servers": "b:1", "x": "\ud800"}
    with pytest.raises(UsageError, match="surrogate"):
        file.text()


@pytest.mark.parametrize("text", NAMES.values(), ids=NAMES)
def test_hostile_keys_and_values_are_read_back_as_they_were(tmp_path: Path, text: str) -> None:
    file = MirrorFile()
    file.values |= {"clusters": "a, b", "a.bootstrap.servers": "a:1", "b.bootstrap.servers": "b:1"}
    file.values[f"{text}x.ssl.truststore.location"] = text
    file.values[f" {text}"] = f" {text}\t"
    file.values[f"#{text}"] = f"!{text}"
    written = "".join(file.lines())
    assert {entry.key: entry.value for entry in parse(written, tmp_path).entries} == file.values
    assert len(written.splitlines()) == len(file.values)
    assert all(line.isprintable() for line in written.splitlines())


ALIAS_BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be read as JSON"),
        ('{"a": 1, "a": 2}', "set twice"),
        ("[" * 100_000, "nested deeper than 64 levels"),
        ("", "is empty"),
        ("{}", "no connector"),
        (ALIAS_BOMB, "more than 100000 values, aliases expanded"),
        ("x" * (MOST_BYTES + 1), "larger than"),
        ('{"connector.class": "Other"}', "no connector of MirrorMaker 2"),
        (json.dumps({**SOURCE, "topics": ["a"]}), "topics cannot be used"),
        (
            json.dumps({k: v for k, v in SOURCE.items() if k != "source.cluster.alias"}),
            "source.cluster.alias is missing",
        ),
        (json.dumps({**SOURCE, "replication.factor": "many"}), "not a whole number"),
    ],
)
def test_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "input"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        import_files([path]).text()
    assert why in str(refused.value)
    assert "hush" not in str(refused.value)


def test_import_command_prints_the_file_and_names_the_rest_on_standard_error(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "drlib.cli", "config", "import", *map(str, write(tmp_path, SOURCE, CHECKPOINT))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("clusters = east, west\n")
    assert "tasks.max: parallelism is set by drlib.lanes" in done.stderr
    assert "hush" not in done.stdout + done.stderr


@pytest.mark.parametrize("text", ["clusters = A, B\nA->B.enabled = true\n", "clusters = A, B\nA.x = a: b\n"])
def test_properties_file_needs_no_import(tmp_path: Path, text: str) -> None:
    (tmp_path / "f.properties").write_text(text)
    with pytest.raises(UsageError) as refused:
        import_files([tmp_path / "f.properties"])
    assert refused.value.remedy == "A .properties file of MirrorMaker 2 needs no import: drlib mirror FILE."
