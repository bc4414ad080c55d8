"""Check a flow before its first claim: clusters, journal, replication factors and rights; nothing is written.

- `checks`: the checks; `required_acls`: the rights that the mirror needs, and commands that grant them to its principal.
- `cycles`: topics that a cycle of flows would copy without end.
- `failed_over`: whether the flow waits, because the applications are on its target since a failover.
"""
