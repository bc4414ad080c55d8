"""Asks what readiness for a failover is judged by: the clusters, the journal and the workers, read-only.

Rules: every question has a deadline, and one that fails or takes too long is `Unseen` with the reason: no answer of one
cluster stops the questions to the other, and nothing is raised to a person who only wanted to know. Nothing is written.
Not for: judging (`drlib.drill.readiness.checks.checks`), practised drills, which are on disk (`drlib.drill.readiness.doctor`).
"""

from drlib.drill.readiness.observe.observe import look

__all__ = ["look"]
