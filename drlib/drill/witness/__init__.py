"""Whether a cluster is dead or only cut off, by what several hosts see of it over their own networks.

`evidence` judges, `look` asks from this host, the mirror's workers and witnesses, `service` is a witness: a process at a third
place that keeps asking and says what it sees, to those who prove with `login` that they hold its token.
"""
