"""What incidents do on a lab.

- `testbed`: topics, applications and the mirror; `side_application`, `loader`: small applications besides those that fail over.
- `inject`: injects causes; `moves`: carries out an operator's moves.
- `inspections`: moves that only read.
- `observe`: observes clusters, applications and mirror; `skipped`: what groups have passed without processing it.
- `measure`: counts what an incident has cost.
"""
