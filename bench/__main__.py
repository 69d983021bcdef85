"""`python -m gossamer.bench [NAME ...] [--quick] [--json]`: every speed that the issues name."""

from collections.abc import Sequence

from gossamer.bench import (
    analytics,
    day,
    groups,
    logging,
    matching,
    measure,
    purging,
    receiving,
    recovery,
    repair_order,
    replay,
    signatures,
    simulator,
)

BENCHMARKS: dict[str, measure.Benchmark] = {
    "analytics": analytics.rows,
    "day": day.rows,
    "groups": groups.rows,
    "logging": logging.rows,
    "matching": matching.rows,
    "purging": purging.rows,
    "receiving": receiving.rows,
    "recovery": recovery.rows,
    "repair-order": repair_order.rows,
    "replay": replay.rows,
    "signatures": signatures.rows,
    "simulator": simulator.rows,
}


def main(arguments: Sequence[str] | None = None) -> None:
    measure.run(BENCHMARKS, arguments)


if __name__ == "__main__":
    main()
