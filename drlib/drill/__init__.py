"""Drills: what is done, what is written down while it is done, and what it comes to."""
