"""A mesh node over ZeroMQ: the runtime loop, links, client sessions, delivery queues."""
