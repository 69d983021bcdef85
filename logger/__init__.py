"""Stable storage: schema, writer, recovery, retention, archive."""
