"""What incidents do on a lab.

- `scene`: the testbed, with topics, applications and the mirror; `bystander`: its small extra applications.
- `inject`: injects causes; `moves`: carries out an operator's moves.
- `observe`: observes clusters, applications and mirror; `measure`: counts what an incident has cost.
"""
