"""Deciding whether to fail over, and waiting for what the mirror can still deliver.

Modules: `triage` is the decision's action and `triage_rules` its judgement, `drain` waits for the mirror, `observe_flow`
observes a flow from both clusters and its workers.
"""
