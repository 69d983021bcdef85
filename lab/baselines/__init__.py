"""The protocols that the papers compare theirs with, as nodes of the simulated world.

Each drives like `gossamer.protocol.node.Node` and speaks the same wire messages, so that what is measured differs by
the protocol alone. They know their members from the start, and keep no promise but their own.
"""
