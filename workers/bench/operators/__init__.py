"""What computes a case: the ways that the libraries in this Python offer, each by its own name.

Imported in measuring children only: everything here may need torch and the measured libraries.
"""
