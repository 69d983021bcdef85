"""The protocols as sans-IO state machines: rpbcast and what stands on it."""
