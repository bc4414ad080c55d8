"""Why a secured cluster cannot be used, asked over our own connection, since librdkafka only goes on trying.

Rules: one connection, one login, nothing changed on the cluster; only a `SecurityFault` or a setting that cannot be used is
told, as whether the cluster answers at all is for the call itself to find out.
Not for: rights on topics and groups, which each call meets by itself.
"""

from __future__ import annotations

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import SecurityFault


def explain_refusal(cluster: ClusterSettings, timeout_s: float) -> SecurityFault | None:
    """What stands between us and `cluster`, None when TLS and login work or nobody answers within `timeout_s`."""
    return blocking(_ask(cluster, timeout_s))


async def _ask(cluster: ClusterSettings, timeout_s: float) -> SecurityFault | None:
    client = wire_client(cluster, client_id="drlib-preflight", timeout_s=timeout_s)
    try:
        await client.connect()
    except SecurityFault as found:
        return found
    except (Unreachable, DrlibError, TimeoutError):
        return None
    finally:
        await client.close()
    return None
