"""An incident that a team plays: seats that attach to one running incident, and the debriefing of their estimates.

- `seats`: who sits where and what a seat may do, from the public journal; `seat`: one seat, held by one process.
- `debriefing`: every action with its estimate and the time it took; `pictures`: their table and figure.
"""
