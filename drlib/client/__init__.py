"""For applications: which cluster is active, and reading in order across a move between clusters.

- `active_cluster`: `ActiveCluster`, `active_config`, `publish_pointer`
- `pointer`: the pointer as a value; `pointer_file`, `pointer_topic`, `pointer_watch`: where it is stored and followed
- `pointer_hold`: holds that end by themselves
- `ordered_consumer`: `OrderedConsumer`; `ordered_member`: the group member below it; `read_plan`: what is read first
"""
