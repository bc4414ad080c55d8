"""Learning disaster recovery on a lab: a tour, lessons, and incidents with hidden faults.

- `tour`: a first look at the lab, a mirrored topic and a translated position.
- `academy`: lessons with a prediction, a fault, a repair by the learner, and checks against the clusters.
- `incidents`: seeded faults that a player finds and repairs for a score.

Not for: drills, which have plans and proofs (`drlib.drill`).
"""
