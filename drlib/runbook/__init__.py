"""Runbooks: a notebook with parameters and objectives, executed by papermill into a run folder."""
