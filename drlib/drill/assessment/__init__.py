"""What is known before an emergency failover, and before the way back: how both sides stand, what it costs, what comes next.

`observe` asks clusters, workers and the folder of runs, `assessment` judges the answers; `observe_return` and `returning` do so
for the way back. `moved_applications` says what each application has to change once the pointer has moved.
"""
