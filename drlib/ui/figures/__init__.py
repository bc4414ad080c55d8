"""Figures of drills and analyses, in plotly.

`figures` has what they share and the figures of a scorecard; `drill`, `failover`, `positions`, `lag` and `duplicates` draw
one subject each. A figure is made from values and asks no cluster.
"""
