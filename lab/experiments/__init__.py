"""One file an experiment of the papers."""
