"""What the lab's link carries is what the formulas say of it, within what a busy machine takes away."""

from __future__ import annotations

import pytest

from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import Lab
from drlib.lab.link.sizing import KIB, LinkSpec, ours, sequential
from drlib.lab.link_trial import LinkTrial


@pytest.mark.long
def test_link_trial_sequential_clients_match_prediction_and_mirror_is_faster(lab: Lab) -> None:
    link = LinkSpec(8e6, 0.1)
    with LinkTrial(lab, link, partitions=2, megabytes=16) as trial:
        waits = trial.waiting(64 * KIB)
        two = trial.waiting(64 * KIB, 2)
        mirrored = trial.mirrored(1, 2)
    alone = sequential(link, 64 * KIB)
    assert 0.5 * alone < waits.rate < 1.1 * alone
    assert 1.5 * waits.rate < two.rate < 2.2 * alone
    assert 4 * waits.rate < mirrored.rate < 1.1 * ours(link)[0]
    assert all(not state.requests.delay_ms and not state.responses.bandwidth for state in lab.proxy.links())
    assert not any(one.name.startswith("trial-") and one.alive for one in lab.status())
    for cluster in lab.clusters.values():
        with Cluster(cluster.settings()) as handle:
            assert not [name for name in handle.topics() if trial.topic.split("-")[1] in name]
