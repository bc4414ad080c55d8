"""Seeded incidents: real faults with a hidden cause, a player who sees symptoms only, a score and a reveal.

- `incident`: an incident from start to reveal; `session`: its calls for notebooks and the command line.
- `watch`: the process that injects the faults and observes the testbed; `record`: journals and other files.
- `reference_player`: solves an incident by ordinary moves; `store`: finds and opens incidents; `pictures`: tables and figures.
- `live`: the view beside the notebook; `team`: seats at one incident, and their debriefing.
- `lab`: the testbed, fault injection, moves, observations and measurements; `rules`: causes, symptoms and scores, pure.
"""
