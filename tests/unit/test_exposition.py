"""What Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from gossamer.broker.exposition import exposition
from gossamer.broker.runtime import Runtime
from processes import until


def families(*runtimes: Runtime):
    return {family.name: family for family in text_string_to_metric_families(exposition(runtimes).decode())}


def test_every_counter_is_there_with_its_kinds_as_labels():
    with Runtime(name="n") as runtime:
        until(lambda: runtime.status == "member")
        runtime.counters.refusals["limit"] = 3
        runtime.ask(lambda: runtime.node.tally.purge("link", "room", "default/~x.0", None))
        runtime.ask(lambda: runtime.node.tally.repair(2, 5))
        found = families(runtime)
    of = {"node": "n", "role": "member"}
    (refusal,) = found["gossamer_refusals"].samples
    assert (refusal.name, refusal.labels, refusal.value) == ("gossamer_refusals_total", {**of, "code": "limit"}, 3)
    assert found["gossamer_events_purged"].samples[0].labels == {**of, "hop": "link", "reason": "room"}
    assert found["gossamer_events_repaired"].samples[0].labels == {**of, "way": "late"}
    assert found["gossamer_bytes_sent"].type == "counter"
    assert found["gossamer_streams"].type == "gauge"
    assert all(family.documentation for family in found.values())


def test_latencies_are_a_histogram_that_adds_up():
    with Runtime(name="n") as runtime:
        for value in (0.0002, 0.002, 0.002, 100.0):
            runtime.latencies["delivered"].observe(value)
        found = families(runtime)["gossamer_latency_seconds"]
    buckets = {each.labels["le"]: each.value for each in found.samples if each.name.endswith("_bucket")}
    assert (buckets["0.0001"], buckets["0.00025"], buckets["0.0025"], buckets["+Inf"]) == (0, 1, 3, 4)
    totals = {each.name: each.value for each in found.samples if "le" not in each.labels}
    assert totals == {"gossamer_latency_seconds_count": 4, "gossamer_latency_seconds_sum": 100.0042}


def test_two_members_of_one_process_are_told_apart():
    with Runtime(name="a") as a, Runtime(name="b") as b:
        nodes = [sample.labels["node"] for sample in families(a, b)["gossamer_streams"].samples]
    assert nodes == ["a", "b"]
