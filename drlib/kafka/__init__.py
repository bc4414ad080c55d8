"""Kafka as drlib uses it, without knowledge of mirrors or drills.

- `protocol`: encoding and decoding of requests and record batches, error codes; pure
- `net`: connections to brokers, and the requests sent over them (asyncio)
- `security`: TLS, SASL and OAuth; `java_formats`: Java's properties, JAAS and key stores
- `admin`: blocking admin calls to one cluster
"""
