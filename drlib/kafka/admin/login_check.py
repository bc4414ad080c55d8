"""Find out why TLS or the login of a cluster fails, over drlib's own connection: librdkafka retries without a reason.

Rules: one connection, one login, nothing is changed on the cluster. Only a `SecurityFault` or an invalid setting is reported;
a cluster that does not answer is left to the call itself.
Not for: rights on topics and groups, which each call reports itself.
"""

from __future__ import annotations

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault


def explain_refusal(cluster: ClusterSettings, timeout_s: float) -> SecurityFault | None:
    """Why `cluster` refuses drlib; None when TLS and login work, or when it does not answer within `timeout_s`."""
    return blocking(_ask(cluster, timeout_s))


async def _ask(cluster: ClusterSettings, timeout_s: float) -> SecurityFault | None:
    client = wire_client(cluster, client_id="drlib-preflight", timeout_s=timeout_s)
    try:
        await client.connect()
    except SecurityFault as fault:
        return fault
    except (Unreachable, DrlibError, TimeoutError):
        return None
    finally:
        await client.close()
    return None
