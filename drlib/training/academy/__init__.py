"""Lessons on a lab: something real happens, the learner predicts it, breaks it, repairs it, and the clusters judge."""
