"""What is known before an emergency failover: how both sides stand, what is lost, who continues where, and what comes next.

`observe` asks clusters, workers and the folder of runs, `assessment` judges the answers, `moved_applications` says what each
application has to change once the pointer has moved.
"""
