"""The selector language, the Python DSL, covering and the subscription index."""
