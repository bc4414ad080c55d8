"""Judges the observation of a flow. Pure.

`checks` runs all checks; `mirror`, `groups` and `topics` hold most of them. `observations` are their input, `objectives` what
a flow is held to and helpers for the text of findings.
"""
