"""Clients that follow no pointer, and are made to leave a cluster that stays up."""
