"""Lessons on a lab: the learner predicts, something breaks, the learner repairs it, and the clusters are checked.

- `open`: opens a lesson, and resumes an attempt after a kernel restart.
- `lesson`: what every lesson has; `move_lesson`: what lessons with an application pointer share.
- `lessons`: L0 to L8, one module each; `applications`: consumers in Java and Python that a lesson moves.
- `testbed`: the lab as lessons use it: topics, groups, mirror workers; `secured_testbed`: that of a lesson on secured clusters.
- `points`, `progress`: the state and points of attempts, and the file that keeps them.
- `pictures`: the lessons' figures; `two_logs`: what a reader that changes between two logs reads again.
"""
