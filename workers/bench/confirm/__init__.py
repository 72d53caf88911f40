"""A/B of two environments on one device: fresh processes in turn, decided as they come; and the search for
the version that has a change. Imports no torch."""
