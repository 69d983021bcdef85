"""Benchmarks: ratios within one run, never timing assertions."""
