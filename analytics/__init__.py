"""Spark analytics: the data source, one job a question, the report."""
