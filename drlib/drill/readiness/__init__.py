"""How ready a flow is for a failover: `drlib doctor` and the gate of a drill.

`doctor` runs both parts: `observe` asks clusters, journal and workers, `checks` judges the answers. `score` has checks,
weights and the score from 0 to 100, `gate` refuses to start a drill on a flow that is not ready.
"""
