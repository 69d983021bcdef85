"""Plans that the swarm drew and that once failed, with all their options: they replay whatever it draws today."""

from dataclasses import replace

import pytest

from gossamer.lab.mutants import RARE
from gossamer.lab.swarm import Plan, Run
from gossamer.messages.ids import DEFAULT_GROUP
from gossamer.protocol.config import Config, Group

PLANS = {
    "a logger leaves with void numbers of a publisher that moves": Plan(
        seed=7137226979495, brokers=4, loggers=3, topology="uniform", latency_ms=40.0, duration_s=2.0, streams=2,
        publish_every_s=0.02, named=True, moves=True, wire=True, loss=0.071, burst=0.0, duplicate=0.0, delay_ms=0.0,
        straggle=0.078, partitions=2, crashes=3, resume=True, logger_crashes=0, disconnects=1, joins=1,
        late_logger=False, logger_leaves=True, all_loggers_leave=False, leaves=0, never_return=0, speech="all",
        keys=10, slow=1, delay_each_ms=1.0, queue=2, reconnections=0, durables=2,
        config=Config(
            strategy="gossip", fanout=2, hops=3, round_interval_s=0.25, round_interval_max_s=1.0, gclimit_rounds=2,
            reorder_grace_s=0.02, selection="linear", remulticast_requesters=2, repair_first="logger",
            service_limit_per_s=20.0, seek_after_rounds=12, loggers_min=1, replicas=1, faults=3, retain_s=5.0,
            expire_s=10000.0, compact=True, resend_s=0.1, send_buffer_bytes_max=67108864, idle_after_s=0.05,
            block_seqs=50, groups={DEFAULT_GROUP: Group(purging=True, backpressure=True)}, link_window_bytes=None,
            link_bandwidth_bps=100000.0, link_buffer_events_max=1024, link_policy="lazy", link_patience_s=0.2,
            purge_above_bytes=500, purge_send_buffer=True, hold_bytes_max=500, positions_rounds=1, sponsors=3,
        ),
    ),
    "a logger leaves with void numbers": Plan(
        seed=905680291554, brokers=4, loggers=2, topology="uniform", latency_ms=5.0, duration_s=4.0, streams=2,
        publish_every_s=0.05, named=True, moves=False, wire=False, loss=0.0, burst=0.0, duplicate=0.001,
        delay_ms=1.762, straggle=0.0, partitions=0, crashes=1, resume=True, logger_crashes=0, disconnects=0, joins=0,
        late_logger=False, logger_leaves=True, all_loggers_leave=False, leaves=0, never_return=0, speech="key",
        keys=1, slow=1, delay_each_ms=1.0, queue=8, reconnections=0, durables=2,
        config=Config(
            strategy="multicast", fanout=2, hops=3, round_interval_s=0.25, round_interval_max_s=1.0,
            gclimit_rounds=10, reorder_grace_s=0.02, selection="quadratic", remulticast_requesters=3,
            repair_first="logger", service_limit_per_s=1000.0, seek_after_rounds=4, loggers_min=1, replicas=1,
            faults=1, retain_s=1.0, expire_s=10000.0, compact=False, resend_s=0.5, send_buffer_bytes_max=67108864,
            idle_after_s=0.05, block_seqs=3, groups={DEFAULT_GROUP: Group(purging=False, backpressure=False)},
            link_window_bytes=2000, link_bandwidth_bps=None, link_buffer_events_max=10, link_policy="random",
            link_patience_s=0.0, purge_above_bytes=0, purge_send_buffer=True, hold_bytes_max=500, positions_rounds=1,
            sponsors=3,
        ),
    ),
    "a member disconnects with its own events, by gossip": Plan(
        seed=200195215988129, brokers=6, loggers=0, topology="uniform", latency_ms=5.0, duration_s=8.0, streams=2,
        publish_every_s=0.02, named=False, moves=False, wire=False, loss=0.286, burst=0.042, duplicate=0.0,
        delay_ms=0.0, straggle=0.0, partitions=1, crashes=0, resume=False, logger_crashes=0, disconnects=1, joins=0,
        late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=0, never_return=0, speech="rank",
        keys=3, slow=1, delay_each_ms=100.0, queue=2, reconnections=0, durables=0,
        config=Config(
            strategy="gossip", fanout=4, hops=3, round_interval_s=0.1, round_interval_max_s=0.4, gclimit_rounds=2,
            reorder_grace_s=0.02, selection="uniform", remulticast_requesters=3, repair_first="auto",
            service_limit_per_s=1000.0, seek_after_rounds=12, loggers_min=1, replicas=None, faults=0, retain_s=1.0,
            expire_s=10000.0, compact=False, resend_s=0.5, send_buffer_bytes_max=67108864, idle_after_s=0.05,
            block_seqs=3, groups={DEFAULT_GROUP: Group(purging=True, backpressure=True)}, link_window_bytes=2000,
            link_bandwidth_bps=100000.0, link_buffer_events_max=3, link_policy="random", link_patience_s=0.2,
            purge_above_bytes=0, purge_send_buffer=False, hold_bytes_max=500, positions_rounds=4, sponsors=1,
        ),
    ),
    "a member disconnects with its own events": Plan(
        seed=279462511158929, brokers=4, loggers=0, topology="uniform", latency_ms=40.0, duration_s=4.0, streams=1,
        publish_every_s=0.05, named=False, moves=True, wire=True, loss=0.026, burst=0.049, duplicate=0.1,
        delay_ms=0.0, straggle=0.0, partitions=2, crashes=0, resume=False, logger_crashes=0, disconnects=1, joins=0,
        late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=0, never_return=0, speech="silent",
        keys=10, slow=1, delay_each_ms=100.0, queue=8, reconnections=0, durables=0,
        config=Config(
            strategy="multicast", fanout=3, hops=4, round_interval_s=0.1, round_interval_max_s=0.4, gclimit_rounds=4,
            reorder_grace_s=0.02, selection="linear", remulticast_requesters=2, repair_first="gossip",
            service_limit_per_s=1000.0, seek_after_rounds=12, loggers_min=1, replicas=None, faults=0, retain_s=1.0,
            expire_s=10000.0, compact=False, resend_s=0.5, send_buffer_bytes_max=2000, idle_after_s=0.05,
            block_seqs=50, groups={DEFAULT_GROUP: Group(purging=False, backpressure=False)}, link_window_bytes=2000,
            link_bandwidth_bps=None, link_buffer_events_max=1024, link_policy="eager", link_patience_s=0.0,
            purge_above_bytes=500, purge_send_buffer=True, hold_bytes_max=500, positions_rounds=4, sponsors=3,
        ),
    ),
    "a member leaves with events of a dead publisher": Plan(
        seed=81147803433271, brokers=5, loggers=1, topology="uniform", latency_ms=40.0, duration_s=2.0, streams=3,
        publish_every_s=0.02, named=True, moves=False, wire=False, loss=0.0, burst=0.0, duplicate=0.0,
        delay_ms=56.405, straggle=0.0, partitions=2, crashes=3, resume=False, logger_crashes=2, disconnects=0,
        joins=1, late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=1, never_return=1,
        speech="all", keys=3, slow=0, delay_each_ms=100.0, queue=2, reconnections=0, durables=0,
        config=Config(
            strategy="multicast", fanout=2, hops=4, round_interval_s=0.25, round_interval_max_s=1.0,
            gclimit_rounds=10, reorder_grace_s=0.005, selection="quadratic", remulticast_requesters=3,
            repair_first="gossip", service_limit_per_s=20.0, seek_after_rounds=12, loggers_min=1, replicas=None,
            faults=3, retain_s=0.2, expire_s=10000.0, compact=False, resend_s=0.5, send_buffer_bytes_max=67108864,
            idle_after_s=0.05, block_seqs=3, groups={DEFAULT_GROUP: Group(purging=True, backpressure=True)},
            link_window_bytes=2000, link_bandwidth_bps=None, link_buffer_events_max=10, link_policy="lazy",
            link_patience_s=0.0, purge_above_bytes=33554432, purge_send_buffer=True, hold_bytes_max=67108864,
            positions_rounds=4, sponsors=2,
        ),
    ),
    "marks of two streams wait for each other": Plan(
        seed=194783983720644, brokers=2, loggers=2, topology="star", latency_ms=5.0, duration_s=8.0, streams=2,
        publish_every_s=0.02, named=False, moves=False, wire=False, loss=0.099, burst=0.0, duplicate=0.0,
        delay_ms=0.0, straggle=0.0, partitions=2, crashes=0, resume=False, logger_crashes=0, disconnects=0, joins=0,
        late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=0, never_return=0, speech="rank",
        keys=3, slow=0, delay_each_ms=20.0, queue=2, reconnections=0, durables=2,
        config=Config(
            strategy="multicast", fanout=2, hops=2, round_interval_s=0.25, round_interval_max_s=4.0, gclimit_rounds=2,
            reorder_grace_s=0.0, selection="linear", remulticast_requesters=0, repair_first="auto",
            service_limit_per_s=20.0, seek_after_rounds=12, loggers_min=1, replicas=1, faults=0, retain_s=5.0,
            expire_s=10000.0, compact=True, resend_s=0.5, send_buffer_bytes_max=2000, idle_after_s=0.5, block_seqs=3,
            groups={DEFAULT_GROUP: Group(purging=True, backpressure=False)}, link_window_bytes=None,
            link_bandwidth_bps=None, link_buffer_events_max=3, link_policy="lazy", link_patience_s=0.2,
            purge_above_bytes=500, purge_send_buffer=True, hold_bytes_max=67108864, positions_rounds=4, sponsors=3,
        ),
    ),
    "a new keeper began behind a hole": Plan(
        seed=17869212299813, brokers=4, loggers=2, topology="uniform", latency_ms=0.5, duration_s=2.0, streams=3,
        publish_every_s=0.05, named=True, moves=False, wire=False, loss=0.259, burst=0.076, duplicate=0.0,
        delay_ms=42.679, straggle=0.107, partitions=2, crashes=3, resume=False, logger_crashes=1, disconnects=0,
        joins=1, late_logger=False, logger_leaves=True, all_loggers_leave=False, leaves=0, never_return=1,
        speech="key", keys=10, slow=1, delay_each_ms=20.0, queue=2, reconnections=0, durables=0,
        config=Config(
            strategy="gossip", fanout=2, hops=4, round_interval_s=0.25, round_interval_max_s=4.0, gclimit_rounds=10,
            reorder_grace_s=0.005, selection="uniform", remulticast_requesters=0, repair_first="auto",
            service_limit_per_s=20.0, seek_after_rounds=4, loggers_min=1, replicas=1, faults=3, retain_s=5.0,
            expire_s=10000.0, compact=True, resend_s=0.1, send_buffer_bytes_max=67108864, idle_after_s=0.5,
            block_seqs=50, groups={DEFAULT_GROUP: Group(purging=True, backpressure=True)}, link_window_bytes=200,
            link_bandwidth_bps=100000.0, link_buffer_events_max=3, link_policy="drop-new", link_patience_s=0.0,
            purge_above_bytes=33554432, purge_send_buffer=True, hold_bytes_max=500, positions_rounds=1, sponsors=2,
        ),
    ),
    "a logger expels a member whose return it missed": Plan(
        seed=29584090481048, brokers=5, loggers=1, topology="transit-stub", latency_ms=40.0, duration_s=8.0,
        streams=1, publish_every_s=0.02, named=False, moves=True, wire=False, loss=0.0, burst=0.056, duplicate=0.11,
        delay_ms=19.018, straggle=0.0, partitions=0, crashes=2, resume=True, logger_crashes=1, disconnects=1, joins=0,
        late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=0, never_return=1, speech="silent",
        keys=10, slow=2, delay_each_ms=20.0, queue=2, reconnections=0, durables=1,
        config=Config(
            strategy="multicast", fanout=4, hops=3, round_interval_s=0.1, round_interval_max_s=1.6, gclimit_rounds=4,
            reorder_grace_s=0.0, selection="quadratic", remulticast_requesters=0, repair_first="gossip",
            service_limit_per_s=20.0, seek_after_rounds=4, loggers_min=1, replicas=None, faults=2, retain_s=0.2,
            expire_s=10000.0, compact=True, resend_s=0.1, send_buffer_bytes_max=2000, idle_after_s=0.05,
            block_seqs=50, groups={DEFAULT_GROUP: Group(purging=True, backpressure=True)}, link_window_bytes=200,
            link_bandwidth_bps=None, link_buffer_events_max=10, link_policy="eager", link_patience_s=0.2,
            purge_above_bytes=0, purge_send_buffer=True, hold_bytes_max=500, positions_rounds=1, sponsors=3,
        ),
    ),
    "a bookmark names a stream that is retired": Plan(
        seed=103426378108786, brokers=3, loggers=1, topology="uniform", latency_ms=5.0, duration_s=2.0, streams=1,
        publish_every_s=0.02, named=True, moves=True, wire=False, loss=0.233, burst=0.0, duplicate=0.0,
        delay_ms=12.59, straggle=0.0, partitions=1, crashes=1, resume=True, logger_crashes=1, disconnects=1, joins=2,
        late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=1, never_return=0, speech="silent",
        keys=3, slow=2, delay_each_ms=100.0, queue=2, reconnections=0, durables=2,
        config=Config(
            strategy="gossip", fanout=2, hops=3, round_interval_s=0.1, round_interval_max_s=1.6, gclimit_rounds=10,
            reorder_grace_s=0.0, selection="uniform", remulticast_requesters=0, repair_first="logger",
            service_limit_per_s=1000.0, seek_after_rounds=12, loggers_min=1, replicas=None, faults=1, retain_s=0.2,
            expire_s=10000.0, compact=True, resend_s=0.5, send_buffer_bytes_max=67108864, idle_after_s=0.05,
            block_seqs=50, groups={DEFAULT_GROUP: Group(purging=True, backpressure=True)}, link_window_bytes=None,
            link_bandwidth_bps=None, link_buffer_events_max=1024, link_policy="eager", link_patience_s=0.2,
            purge_above_bytes=500, purge_send_buffer=False, hold_bytes_max=67108864, positions_rounds=1, sponsors=1,
        ),
    ),
    "a durable subscription never began": Plan(
        seed=92140942373282, brokers=6, loggers=2, topology="uniform", latency_ms=5.0, duration_s=8.0, streams=3,
        publish_every_s=0.02, named=False, moves=True, wire=False, loss=0.0, burst=0.0, duplicate=0.0, delay_ms=0.0,
        straggle=0.0, partitions=1, crashes=3, resume=False, logger_crashes=2, disconnects=1, joins=0,
        late_logger=False, logger_leaves=True, all_loggers_leave=False, leaves=0, never_return=0, speech="silent",
        keys=3, slow=2, delay_each_ms=100.0, queue=8, reconnections=20, durables=1,
        config=Config(
            strategy="multicast", fanout=2, hops=2, round_interval_s=0.25, round_interval_max_s=0.25,
            gclimit_rounds=2, reorder_grace_s=0.02, selection="uniform", remulticast_requesters=2,
            repair_first="logger", service_limit_per_s=20.0, seek_after_rounds=12, loggers_min=1, replicas=1,
            faults=3, retain_s=1.0, expire_s=10000.0, compact=False, resend_s=0.5, send_buffer_bytes_max=67108864,
            idle_after_s=0.05, block_seqs=3, groups={DEFAULT_GROUP: Group(purging=True, backpressure=False)},
            link_window_bytes=200, link_bandwidth_bps=None, link_buffer_events_max=10, link_policy="eager",
            link_patience_s=0.0, purge_above_bytes=500, purge_send_buffer=False, hold_bytes_max=67108864,
            positions_rounds=1, sponsors=3,
        ),
    ),
    "a durable subscription began before any stream": Plan(
        seed=22752060546321, brokers=3, loggers=1, topology="star", latency_ms=40.0, duration_s=2.0, streams=1,
        publish_every_s=0.2, named=True, moves=False, wire=False, loss=0.0, burst=0.0, duplicate=0.02, delay_ms=0.0,
        straggle=0.0, partitions=0, crashes=3, resume=False, logger_crashes=2, disconnects=0, joins=0,
        late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=0, never_return=1, speech="all",
        keys=10, slow=0, delay_each_ms=1.0, queue=8, reconnections=0, durables=2,
        config=Config(
            strategy="gossip", fanout=2, hops=2, round_interval_s=0.25, round_interval_max_s=1.0, gclimit_rounds=2,
            reorder_grace_s=0.005, selection="uniform", remulticast_requesters=3, repair_first="gossip",
            service_limit_per_s=20.0, seek_after_rounds=12, loggers_min=1, replicas=None, faults=3, retain_s=0.2,
            expire_s=10000.0, compact=False, resend_s=0.5, send_buffer_bytes_max=2000, idle_after_s=0.5, block_seqs=3,
            groups={DEFAULT_GROUP: Group(purging=False, backpressure=False)}, link_window_bytes=2000,
            link_bandwidth_bps=None, link_buffer_events_max=10, link_policy="lazy", link_patience_s=0.2,
            purge_above_bytes=33554432, purge_send_buffer=True, hold_bytes_max=500, positions_rounds=4, sponsors=1,
        ),
    ),
    "a mark waits in a saturated link": Plan(
        seed=159343909426861, brokers=4, loggers=1, topology="transit-stub", latency_ms=5.0, duration_s=2.0,
        streams=2, publish_every_s=0.02, named=True, moves=True, wire=False, loss=0.136, burst=0.0, duplicate=0.0,
        delay_ms=47.532, straggle=0.0, partitions=0, crashes=2, resume=False, logger_crashes=0, disconnects=1,
        joins=2, late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=0, never_return=0,
        speech="rank", keys=10, slow=1, delay_each_ms=100.0, queue=8, reconnections=5, durables=2,
        config=Config(
            strategy="multicast", fanout=4, hops=4, round_interval_s=0.25, round_interval_max_s=1.0, gclimit_rounds=4,
            reorder_grace_s=0.02, selection="linear", remulticast_requesters=0, repair_first="logger",
            service_limit_per_s=20.0, seek_after_rounds=4, loggers_min=1, replicas=None, faults=2, retain_s=5.0,
            expire_s=10000.0, compact=False, resend_s=0.1, send_buffer_bytes_max=67108864, idle_after_s=0.5,
            block_seqs=50, groups={DEFAULT_GROUP: Group(purging=True, backpressure=False)}, link_window_bytes=200,
            link_bandwidth_bps=None, link_buffer_events_max=1024, link_policy="eager", link_patience_s=0.0,
            purge_above_bytes=33554432, purge_send_buffer=False, hold_bytes_max=67108864, positions_rounds=1,
            sponsors=1,
        ),
    ),
    "a logger has no room for what is on its disk": Plan(
        seed=43277924891917, brokers=2, loggers=1, topology="uniform", latency_ms=0.5, duration_s=8.0, streams=3,
        publish_every_s=0.02, named=False, moves=True, wire=False, loss=0.0, burst=0.0, duplicate=0.0, delay_ms=0.0,
        straggle=0.175, partitions=0, crashes=0, resume=False, logger_crashes=2, disconnects=1, joins=1,
        late_logger=False, logger_leaves=False, all_loggers_leave=False, leaves=0, never_return=0, speech="all",
        keys=10, slow=1, delay_each_ms=100.0, queue=64, reconnections=5, durables=0,
        config=Config(
            strategy="multicast", fanout=3, hops=3, round_interval_s=0.1, round_interval_max_s=0.1, gclimit_rounds=2,
            reorder_grace_s=0.005, selection="linear", remulticast_requesters=0, repair_first="logger",
            service_limit_per_s=1000.0, seek_after_rounds=4, loggers_min=1, replicas=None, faults=0, retain_s=0.2,
            expire_s=10000.0, compact=True, resend_s=0.5, send_buffer_bytes_max=67108864, idle_after_s=0.5,
            block_seqs=50, groups={DEFAULT_GROUP: Group(purging=True, backpressure=False)}, link_window_bytes=2000,
            link_bandwidth_bps=100000.0, link_buffer_events_max=3, link_policy="random", link_patience_s=0.2,
            purge_above_bytes=0, purge_send_buffer=True, hold_bytes_max=500, positions_rounds=1, sponsors=2,
        ),
    ),
    "all loggers resign while an event is missing": Plan(
        seed=219168298722229, brokers=3, loggers=2, topology="transit-stub", latency_ms=5.0, duration_s=8.0,
        streams=2, publish_every_s=0.02, named=False, moves=False, wire=False, loss=0.271, burst=0.0, duplicate=0.0,
        delay_ms=0.0, straggle=0.147, partitions=1, crashes=3, resume=False, logger_crashes=2, disconnects=0, joins=1,
        late_logger=False, logger_leaves=False, all_loggers_leave=True, leaves=0, never_return=1, speech="all",
        keys=1, slow=2, delay_each_ms=100.0, queue=2, reconnections=0, durables=0,
        config=Config(
            strategy="multicast", fanout=4, hops=4, round_interval_s=0.1, round_interval_max_s=0.1, gclimit_rounds=10,
            reorder_grace_s=0.005, selection="linear", remulticast_requesters=0, repair_first="logger",
            service_limit_per_s=1000.0, seek_after_rounds=4, loggers_min=1, replicas=1, faults=3, retain_s=5.0,
            expire_s=10000.0, compact=True, resend_s=0.5, send_buffer_bytes_max=2000, idle_after_s=0.5, block_seqs=3,
            groups={DEFAULT_GROUP: Group(purging=False, backpressure=False)}, link_window_bytes=None,
            link_bandwidth_bps=None, link_buffer_events_max=3, link_policy="random", link_patience_s=0.0,
            purge_above_bytes=500, purge_send_buffer=False, hold_bytes_max=67108864, positions_rounds=4, sponsors=2,
        ),
    ),
    "a logger lets go of void numbers behind its events": Plan(
        seed=3450963714558, brokers=5, loggers=2, topology="uniform", latency_ms=40.0, duration_s=8.0, streams=1,
        publish_every_s=0.02, named=False, moves=False, wire=False, loss=0.221, burst=0.0, duplicate=0.0,
        delay_ms=45.466, straggle=0.0, partitions=0, crashes=2, resume=True, logger_crashes=1, disconnects=1, joins=1,
        late_logger=True, logger_leaves=False, all_loggers_leave=True, leaves=0, never_return=0, speech="rank",
        keys=3, slow=0, delay_each_ms=1.0, queue=2, reconnections=5, durables=2,
        config=Config(
            strategy="gossip", fanout=3, hops=3, round_interval_s=0.25, round_interval_max_s=0.25, gclimit_rounds=10,
            reorder_grace_s=0.0, gossip_buffer_bytes_max=67108864, repair_bytes_max=1048576, selection="linear",
            remulticast_requesters=3, repair_first="logger", service_limit_per_s=20.0, busy_backoff_s=2.0,
            seek_after_rounds=4, loggers_min=1, replicas=1, faults=2, retain_s=0.2, expire_s=10000.0,
            log_bytes_max=None, compact=True, resend_s=0.1, send_buffer_bytes_max=67108864, idle_after_s=0.05,
            block_seqs=3, groups={DEFAULT_GROUP: Group(purging=False, backpressure=False, backpressure_max_s=0.5,
            order="fifo")}, agreed_by=(), link_window_bytes=200, link_bandwidth_bps=None, link_buffer_events_max=10,
            link_buffer_bytes_max=16777216, link_policy="eager", link_patience_s=0.0, purge_above_bytes=0,
            purge_send_buffer=False, window_events=8, window_patience_s=5.0, hold_bytes_max=67108864,
            positions_rounds=1, sponsors=1,
        ),
        stuck=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_once_failed(name: str) -> None:
    assert Run(PLANS[name]).execute().violation is None


def test_an_event_stays_missing_if_its_finder_turns_to_peers_for_good() -> None:
    outcome = Run(PLANS["all loggers resign while an event is missing"], RARE["turn-to-peers-for-good"]).execute()
    assert outcome.violation is not None
    assert outcome.violation.rule == "liveness"


def test_an_obsolete_event_is_told_as_gone_if_its_mark_is_not_taken() -> None:
    plan = replace(PLANS["a mark waits in a saturated link"], seed=6)
    assert Run(plan).execute().violation is None
    outcome = Run(plan, RARE["ask-without-regard-to-marks"]).execute()
    assert outcome.violation is not None
    assert outcome.violation.rule == "collected unseen"
