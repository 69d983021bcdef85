"""The lab for group services: a world for their machines, checkers, a swarm, an exhaustive small model, mutants."""
