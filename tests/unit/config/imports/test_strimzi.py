"""Strimzi's resources as properties files, whole: its own examples of both forms, and what has no counterpart."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.config.imports import import_files
from drlib.config.settings import load_mirror_settings
from drlib.errors import UsageError

SCRAM = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaUser
metadata: {name: cluster-a-user}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata:
  name: my-mirror-maker-2
spec:
  version: 4.3.1
  replicas: 1
  target:
    alias: cluster-b
    bootstrapServers: cluster-b-kafka-bootstrap:9093
    groupId: my-mirror-maker-2-group
    configStorageTopic: my-mirror-maker-2-config
    offsetStorageTopic: my-mirror-maker-2-offset
    statusStorageTopic: my-mirror-maker-2-status
    tls:
      trustedCertificates:
        - secretName: cluster-b-cluster-ca-cert
          pattern: "*.crt"
    authentication:
      type: scram-sha-512
      username: cluster-b-user
      passwordSecret:
        secretName: cluster-b-user
        password: password
    config:
      # -1 means it will use the default replication factor configured in the broker
      config.storage.replication.factor: -1
  mirrors:
    - source:
        alias: cluster-a
        bootstrapServers: cluster-a-kafka-bootstrap:9093
        tls:
          trustedCertificates:
            - secretName: cluster-a-cluster-ca-cert
              pattern: "*.crt"
        authentication:
          type: scram-sha-512
          username: cluster-a-user
          passwordSecret:
            secretName: cluster-a-user
            password: password
      sourceConnector:
        tasksMax: 1
        config:
          replication.factor: -1
          offset-syncs.topic.replication.factor: -1
          sync.topic.acls.enabled: "false"
          refresh.topics.interval.seconds: 600
          offset.lag.max: 100
      checkpointConnector:
        tasksMax: 1
        config:
          checkpoints.topic.replication.factor: -1
          sync.group.offsets.enabled: "true"
          emit.checkpoints.interval.seconds: 60
          refresh.groups.interval.seconds: 600
      topicsPattern: ".*"
      groupsPattern: ".*"
"""

SCRAM_LOGIN = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="cluster-{0}-user" password="${{env:CLUSTER_{1}_PASSWORD}}";'
)
SCRAM_FILE = rf"""clusters = cluster-a, cluster-b
cluster-a.bootstrap.servers = cluster-a-kafka-bootstrap:9093
cluster-a.security.protocol = SASL_SSL
# put *.crt of Secret cluster-a-cluster-ca-cert into this file
cluster-a.ssl.truststore.location = /etc/drlib/certificates/cluster-a/ca.pem
cluster-a.ssl.truststore.type = PEM
cluster-a.sasl.mechanism = SCRAM-SHA-512
# export CLUSTER_A_PASSWORD: password of Secret cluster-a-user
cluster-a.sasl.jaas.config = {SCRAM_LOGIN.format("a", "A")}
cluster-b.bootstrap.servers = cluster-b-kafka-bootstrap:9093
cluster-b.security.protocol = SASL_SSL
# put *.crt of Secret cluster-b-cluster-ca-cert into this file
cluster-b.ssl.truststore.location = /etc/drlib/certificates/cluster-b/ca.pem
cluster-b.ssl.truststore.type = PEM
cluster-b.sasl.mechanism = SCRAM-SHA-512
# export CLUSTER_B_PASSWORD: password of Secret cluster-b-user
cluster-b.sasl.jaas.config = {SCRAM_LOGIN.format("b", "B")}
emit.heartbeats.enabled = false
cluster-a->cluster-b.topics = .*
cluster-a->cluster-b.groups = .*
cluster-a->cluster-b.enabled = true
cluster-a->cluster-b.replication.factor = -1
cluster-a->cluster-b.offset-syncs.topic.replication.factor = -1
cluster-a->cluster-b.sync.topic.acls.enabled = false
cluster-a->cluster-b.refresh.topics.interval.seconds = 600
cluster-a->cluster-b.offset.lag.max = 100
cluster-a->cluster-b.checkpoints.topic.replication.factor = -1
cluster-a->cluster-b.sync.group.offsets.enabled = true
cluster-a->cluster-b.emit.checkpoints.interval.seconds = 60
cluster-a->cluster-b.refresh.groups.interval.seconds = 600
cluster-a->cluster-b.emit.heartbeats.enabled = false
cluster-b.drlib.takeover.group = my-mirror-maker-2-group
cluster-b.offset.storage.topic = my-mirror-maker-2-offset
cluster-b.config.storage.topic = my-mirror-maker-2-config
"""

FORMER = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: m}
spec:
  connectCluster: west
  rack: {topologyKey: topology.kubernetes.io/zone}
  clusters:
  - alias: east
    bootstrapServers: east:9092
    authentication:
      type: tls
      certificateAndKey: {secretName: east-user, certificate: user.crt, key: user.key}
    tls:
      trustedCertificates:
      - {secretName: east-ca, certificate: ca.crt}
      - {secretName: other-ca, certificate: ca.crt}
  - alias: west
    bootstrapServers: west:9092
    surprise: 1
  mirrors:
  - sourceCluster: east
    targetCluster: west
    sourceConnector:
      autoRestart: {enabled: true}
      config:
        producer.override.linger.ms: 100
        consumer.auto.offset.reset: latest
        my.own.key: x
    heartbeatConnector:
      config:
        heartbeats.topic.replication.factor: 1
    topicsBlacklistPattern: "tmp.*"
"""

FORMER_FILE = """clusters = east, west
east.bootstrap.servers = east:9092
east.security.protocol = SSL
# put ca.crt of Secret east-ca and ca.crt of Secret other-ca into this file
east.ssl.truststore.location = /etc/drlib/certificates/east/ca.pem
east.ssl.truststore.type = PEM
# export EAST_CERTIFICATE: user.crt of Secret east-user
east.ssl.keystore.certificate.chain = ${env:EAST_CERTIFICATE}
# export EAST_KEY: user.key of Secret east-user
east.ssl.keystore.key = ${env:EAST_KEY}
east.ssl.keystore.type = PEM
west.bootstrap.servers = west:9092
emit.heartbeats.enabled = false
east->west.topics.exclude = tmp.*
east->west.enabled = true
east->west.consumer.auto.offset.reset = latest
east->west.emit.checkpoints.enabled = false
east->west.sync.group.offsets.enabled = false
east->west.emit.heartbeats.enabled = true
east->west.heartbeats.topic.replication.factor = 1
west.drlib.takeover.group = mirrormaker2-cluster
west.offset.storage.topic = mirrormaker2-cluster-offsets
west.config.storage.topic = mirrormaker2-cluster-configs
"""


def converted(tmp_path: Path, text: str) -> tuple[str, list[str]]:
    path = tmp_path / "mirror.yaml"
    path.write_text(text)
    file = import_files([path])
    made = tmp_path / "mm2.properties"
    made.write_text(file.text())
    load_mirror_settings_leniently(made)
    return made.read_text(), [line.replace(f"{path}.spec.", "") for line in file.left_out]


def load_mirror_settings_leniently(path: Path) -> None:
    """References are resolved where they are used, so the file loads without them."""
    load_mirror_settings(path)


def test_strimzi_example_with_scram_is_converted_whole(tmp_path: Path) -> None:
    text, left_out = converted(tmp_path, SCRAM)
    assert text == SCRAM_FILE
    assert [line.split(":")[0] for line in left_out] == [
        "target.config.config.storage.replication.factor",
        "mirrors[0].sourceConnector.tasksMax",
        "mirrors[0].checkpointConnector.tasksMax",
        "version",
        "replicas",
    ]


def test_strimzi_former_version_is_converted_and_the_rest_is_named(tmp_path: Path) -> None:
    text, left_out = converted(tmp_path, FORMER)
    assert text == FORMER_FILE
    assert [line.split(":")[0] for line in left_out] == [
        "clusters[1].surprise",
        "mirrors[0].sourceConnector.autoRestart",
        "mirrors[0].sourceConnector.config.producer.override.linger.ms",
        "mirrors[0].sourceConnector.config.my.own.key",
        "rack",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SCRAM + "---" + SCRAM, "2 resources"),
        (SCRAM.replace("    alias: cluster-b\n", ""), "spec.target.alias is missing"),
        (SCRAM.replace("config:\n          replication", "config: 5\n        r:\n          r"), "config cannot be used"),
        (SCRAM.replace("  replicas: 1", "  replicas: 1\n  replicas: 2"), "set twice"),
        (SCRAM.replace("  version: 4.3.1", "  version: [[["), "cannot be read as YAML"),
        (SCRAM.replace("kind: KafkaMirrorMaker2", "kind: KafkaConnect"), "0 resources"),
        (FORMER.replace("targetCluster: ", "targetCluster: no-"), "its targetCluster is not one of the clusters"),
        (SCRAM.replace("secretName: cluster-a-user", "name: cluster-a-user"), "passwordSecret.secretName is missing"),
    ],
)  # fmt: skip
def test_strimzi_file_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        converted(tmp_path, text)
    assert why in str(refused.value)
