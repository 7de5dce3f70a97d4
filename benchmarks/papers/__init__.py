"""The tables and figures of the five papers, measured here; run by benchmarks/reproduce.py."""
