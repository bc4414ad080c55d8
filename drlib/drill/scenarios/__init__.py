"""Drills for a lab only: they break clusters on purpose and account for every record.

`failover`: a cluster is killed and the applications move. `active`: several clusters serve at once, one joins, one fails.
`ordering`: a move with and without order per key.
"""
