"""The journal of a lane: a compacted topic on the target with every promise and finding, one partition per lane. Pure.

- `entries`: every kind of entry, and `decode`
- `claims_and_runs`, `partition_events`, `chunks`, `transactions`, `producers`: the kinds
- `packed_segments`: the stretches of a chunk, decoded when they are read
- `fields`: field types, and the base class that derives an entry's bytes from its declaration
- `leader_epochs`: which history of the source was read
Reading and writing: `drlib.mirror.offsets.map.journal_log`.
"""
