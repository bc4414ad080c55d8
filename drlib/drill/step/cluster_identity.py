"""Which cluster a step is about: the ID it was formatted with, as it answers now.

Rules: a plan is for the cluster it was made on, wherever an alias or an address leads by then; so the ID is a fact of the
plan, and what is typed before something is destroyed.
"""

from drlib.drill.plan.plan import Fact
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings


def cluster_id(cluster: ClusterSettings) -> str:
    """Asked over a handle of its own. Raises `Unreachable`."""
    with Cluster(cluster) as admin:
        return admin.cluster_id()


def identity(cluster: ClusterSettings) -> Fact:
    """Raises `Unreachable`."""
    return identified(cluster.alias, cluster_id(cluster))


def identified(alias: str, its_id: str) -> Fact:
    """The fact of a cluster whose ID is known."""
    return Fact(f"ID of cluster {alias}", its_id)
