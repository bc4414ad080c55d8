"""Rules of incidents, pure: tables, and functions of observations and events.

- `causes`, `postmortems`, `moves`: the tables of faults and of operators' moves; `cause`: a row of the first two.
- `seed`: the incident of a seed.
- `symptoms`, `recovery`: what observations show; `score`, `reveal`: points and timeline of a finished incident.
"""
