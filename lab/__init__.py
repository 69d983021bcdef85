"""The simulator, faults, checkers, baselines, and the papers' experiments."""
