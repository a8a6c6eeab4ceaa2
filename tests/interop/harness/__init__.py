"""Starts clusters, builds and runs the foreign client drivers, and counts what they say."""
