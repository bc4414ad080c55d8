"""Seeded incidents: real faults with a hidden cause, a player who sees symptoms only, a score and a reveal."""
