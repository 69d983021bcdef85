"""Who repairs, and which links carry it (004 §7.2, figures 7-2 and 7-3).

Rows of two kinds: `member` rows have the packets that each node sent again, `link` rows what each direction of each
link carried. The logger is the last of the nodes, and one of the four links between it and the hub carries most.
"""

from statistics import fmean

from gossamer.lab.experiments.registry import Claim, Panel, Progress, Row, experiment, silent
from gossamer.lab.experiments.sweep import check_positive, sweep
from gossamer.lab.topology import transit_stub
from gossamer.lab.transit import CORE, LOGGER, TOPOLOGY_SEED, Outcome, Protocol, Setting, run

PROTOCOLS: tuple[Protocol, ...] = ("lbrm", *CORE)


@experiment(
    "004 Fig 7-2, 7-3",
    Panel("7-2 packets sent again", "where", ("packets",), "protocol", {"kind": "member"}, "node", "packets", "bar"),
    Panel(
        "7-3 traffic of each link",
        "where",
        ("repair_kb",),
        "protocol",
        {"kind": "link"},
        "link",
        "KB besides data",
        "bar",
    ),
    quick={"duration_s": 2.0, "seeds": 1, "processes": 1},
)
def load_distribution(
    *,
    rate: float = 360.0,
    loss: float = 0.01,
    duration_s: float = 10.0,
    seeds: int = 3,
    processes: int = 2,
    progress: Progress = silent,
) -> tuple[list[Row], list[Claim]]:
    """The logger of LBRM carries a multiple of any rpbcast member's repairs, and the links to it peak (004 §7.2)."""
    check_positive(rate=rate, loss=loss, duration_s=duration_s)
    points = [
        Setting(protocol, rate=rate, loss=each, duration_s=duration_s, measured=True)
        for protocol in PROTOCOLS
        for each in (loss, 0.0)  # without loss, a link carries the data alone
    ]
    found = dict(zip(points, sweep(run, points, seeds=seeds, processes=processes, progress=progress), strict=True))
    rows: list[Row] = []
    peaks: dict[str, tuple[float, float]] = {}
    for protocol in PROTOCOLS:
        lossy, lossless = (outcomes for point, outcomes in found.items() if point.protocol == protocol)
        rows += _member_rows(protocol, lossy)
        links = _link_rows(protocol, lossy, lossless)
        peaks[protocol] = _peak(links)
        rows += links
    return rows, _claims(rows, peaks)


def _member_rows(protocol: str, outcomes: list[Outcome]) -> list[Row]:
    return [
        {
            "protocol": protocol,
            "kind": "member",
            "where": node,
            "packets": round(fmean(outcome.repairs[node] for outcome in outcomes), 1),
            "repair_kb": None,
        }
        for node in outcomes[0].repairs
    ]


def _link_rows(protocol: str, lossy: list[Outcome], lossless: list[Outcome]) -> list[Row]:
    rows: list[Row] = []
    for place, (source, target, _, _) in enumerate(lossy[0].links):
        packets, carried, data = (
            fmean(outcome.links[place][column] for outcome in outcomes)
            for outcomes, column in ((lossy, 2), (lossy, 3), (lossless, 3))
        )
        rows.append(
            {
                "protocol": protocol,
                "kind": "link",
                "where": f"{source}-{target}",
                "packets": round(packets, 1),
                "repair_kb": round((carried - data) / 1e3, 1),
            }
        )
    return rows


def _peak(links: list[Row]) -> tuple[float, float]:
    """What the busiest link on the way from the logger to the hub carries besides data, and the median link."""
    topology = transit_stub(TOPOLOGY_SEED)
    router, way = topology.hosts[0], []
    while (link := topology.routes[router][0]) is not None:
        way.append(f"{link.source}-{link.target}")
        router = link.target
    carried = {str(row["where"]): float(row["repair_kb"] or 0) for row in links}
    ordered = sorted(carried.values())
    return max(carried[each] for each in way), ordered[len(ordered) // 2]


def _claims(rows: list[Row], peaks: dict[str, tuple[float, float]]) -> list[Claim]:
    repairs = {(row["protocol"], row["where"]): float(row["packets"] or 0) for row in rows if row["kind"] == "member"}
    logger = repairs["lbrm", LOGGER]
    busiest = {name: max(count for (protocol, _), count in repairs.items() if protocol == name) for name in CORE}
    return [
        Claim(
            "the logger of LBRM sends many times what any member of rpbcast does",
            "significantly more retransmissions than any receiver in rpbcast (Fig 7-2)",
            f"{logger:.0f} packets against at most "
            + ", ".join(f"{most:.0f} ({name})" for name, most in busiest.items()),
            logger > 3 * max(busiest.values()),
        ),
        Claim(
            "the peaks on the links from the logger to the hub vanish",
            "four peaks for LBRM, none for rpbcast (Fig 7-3)",
            "; ".join(
                f"{name}: {peak:.0f} KB there, {median:.0f} KB on the median link"
                for name, (peak, median) in peaks.items()
            ),
            peaks["lbrm"][0] > 2 * max(peaks[name][0] for name in CORE),
        ),
    ]
