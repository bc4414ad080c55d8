"""Blocking admin calls to one Kafka cluster, over confluent-kafka and drlib's own connections.

- `cluster`: `Cluster`, the handle
- `group_offsets`: committed offsets of many groups; `topic_acls`: ACLs; `bounded_read`: records of given ranges
- `transactions`: producers that fence earlier ones, and when readers of committed records see what they wrote
- `connect`: own connections from settings, and why a cluster cannot be used
- `descriptions`: the values returned; `errors`: librdkafka's errors as drlib's
"""
