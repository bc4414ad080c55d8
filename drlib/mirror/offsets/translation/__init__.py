"""Translate positions in a log from one cluster of a flow to the other.

- `translate_groups`: committed offsets of consumer groups on the source, as offsets on the target (failover).
- `two_way`: committed offsets of groups on the cluster that is left, over both flows (failback, switchover).
- `failback_position`: one position in a mirror partition, as a position in its source partition. Pure.
- `shared_position`: one position in a topic that both directions copy under one name, from both maps. Pure.
- `shared_logs`, `shared_followed`: what that takes, read by a command, or followed in a worker.
- `external_offsets`: positions that applications keep outside Kafka, in both directions.
- `external_formats`, `external_files`: the JSON and the Structured Streaming checkpoints that hold such positions.
"""
