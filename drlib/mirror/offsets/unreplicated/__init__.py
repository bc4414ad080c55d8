"""Find the records that one cluster of a flow has and the other never got, and settle them: recover, quarantine or leave.

- `find`: read them, with the groups that have read them; `rules`: count them and decide on each record, pure.
- `settle`: write them to the target in transactions; `ledger`: the target's record of what was settled.
- `lag`: how far a flow is behind its source, from logs and map alone.
"""
