"""What the file tells the clients of a flow: how its source is read, and how both clusters are connected to.

Rules: reading, `A->B.source.consumer.` beats `A.consumer.` beats `A->B.consumer.`, as `MirrorConnectorConfig` lays
them over each other; writing, `A->B.producer.override.` beats `B.producer.`, as Connect does (KIP-458). Defaults are
our engine's. A number beyond what the engine can hold is lowered to that, and a notice says so.
Not for: the Java clients' other keys, whose reasons are in `drlib.config.keys`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drlib.config.values import Values

# One answer is received whole, in one frame of at most 128 MiB, so what is asked for leaves room for one large batch.
MOST_FETCH_BYTES: Final = 64 << 20
DEFAULT_BUFFER: Final = -1  # the operating system's own, as in Kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """One cluster's connections. Buffers are bytes of SO_SNDBUF and SO_RCVBUF, -1 the operating system's own."""

    client_id: str = ""
    send_buffer_bytes: int = DEFAULT_BUFFER
    receive_buffer_bytes: int = DEFAULT_BUFFER
    request_timeout_ms: int = 30_000

    def named(self, role: str) -> str:
        """`client.id` of a connection: what the file says, then the role, as MirrorMaker 2 joins them."""
        return f"{self.client_id}|{role}" if self.client_id else role


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """What one fetch of the source asks for. Kafka sends a first batch whole, whatever its size."""

    max_bytes: int = 16 << 20
    max_partition_bytes: int = 1 << 20
    max_wait_ms: int = 200
    min_bytes: int = 1


def reading(values: Values) -> tuple[ConnectionSettings, FetchSettings]:
    """The source's connections and fetches; `values` sees the prefixes of its consumer. Raises `UsageError`."""
    fetch = FetchSettings(
        max_bytes=values.integer("fetch.max.bytes", FetchSettings().max_bytes, least=0, most=MOST_FETCH_BYTES),
        max_partition_bytes=values.integer(
            "max.partition.fetch.bytes", FetchSettings().max_partition_bytes, least=0, most=MOST_FETCH_BYTES
        ),
        max_wait_ms=values.integer("fetch.max.wait.ms", FetchSettings().max_wait_ms, least=0),
        min_bytes=values.integer("fetch.min.bytes", FetchSettings().min_bytes, least=0),
    )
    connection = _connection(values, values.integer("request.timeout.ms", 30_000, least=1))
    if connection.request_timeout_ms <= fetch.max_wait_ms:
        values.refuse(
            "request.timeout.ms",
            f"a fetch alone may wait {fetch.max_wait_ms} ms (fetch.max.wait.ms)",
            "Write a longer request.timeout.ms or a shorter fetch.max.wait.ms.",
        )
    return connection, fetch


def writing(values: Values) -> ConnectionSettings:
    """The target's connections; `values` sees the prefixes of its producer. Raises `UsageError`."""
    return _connection(values, ConnectionSettings().request_timeout_ms)


def _connection(values: Values, request_timeout_ms: int) -> ConnectionSettings:
    return ConnectionSettings(
        client_id=values.text("client.id", ""),
        send_buffer_bytes=values.integer("send.buffer.bytes", DEFAULT_BUFFER, least=-1),
        receive_buffer_bytes=values.integer("receive.buffer.bytes", DEFAULT_BUFFER, least=-1),
        request_timeout_ms=request_timeout_ms,
    )
