"""The five papers: their tables and figures, measured here by benchmarks/reproduce.py."""
