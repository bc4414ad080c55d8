"""Lag of a flow and of consumer groups over time.

`report` is the entry. `positions` and `mm2_positions` read positions as DataFrames, `frames` computes lag from them, `trend`
judges a series. `mm2_offset_syncs`, `mm2_lag` and `mm2_bounds` bound the lag of a MirrorMaker 2. `result` has the values.
"""
