"""Observes what readiness for a failover is judged by: the clusters, the journal and the workers, read-only.

Rules: every question has a deadline; one that fails or takes too long is `Unanswered` with the reason. A cluster that does
not answer stops no question to the other one, and nothing is raised. Nothing is written.
Modules: `observe` runs all questions, `ask` is one question with its deadline, `clusters`, `topics` and `groups` hold the
questions.
Not for: judging (`drlib.drill.readiness.checks`), past drills, which are on disk (`drlib.drill.readiness.doctor`).
"""

from drlib.drill.readiness.observe.observe import observe_flow

__all__ = ["observe_flow"]
