"""The configuration of a client of a lab, for applications and checkers that get an address or a cluster's settings.

Rules: a plain address is of a listener without security; settings keep secrets as references until a client is made.
Not for: clients other than librdkafka's.
"""

from collections.abc import Mapping

from drlib.kafka.security.cluster_settings import ClusterSettings

Where = str | ClusterSettings  # bootstrap.servers without security, or with it


def connection(where: Where) -> Mapping[str, object]:
    """librdkafka's configuration for `where`, secrets resolved now: for a client only. Raises `UsageError`."""
    if isinstance(where, str):
        return {"bootstrap.servers": where}
    from drlib.kafka.admin.connect import librdkafka

    return librdkafka(where)
