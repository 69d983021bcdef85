"""The SDK against real brokers: what the design promises to publishers and subscribers."""

import asyncio
import time
from collections import Counter
from contextlib import suppress

import pytest

import gossamer
from clients import run, seqs, take, two, wait_for_members
from gossamer.sdk.subscription import CHUNK_MAX, YIELD_EVENTS
from processes import until

# Publishing and subscribing -------------------------------------------------------------------------------------------


def test_what_matches_comes_and_nothing_else(broker):
    async def main():
        async with two(broker.url, broker.url) as (publisher, subscriber):
            sub = await subscriber.subscribe("symbol IN ('IBM', 'MSFT') AND price > 100")
            for n, (symbol, price) in enumerate([("IBM", 101.5), ("IBM", 99), ("SUN", 200), ("MSFT", 100.5)]):
                await publisher.publish({"symbol": symbol, "price": price, "n": n}, b"body", key=f"{symbol}{n}")
            found = await take(sub, 2)
            assert seqs(found) == [0, 3]
            event = found[0]
            assert (event.id, event.body, event.key) == ((publisher.stream, 0), b"body", "IBM0")
            assert (event.attributes["price"], event.deleted) == (101.5, False)
            assert abs(event.time.timestamp() - time.time()) < 5
            assert (sub.stats.delivered, sub.stats.lost) == (2, 0)

    run(main)


def test_clients_of_two_brokers_of_a_mesh_hear_each_other(brokers):
    first = brokers()
    second = brokers(first.address)
    until(lambda: len(first.runtime.members) == 2)

    async def main():
        async with two(first.url, second.url) as (one, other):
            theirs, ours = await other.subscribe("n >= 0"), await one.subscribe("n < 0")
            for n in range(1_000):
                await one.publish({"n": n})
            assert seqs(await take(theirs, 1_000)) == list(range(1_000))
            await other.publish({"n": -1})
            assert seqs(await take(ours, 1)) == [-1]

    run(main)


def test_without_loggers_nothing_is_logged(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            await client.publish({"n": 0}, ack="sent")
            await client.publish({"n": 1}, ack="safe")
            with pytest.raises(gossamer.Timeout):
                await client.publish({"n": 2}, ack="logged", timeout=0.2)

    run(main)


def test_acknowledgements_come_when_they_are_true(mesh):
    b1 = mesh.broker("b1").ready()
    logger = mesh.logger("L", b1.address).ready()
    wait_for_members(b1, logger)

    async def main():
        async with gossamer.connect(b1.url) as client:
            for n in range(3):
                await client.publish({"n": n}, ack="sent")
            await client.publish({"n": 3}, ack="logged")
            await client.flush("logged")
            assert client.pending == 0
            return client.stream

    stream = run(main)
    with mesh.store("L", copy="L2") as store:
        assert store.stored().streams[stream].stored == ((0, 3),)


def test_a_selector_that_is_wrong_is_the_callers_error_with_its_place(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            with pytest.raises(gossamer.SelectorError) as caught:
                await client.subscribe("price > > 100")
            assert caught.value.position == 8
            sub = await client.subscribe("price > 100")
            with pytest.raises(gossamer.SelectorError):
                await sub.update("price >")

    run(main)


def test_a_selector_is_changed_live(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("n < 10")
            await client.publish({"n": 1})
            await client.publish({"n": 11})
            await client.flush()
            await sub.update(gossamer.attr.n > 10)
            await client.publish({"n": 2})
            await client.publish({"n": 12})
            assert seqs(await take(sub, 2)) == [1, 12]

    run(main)


def test_a_changed_subscription_goes_on_as_it_was(broker):
    count, keys = 5_000, 10

    async def main():
        async with two(broker.url, broker.url) as (publisher, subscriber):
            sub = await subscriber.subscribe("n >= 0", buffer=50)
            total = 0
            for selector in ("n > -1", "n > -2"):
                for n in range(count):
                    await publisher.publish({"n": n}, key=f"k{n % keys}")
                last = await publisher.publish({"n": count}, key="last")
                while (await anext(sub)).id != last:
                    pass
                total += count + 1
                stats = sub.stats
                assert (stats.delivered + stats.obsoleted, stats.lost) == (total, 0)
                await sub.update(selector)

    run(main)


def test_changes_that_overlap_are_all_answered_and_one_that_is_refused_changes_nothing(brokers):
    broker = brokers(selector_length_max=20)

    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("n = 0")
            waiting = asyncio.create_task(sub.update("n = 1"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(*(sub.update(f"n = {n}") for n in range(2, 10)))
            with pytest.raises(gossamer.UsageError, match="at most 20 characters"):
                await sub.update("n = 10 OR n = 11 OR n = 12")
            assert sub.selector == "n = 9"
            for n in range(13):
                await client.publish({"n": n})
            assert seqs(await take(sub, 1)) == [9]

    run(main)


def test_what_leaves_and_what_is_deleted_is_told(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("n > 10", notices=True)
            shown = await client.publish({"n": 11}, key="a")
            assert (await anext(sub)).id == shown
            await client.publish({"n": 1}, key="a")
            assert await anext(sub) == gossamer.Left("a", shown)
            await client.publish({"n": 12}, key="b")
            assert (await anext(sub)).attributes == {"n": 12}
            await client.delete("b", {"n": 12})
            tombstone = await anext(sub)
            assert (tombstone.deleted, tombstone.key) == (True, "b")
            assert sub.stats.left == 1

    run(main)


def test_a_transaction_comes_whole(broker):
    async def main():
        async with two(broker.url, broker.url) as (publisher, subscriber):
            sub = await subscriber.subscribe("", notices=True)
            await publisher.publish({"n": 0}, key="z")
            async with publisher.transaction(ack="sent") as tx:
                tx.publish({"n": 1}, key="a")
                tx.publish({"n": 2}, key="b")
            await publisher.publish({"n": 3}, key="c")
            before, a, b, commit, after = await take(sub, 5)
            assert seqs([before, a, b, after]) == [0, 1, 2, 3]
            assert commit == gossamer.Commit(tx.id)
            with suppress(ZeroDivisionError):
                async with publisher.transaction() as tx:
                    tx.publish({"n": 9})
                    raise ZeroDivisionError
            await publisher.publish({"n": 4})
            assert seqs(await take(sub, 1)) == [4]

    run(main)


def test_what_was_seen_is_named_by_a_selector(broker):
    async def main():
        async with two(broker.url, broker.url) as (desk, auditor):
            sub = await auditor.subscribe("order IS NOT NULL")
            for n, order in enumerate((7, 8, 7, 7)):
                await desk.publish({"order": order, "n": n}, key="state" if n == 2 else None)
            await desk.publish({"order": 7, "n": 4}, key="state")
            seen = [auditor.seen(await anext(sub))[0] for _ in range(5)]
            assert auditor.seen("order = 7") == (seen[0], seen[3], seen[4])  # 2 is obsolete by 4, of the same key
            assert auditor.seen(gossamer.attr.order == 8) == (seen[1],)
            closing = await auditor.publish({"order": 7, "closed": True}, obsoletes=auditor.seen("order = 7"))
            event = await anext(sub)
            assert (event.id, set(event.relation.ids)) == (closing, {*auditor.seen("order = 7"), seen[2]})
            auditor.seen(event)
            assert auditor.seen("order = 7") == (closing,)

    run(main)


def test_groups_do_not_hear_each_other(broker):
    async def main():
        async with gossamer.connect(broker.url, group="a") as one, gossamer.connect(broker.url, group="b") as other:
            sub, apart = await one.subscribe(""), await other.subscribe("")
            await other.publish({"n": 1})
            await one.publish({"n": 2})
            assert seqs([await anext(sub), await anext(apart)]) == [2, 1]

    run(main)


def test_batches_hand_out_what_is_there(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("")
            for n in range(5_000):
                await client.publish({"n": n})
            found = []
            async for batch in sub.batches():
                found += batch
                if len(found) == 5_000:
                    break
            assert seqs(found) == list(range(5_000))

    run(main)


def test_an_application_that_pays_for_each_batch_gets_the_final_state_in_few_batches(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("", policy="none", buffer=2_000)
            for n in range(5_000):
                await client.publish({"n": n}, key=f"k{n % 1_000}")
            state, batches = {}, 0
            async for batch in sub.batches():
                state |= {event.key: event.attributes["n"] for event in batch}
                batches += 1
                await asyncio.sleep(0.02)
                if len(state) == 1_000 and min(state.values()) == 4_000:
                    break
            assert batches < 100

    run(main)


def test_a_cloudevent_is_published_and_comes_back(broker):
    cloudevent = {
        "specversion": "1.0", "id": "A-1", "source": "/exchange", "type": "quote", "partitionkey": "IBM",
        "time": "2026-01-02T03:04:05Z", "datacontenttype": "application/json", "data": {"price": 101.5},
    }  # fmt: skip

    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("type = 'quote' AND source LIKE '/ex%'")
            await client.publish(cloudevent)
            event = await anext(sub)
            assert (event.key, event.body, event.to_cloudevent()) == ("IBM", b'{"price":101.5}', cloudevent)
            with pytest.raises(gossamer.UsageError, match="its own data"):
                await client.publish(cloudevent, b"body")

    run(main)


# Slow and fast --------------------------------------------------------------------------------------------------------


def test_a_slow_subscriber_delays_nobody_and_ends_in_the_right_state(broker):
    count, keys = 20_000, 50

    async def main():
        async with two(broker.url, broker.url) as (publisher, other), gossamer.connect(broker.url) as third:
            fast = await other.subscribe("n >= 0", policy="none")
            slow = await third.subscribe("n >= 0", buffer=100)
            state = {}

            async def read_slowly():
                async for event in slow:
                    state[event.key] = event.attributes["n"]
                    if event.attributes["n"] == count:
                        return
                    await asyncio.sleep(0.002)

            reading = asyncio.create_task(read_slowly())
            for n in range(count):
                await publisher.publish({"n": n}, key=f"k{n % keys}")
            assert seqs(await take(fast, count)) == list(range(count))
            assert not reading.done()
            await publisher.publish({"n": count}, key="last")
            await reading
            assert state == {f"k{n % keys}": n for n in range(count - keys, count)} | {"last": count}
            stats = slow.stats
            assert (stats.lost, stats.delivered + stats.obsoleted) == (0, count + 1)
            assert stats.obsoleted > count / 2

    run(main)


def test_one_that_is_behind_what_is_not_obsolete_catches_up(broker):
    async def main():
        async with two(broker.url, broker.url) as (publisher, subscriber):
            sub = await subscriber.subscribe("n >= 0", buffer=10)
            for n in range(5_000):
                await publisher.publish({"n": n})
            await publisher.flush()
            found = []
            while len(found) < 5_000:
                found.append(await anext(sub))
            assert seqs(found) == list(range(5_000))
            assert (sub.stats.lost, sub.stats.obsoleted) == (0, 0)
            await publisher.publish({"n": 5_000})
            assert seqs(await take(sub, 1)) == [5_000]

    run(main)
    assert broker.clients.counters.fallen_behind > 0


def test_a_client_that_reads_nothing_costs_the_others_nothing(broker):
    async def main():
        async with two(broker.url, broker.url) as (publisher, subscriber):
            stuck = await subscriber.subscribe("", buffer=10)
            sub = await publisher.subscribe("")
            for n in range(3_000):
                await publisher.publish({"n": n}, bytes(100))
            assert seqs(await take(sub, 3_000)) == list(range(3_000))
            assert stuck.stats.delivered == 0

    run(main)


def test_publish_nowait_says_when_there_is_no_room(mesh):
    b1 = mesh.broker("b1").ready()
    logger = mesh.logger("L", b1.address).ready()
    wait_for_members(b1, logger)
    logger.kill()  # known to the broker, and silent: nothing is logged any more

    async def main():
        async with gossamer.connect(b1.url, timeout=1) as client:
            for n in range(65_536):
                client.publish_nowait({"n": n})
            with pytest.raises(gossamer.BufferFull):
                client.publish_nowait({"n": -1})
            assert client.pending == 65_536
            with pytest.raises(gossamer.Timeout):
                await client.publish({"n": -1}, timeout=0.1)

    run(main)


def test_a_queue_that_throws_out_at_random_is_never_behind_and_counts_what_is_lost(broker):
    count = 5_000

    async def main():
        async with two(broker.url, broker.url) as (publisher, subscriber):
            sub = await subscriber.subscribe("n >= 0", buffer=50, policy="random")
            for n in range(count):
                await publisher.publish({"n": n}, key="k" if n % 2 else None)
            await publisher.flush()
            await publisher.publish({"n": count})
            found = [await anext(sub)]
            while found[-1].attributes["n"] < count - 100:  # the last ones may be thrown out, too
                found.append(await anext(sub))
            assert seqs(found) == sorted(set(seqs(found)))
            assert 0 < sub.stats.lost < count
            assert sub.stats.obsoleted == 0
            with pytest.raises(gossamer.UsageError, match="random"):
                await subscriber.subscribe("", policy="random", start="all")

    run(main)
    assert broker.clients.counters.fallen_behind == 0


# Waiting, ending, failing ---------------------------------------------------------------------------------------------


def test_cancelling_a_wait_loses_nothing(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("")
            found = []
            for n in range(50):
                waiting = asyncio.create_task(anext(sub))
                await client.publish({"n": n}, ack="sent" if n % 2 else None)
                await asyncio.sleep(0)
                waiting.cancel()
                with suppress(asyncio.CancelledError):
                    found.append(await waiting)
            found += await take(sub, 50 - len(found))
            assert seqs(found) == list(range(50))

    run(main)


def test_tasks_that_share_a_subscription_have_each_event_once(broker):
    async def main():
        async with two(broker.url, broker.url) as (publisher, subscriber):
            sub = await subscriber.subscribe()
            found: list[int] = []

            async def share():
                async for event in sub:
                    found.append(event.attributes["n"])
                    if not event.attributes["n"] % 3:
                        await asyncio.sleep(0)

            tasks = [asyncio.ensure_future(share()) for _ in range(3)]
            for n in range(2_000):
                await publisher.publish({"n": n})
                if not n % 50:  # so that they wait, all of them
                    await publisher.flush("sent")
            while len(found) < 2_000:
                await asyncio.sleep(0.001)
            assert sorted(found) == list(range(2_000))
            await sub.close()
            await asyncio.gather(*tasks)

    run(main)


def test_who_has_much_to_take_lets_other_tasks_run(broker):
    async def main():
        async with two(broker.url, broker.url) as (publisher, subscriber):
            sub = await subscriber.subscribe()
            turns = 0

            async def turn():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            for n in range(5_000):
                await publisher.publish({"n": n})
            await publisher.flush("sent")
            task = asyncio.ensure_future(turn())
            taken: Counter[int] = Counter()
            async for event in sub:
                taken[turns] += 1
                if event.attributes["n"] == 4_999:
                    break
            task.cancel()
            assert taken.total() == 5_000
            assert max(taken.values()) < YIELD_EVENTS + CHUNK_MAX

    run(main)


def test_an_iteration_ends_when_its_subscription_is_closed(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("")

            async def read():
                return [event async for event in sub]

            reading = asyncio.create_task(read())
            await client.publish({"n": 1})
            while not sub.stats.delivered:
                await asyncio.sleep(0)
            await sub.close()
            assert seqs(await reading) == [1]
        until(lambda: not broker.clients.deliveries.subscribers)

    run(main)


def test_nobody_there_is_said_in_time():
    async def main():
        with pytest.raises(gossamer.ConnectionLost, match="no broker"):
            async with gossamer.connect("tcp://127.0.0.1:1", timeout=0.3):
                pass

    run(main)


def test_what_waits_is_told_when_the_last_broker_is_gone(brokers):
    broker = brokers()

    async def main():
        async with gossamer.connect(broker.url, timeout=0.5) as client:
            sub = await client.subscribe("")
            waiting = asyncio.create_task(anext(sub))
            await asyncio.sleep(0)
            await asyncio.to_thread(broker.runtime.kill)
            with pytest.raises(gossamer.ConnectionLost):
                await waiting
            depths = set()
            for _ in range(3):  # what is raised again is not longer each time
                for use in (client.publish({}), anext(sub), sub.update("n = 1")):
                    with pytest.raises(gossamer.ConnectionLost) as raised:
                        await use
                    depths.add(len(raised.traceback))
            assert max(depths) <= 5

    run(main)


@pytest.mark.parametrize("_", range(5))  # it is a race, and was lost one time in three
def test_who_goes_on_publishing_is_with_the_next_broker_at_the_first_hello(brokers, _):
    """The loop that publishes is at the socket of a session; one that has not begun is the transport's thread's."""
    first = brokers()
    second = brokers(first.address)
    until(lambda: len(first.runtime.members) == 2)

    async def main():
        async with gossamer.connect([first.url, second.url]) as client:
            for n in range(1_000):
                await client.publish({"n": n})
            await client.flush()
            killing = asyncio.create_task(asyncio.to_thread(first.runtime.kill))
            while client.node != second.runtime.name:
                for _ in range(50):
                    await client.publish({"n": -1})
                await asyncio.sleep(0.003)
            await killing
            assert client._transport._epoch == 2, "sessions: one with each broker"

    run(main)


def test_a_broker_that_is_killed_loses_and_doubles_nothing(mesh):
    b1 = mesh.broker("b1").ready()
    b2 = mesh.broker("b2", b1.address).ready()
    logger = mesh.logger("L", b1.address).ready()
    wait_for_members(b1, logger)
    wait_for_members(b2, logger)
    count = 30_000

    async def main():
        urls = [b1.url, b2.url]
        async with two(urls, urls) as (publisher, subscriber):
            sub = await subscriber.subscribe("n >= 0")
            elsewhere = await (await gossamer.connect(b2.url)).subscribe("n >= 0")

            async def publish():
                for n in range(count):
                    await publisher.publish({"n": n})
                    if n == count // 3:
                        b1.kill()
                await publisher.flush("logged")

            publishing = asyncio.create_task(publish())
            assert seqs(await take(sub, count)) == list(range(count))
            assert seqs(await take(elsewhere, count)) == list(range(count))
            await publishing
            assert (publisher.node, subscriber.node) == ("b2", "b2")
            assert publisher._transport.reconnects == 1

    run(main)


def test_a_broker_that_leaves_hands_its_clients_over(mesh):
    b1 = mesh.broker("b1").ready()
    b2 = mesh.broker("b2", b1.address).ready()
    logger = mesh.logger("L", b1.address).ready()
    wait_for_members(b1, logger)
    wait_for_members(b2, logger)

    async def main():
        async with gossamer.connect([b1.url, b2.url]) as client:
            sub = await client.subscribe("")
            await client.publish({"n": 0})
            assert seqs(await take(sub, 1)) == [0]
            assert await asyncio.to_thread(b1.terminate) == 0
            await client.publish({"n": 1}, ack="logged")
            assert seqs(await take(sub, 1)) == [1]
            assert client.node == "b2"

    run(main)


def test_an_application_that_blocks_its_loop_stays_connected(brokers):
    broker = brokers(silence_s=1.0)

    async def main():
        async with gossamer.connect(broker.url) as client:
            sub = await client.subscribe("")
            time.sleep(3.0)
            await client.publish({"n": 1}, ack="sent")
            assert seqs(await take(sub, 1)) == [1]
            assert client._transport.reconnects == 0

    run(main)


def test_what_was_published_leaves_though_the_loop_is_blocked(brokers):
    broker = brokers()

    async def main():
        async with gossamer.connect(broker.url) as client:
            for round in range(60):
                for n in range(1 + round % 7):
                    await client.publish({"n": n})
                    if not round % 3:  # at another moment of what the transport's thread does
                        await asyncio.sleep(0.0003)
                last = client.pending + client._outgoing.acked
                until(lambda last=last: client._outgoing.acks.sent >= last)

    run(main)


def test_what_is_too_much_is_refused_to_the_one_at_fault(brokers):
    broker = brokers(subscriptions_max=1, selector_length_max=50)

    async def main():
        async with two(broker.url, broker.url) as (client, other):
            with pytest.raises(gossamer.UsageError, match="at most 50 characters"):
                await client.subscribe(" OR ".join(f"n = {n}" for n in range(100)))
            await client.subscribe("n = 1")
            with pytest.raises(gossamer.UsageError, match="at most 1 subscriptions"):
                await client.subscribe("n = 2")
            await other.subscribe("n = 2")
        assert broker.clients.counters.refusals == {"limit": 2}

    run(main)


def test_wrong_arguments_are_the_callers_error(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            for _ in range(2):  # names that are known by then, too
                with pytest.raises(gossamer.UsageError, match="at most 256"):
                    client.publish_nowait({f"n{number}": None for number in range(257)})
                for number in range(257):
                    client.publish_nowait({f"n{number}": None})
            with pytest.raises(gossamer.UsageError, match="body: bytes, at most"):
                client.publish_nowait({"n": 1}, bytes(4 * 2**20 + 1))
            with pytest.raises(gossamer.UsageError, match="attribute 'n'"):
                await client.publish({"n": object()})
            with pytest.raises(gossamer.UsageError, match="ack"):
                await client.publish({}, ack="maybe")
            for buffer in (0, True, 1.5, "1"):
                with pytest.raises(gossamer.UsageError, match="buffer"):
                    await client.subscribe("", buffer=buffer)
            with pytest.raises(gossamer.UsageError, match="delivered"):
                client.seen(gossamer.Event())
        with pytest.raises(gossamer.ConnectionLost, match="closed"):
            client.publish_nowait({})

    run(main)


def test_rubbish_is_counted_and_dropped(broker):
    import zmq

    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.connect(broker.url)
    for frame in (b"", b"\x01\xff", b"\x02hello", bytes(100)):
        socket.send(frame)
    socket.send_multipart([b"a", b"b"])
    until(lambda: broker.clients.counters.client_errors == 5)
    socket.close(linger=0)
    context.term()

    async def main():
        async with gossamer.connect(broker.url) as client:
            await client.publish({}, ack="sent")

    run(main)


# An embedded node -----------------------------------------------------------------------------------------------------


def test_without_a_url_a_node_is_embedded(tmp_path):
    async def main():
        async with gossamer.connect(data=str(tmp_path)) as client:
            sub = await client.subscribe("price > 100")
            await client.publish({"price": 101.5}, ack="logged")
            assert (await anext(sub)).attributes == {"price": 101.5}

    run(main)
    assert (tmp_path / "gossamer.db").exists()


@pytest.mark.parametrize("url", ["foo", "127.0.0.1:7400", "http://127.0.0.1:1", "tcp://127.0.0.1"])
def test_a_url_that_is_none_is_refused_at_once(url):
    with pytest.raises(gossamer.UsageError, match="is not an address like tcp://"):
        gossamer.connect(url)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": 5}, "5 is not an address"),
        ({"url": [5]}, "5 is not an address"),
        ({"url": []}, "a url, several, or None"),
        ({"peers": 5}, "5 is not an address"),
        ({"group": 5}, "group .5.: a name is"),
        ({"publisher": 5}, "publisher .5.: a name is"),
        ({"spool": "file"}, "spool= is a named publisher's"),
        ({"timeout": "soon"}, "timeout: a number of seconds"),
        ({"timeout": 0}, "timeout: a number of seconds"),
        ({"url": "tcp://127.0.0.1:1", "data": "folder"}, "are the embedded node's"),
        ({"url": "tcp://127.0.0.1:1", "listen": "tcp://127.0.0.1:0"}, "are the embedded node's"),
    ],
)
def test_what_connect_cannot_take_is_refused_at_once(options, said):
    with pytest.raises(gossamer.UsageError, match=said):
        gossamer.connect(**options)


def test_a_file_is_no_folder_to_keep_events_in(tmp_path):
    (tmp_path / "file").touch()

    async def main():
        with pytest.raises(gossamer.UsageError, match="is no folder to keep events in"):
            await gossamer.connect(data=tmp_path / "file")

    run(main)


def test_an_ack_that_there_is_not_publishes_nothing(broker):
    async def main():
        async with gossamer.connect(broker.url) as client:
            for publish in (client.publish({"n": 1}, ack="soon"), client.delete("k", ack="soon"), client.flush("soon")):
                with pytest.raises(gossamer.UsageError, match="ack"):
                    await publish
            with pytest.raises(gossamer.UsageError, match="ack"):
                client.transaction(ack="soon")
            assert (await client.publish({"n": 2})).seq == 0

    run(main)
