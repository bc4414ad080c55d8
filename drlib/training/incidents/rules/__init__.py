"""Rules of incidents, pure: tables, and functions of observations and events.

- `causes`, `moves`: the tables of faults and of operators' moves; `seed`: the incident of a seed.
- `symptoms`, `recovery`: what observations show; `score`, `reveal`: points and timeline of a finished incident.
"""
