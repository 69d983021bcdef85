"""Group services: total and causal order, uniform agreement and views, as machines without I/O (docs/groups.md)."""
