"""The production core with one slow consumer: the third curve of 000 §5.4.1, beside the model and the simulation.

One publisher offers messages of `traffic.overwrites` at a fixed rate; of two members one takes each delivery at once,
and the other needs a fixed delay for it; purging and back-pressure are both on (row S10).
"""


def measure_real(
    r: float,
    delay_ms: float,
    *,
    sender_rate: float = 100.0,
    buffer: int = 20,
    diversity: int = 1,
    duration_s: float = 120.0,
    seed: int = 1,
) -> float | None:
    """Events a second that the publisher got accepted, or None where nothing can be measured: for now, anywhere."""
    del r, delay_ms, sender_rate, buffer, diversity, duration_s, seed
    return None
