"""scaler_top without a terminal: what it shows, for which screen, and in which order."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace

import pytest

from scaler.monitoring import ClusterState, Condition, UserFigures
from scaler.top.board import board_of
from scaler.top.columns import BY_KEY, COLUMNS, Sorting, row_of
from scaler.top.formats import byte_text, columns_of, cpu_text, lag_text, name_text, plain
from scaler.top.meters import RATES_KEPT, Throughput, bar, meters_of, sparkline
from scaler.top.pages import OBJECTS, worker_page
from scaler.top.report import as_json, as_text
from scaler.top.screen import Screen, View, draw, text_of
from scaler_protocol import codes
from scaler_protocol.columns import join_u64
from scaler_protocol.ids import ObjectId, PeerId, TaskId, new_peer_id
from scaler_protocol.messages import (
    Capability,
    ClientEntry,
    ClusterEvent,
    ClusterStatus,
    Count,
    FunctionEntry,
    FunctionName,
    HostTraffic,
    ManagerEntry,
    ObjectEntry,
    ProcessorStatus,
    Software,
    StorageStatus,
    WaitingClass,
    WorkerEntry,
    WorkerStatus,
)

MIB = 1 << 20
FUNCTION = ObjectId(bytes(range(16)))


def worker(name: str = "2732890|sd-1e7d-dfba|d26e", **options: object) -> WorkerEntry:
    """The first line of the table in the documents that the project began with."""
    processor = ProcessorStatus(process_id=7, state=1, cpu=0.005, rss_bytes=int(113.3 * MIB))
    status = WorkerStatus(agent_cpu=0.005, agent_rss_bytes=int(111.8 * MIB), processors=(processor,))
    whole = WorkerEntry(new_peer_id(), name, credit_limit=1000, lag_seconds=0.0007, status=status)
    return replace(whole, **options)  # type: ignore[arg-type]


def status(*workers: WorkerEntry) -> ClusterStatus:
    return ClusterStatus(
        server_id=new_peer_id(),
        cpu=0.03,
        rss_bytes=int(130.1 * MIB),
        task_counts=(Count("queued", 0), Count("success", 53_704), Count("failed", 14)),
        sent_counts=(Count("Pong", 366), Count("Dispatch", 54_660)),
        received_counts=(Count("Results", 53_794), Count("Submit", 53_764)),
        function_counts=(Count(FUNCTION.hex(), 9), Count("", 3)),
        function_names=(FunctionName(FUNCTION, "price"),),
        clients=(ClientEntry(new_peer_id(), Software(host="desk", process_id=41), 12),),
        storage=StorageStatus(0, object_count=233),
        workers=workers,
    )


def live(*workers: WorkerEntry) -> ClusterState:
    return ClusterState("tcp://127.0.0.1:1", Condition.LIVE, status=status(*workers))


def lines(screen: Screen) -> list[str]:
    return [text_of(line) for line in screen.lines]


def shown(state: ClusterState, width: int = 200, height: int | None = None, view: View | None = None) -> str:
    return "\n".join(lines(draw(board_of(state), view or View(), width, height)))


def of_users() -> ClusterState:
    whole = status(worker("w1", user="ana"), worker("w2", user="\x1b[31mbo"), worker("w3"))
    clients = (
        ClientEntry(new_peer_id(), Software(host="desk", process_id=41), 12, "ana", 3, 2 * MIB),
        ClientEntry(new_peer_id(), Software(host="desk", process_id=42), 1_000, "ana", 30, 0),
        ClientEntry(new_peer_id(), Software(host="desk", process_id=43), 7, "a name of very many letters", 0, 5),
    )
    return ClusterState("tcp://127.0.0.1:1", Condition.LIVE, status=replace(whole, clients=clients))


@pytest.mark.parametrize("width", [80, 200])
def test_whose_workers_clients_tasks_and_objects_there_are(width: int) -> None:
    text = shown(of_users(), width, view=View(Sorting().pressed("u")))
    words = " ".join(text.split())
    assert "ana 1,012 33 2.0MiB" in words and "a name of very many lett+ 7 0 0.0KiB" in words
    assert "ana 42|desk 1,000" in words and "a name of + 43|desk 7" in words
    rows = {line.split()[0]: line for line in text.splitlines() if line.lstrip()[:2] in ("w1", "w2", "w3")}
    assert " ana " in rows["w1"] and " ?[31mbo " in rows["w2"] and " - " in rows["w3"]
    assert list(rows) == ["w3", "w2", "w1"], "in the order of their users"


def test_a_cluster_without_keys_has_no_users() -> None:
    text = shown(live(worker("w1")))
    assert "user_to" not in text and " user " not in text and "41|desk" in text
    assert json.loads(as_json(live(worker("w1"))))["users"] == []


def test_users_in_a_report() -> None:
    told = json.loads(as_json(of_users()))
    assert [one["user"] for one in told["workers"]] == ["ana", "\x1b[31mbo", ""]
    assert [(one["user"], one["object_count"], one["object_bytes"]) for one in told["clients"]][1] == ("ana", 30, 0)
    assert told["users"][0] == asdict(UserFigures("ana", 2, 1, 1_012, 33, 2 * MIB))


def test_formats() -> None:
    assert [byte_text(count) for count in (0, 512, int(28.4 * MIB), 1023 * MIB, 3 << 30, 5 << 50, 5 << 60)] == [
        "0", "0.5KiB", "28.4MiB", "1.0GiB", "3.0GiB", "5.0PiB", "5120.0PiB",
    ]  # fmt: skip
    assert [cpu_text(share) for share in (0, 0.005, 8)] == ["0.0%", "0.5%", "800.0%"]
    assert [lag_text(seconds) for seconds in (0, 0.0007, 0.001, 0.0123, 2)] == ["-", "0.7ms", "1ms", "12.3ms", "2.0s"]


def test_foreign_names_are_harmless() -> None:
    assert plain("w\x1b[2J\r\n\u202etxt") == "w?[2J???txt"
    assert name_text("a" * 24) == "a" * 24
    assert name_text("a" * 25) == "a" * 24 + "+"
    assert name_text("漢" * 13) == "漢" * 12 + "+" and columns_of("漢") == 2


def test_the_sections_and_the_line_of_a_worker() -> None:
    text = shown(live(worker()))
    assert "2732890|sd-1e7d-dfba|d26e+" not in text, "24 letters are not cut"
    cells = next(line for line in text.splitlines() if line.startswith("2732890")).partition("|  ")[0].split()
    assert cells[1:6] == ["0.5%", "111.8MiB", "0.5%", "[|.......]", "113.3MiB"]
    assert cells[8:14] == ["1,000", "0", "0", "0", "0.7ms", "100"]
    for part in (
        "scheduler ",
        "rss 130.1MiB",
        "num_of_objs",
        "233",
        "success 53,704",
        "Dispatch 54,660",
        "Submit 53,764",
    ):
        assert part in text
    assert "price" in text and FUNCTION.hex() not in text and "(other)" in text and "41|desk 12" in text
    assert "Total 1 worker(s)" in text
    keys = [f"{column.title}[{column.key}]" for column in COLUMNS if column.key]
    assert "Shortcuts" not in text and not any(key in text for key in keys), "a report has no keys to press"
    assert all(key in shown(live(worker()), height=24) for key in keys)


def test_letters_of_itl() -> None:
    def itl(*states: int) -> str:
        processors = tuple(ProcessorStatus(state=state) for state in states)
        return row_of(worker(status=WorkerStatus(processors=processors))).itl

    assert [itl(), itl(0), itl(1), itl(2), itl(3), itl(0, 1, 3)] == ["000", "000", "100", "110", "111", "111"]


def test_a_silent_worker_says_for_how_long() -> None:
    screen = draw(board_of(live(worker("w", silent_seconds=5.0), worker("v", silent_seconds=42.4))), View(), 120)
    silent = [line for line in screen.lines if any(style == "silent" for style, _ in line)]
    assert [text_of(line).split()[:2] for line in silent] == [["(42s)", "v"]]
    assert "1 silent" in "\n".join(lines(screen))


def test_a_worker_that_ends_nothing_says_for_how_long() -> None:
    """One with a long task does as well, in its own page alone. (MON-67)"""
    runs = WorkerStatus(processors=(ProcessorStatus(state=2, task_id=TaskId(b"t" * 16)),))
    ages = {"young": 9.0, "silent": 480.0, "still": 480.4, "long": 480.0}
    workers = {
        name: worker(name, still_seconds=age, held_count=1 if name == "long" else 2, status=runs)
        for name, age in ages.items()
    }
    workers["silent"] = replace(workers["silent"], silent_seconds=42.0)
    screen = draw(board_of(live(*workers.values())), View(), 120)
    marked = [line for line in screen.lines if any(style == "silent" for style, _ in line)]
    assert [text_of(line).split(maxsplit=3)[:3] for line in marked] == [
        ["(42s)", "silent", "0.0%"],
        ["(still", "480s)", "still"],
    ]
    assert "1 silent, 1 ending nothing" in "\n".join(lines(screen))
    told = {name: "has ended nothing for 480 s" in str(worker_page(one, {}).lead) for name, one in workers.items()}
    assert told == {"young": False, "silent": True, "still": True, "long": True}


def test_managers_and_what_they_have_started() -> None:
    manager = ManagerEntry(new_peer_id(), "slurm", workers_per_unit=4, starting_count=2)
    state = live(worker("w", manager_id=manager.manager_id, unit_id="job-7"), worker("v"))
    assert state.status is not None
    text = shown(replace(state, status=replace(state.status, managers=(manager,))))
    assert "slurm/job-7" in text and "Total 1 worker manager(s) with 2 worker(s), 8 pending" in text
    assert " manager" not in shown(live(worker())).splitlines()[-4], "the column is there only when it is of use"


@pytest.mark.parametrize("key", BY_KEY)
def test_a_key_sorts_and_turns_round(key: str) -> None:
    rows = [
        row_of(worker("w2", credit_limit=1, held_count=1, lag_seconds=0.2), "m2"),
        row_of(WorkerEntry(new_peer_id(), "w10", credit_limit=5, lag_seconds=0.1), "m10"),
        row_of(worker("w9", credit_limit=9, held_count=3, lag_seconds=0.3), "m9"),
    ]
    title = BY_KEY[key].title
    chosen = Sorting("worker" if title != "worker" else "cpu").pressed(key)
    values = [BY_KEY[key].value(rows[index]) for index in chosen.order(rows)]
    assert chosen.title == title and values == sorted(values, reverse=BY_KEY[key].is_descending)
    turned = [BY_KEY[key].value(rows[index]) for index in chosen.pressed(key).order(rows)]
    assert turned == sorted(values, reverse=not BY_KEY[key].is_descending)


def test_the_sorted_column_is_in_brackets_and_in_sight() -> None:
    state = live(*(worker(f"{number}|{'x' * 40}") for number in range(3)))
    assert "[cpu]" in shown(state, 80, 24)
    assert "os_rss_free " not in shown(state, 80, 24).splitlines()[-4]
    assert "[os_rss_free]" in shown(state, 80, 24, View(Sorting("os_rss_free")))


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24), (100, 30), (200, 60)])
@pytest.mark.parametrize("count", [0, 3, 1000])
def test_it_fits_on_the_screen(width: int, height: int, count: int) -> None:
    screen = draw(board_of(live(*(worker(f"node-{number:04}") for number in range(count)))), View(), width, height)
    widest = max(columns_of(text) for text in lines(screen))
    assert width < 80 or widest <= width, "below 80 columns the terminal cuts"
    assert width < 80 or len(screen.lines) <= height
    assert screen.page_rows + screen.last_first_row == max(count, screen.page_rows)


def test_scrolling_ends_at_the_last_worker() -> None:
    board = board_of(live(*(worker(f"node-{number:04}") for number in range(1000))))
    view = View(Sorting("worker", is_descending=False))
    screen = draw(board, replace(view, first_row=10**6), 80, 24)
    assert lines(screen)[-1].startswith("node-0999")
    assert f"{screen.last_first_row + 1:,}-1,000" in "\n".join(lines(screen))
    hidden = draw(board, replace(view, is_upper_hidden=True), 80, 24)
    assert hidden.page_rows > screen.page_rows and "task_manager" not in "\n".join(lines(hidden))


def test_very_many_clients_leave_room_for_the_functions() -> None:
    state = live(worker())
    assert state.status is not None
    clients = tuple(ClientEntry(new_peer_id(), Software(host="desk", process_id=n), 5) for n in range(500))
    text = shown(replace(state, status=replace(state.status, clients=clients)), 200, 40)
    assert "client_manager" in text and "func_to_num_tasks" in text and "price" in text
    assert "... 4" in text and len(text.splitlines()) <= 40


def test_what_functions_cost_is_on_the_screen() -> None:
    state = live(worker())
    assert state.status is not None and "func_done" not in shown(state), "no section without functions"
    price = FunctionEntry(
        FUNCTION, "price", submitted_count=1_024, dispatched_count=4, success_count=760, failed_count=4,
        run_seconds=0.764, buckets=bytes((7,)), bucket_counts=join_u64((764,)),
    )  # fmt: skip
    slow = FunctionEntry(ObjectId(b"s" * 16), "\x1b[31mslow", submitted_count=7)
    told = replace(state, status=replace(state.status, functions=(price, slow)))
    text = shown(told, 200)
    assert "func_done_failed_mean_p99" in text and re.search(r"price +764/1,024 +4 +1.0ms 1.2ms", text)
    assert re.search(r"slow +0/7 +0 +- +-", text) and "\x1b" not in text
    (figures, _) = json.loads(as_json(told))["function_figures"]
    assert (figures["name"], figures["success_count"], figures["queued_count"]) == ("price", 760, 256)


def test_what_is_wrong_is_on_the_screen() -> None:
    gone = replace(live(worker()), condition=Condition.SILENT, text="the scheduler has not been heard for 9 s")
    assert "has not been heard for 9 s" in shown(gone, 80, 24)
    assert "Total 0 worker(s)" in shown(ClusterState("tcp://127.0.0.1:1"), 80, 24)


def test_reports() -> None:
    state = live(worker("w\x1b[2J", software=Software(host="node", process_id=3)))
    assert "\x1b" not in as_text(state) and "w?[2J|node|3" in as_text(state)
    told = json.loads(as_json(state))
    assert told["tasks"] == {"queued": 0, "success": 53_704, "failed": 14}
    assert told["functions"] == [{"name": "price", "task_count": 9}, {"name": "(other)", "task_count": 3}]
    assert told["workers"][0]["free_count"] == 1000 and told["workers"][0]["processors"][0]["process_id"] == 7
    assert as_json(state).isascii()


def test_reports_have_events_waiting_tasks_and_objects() -> None:
    """As scripts read them: ids in hexadecimal digits, and capabilities by name."""
    state = live(worker())
    assert state.status is not None
    largest = ObjectEntry(b"\x01" * 16, b"\x02" * 16, 1, 1 << 20, 2.5, True, "price", codes.OBJECT_RESULT)
    storage = replace(state.status.storage, largest=(largest,), traffic=(HostTraffic("node", 7, 9),))
    status = replace(
        state.status, storage=storage, waiting_classes=(WaitingClass((Capability("gpu", 1),), 2, 0, 5, 0),),
        events=(ClusterEvent(8, 3.0, "worker_lost", "alpha", "gone", 4),), event_count=8,
    )  # fmt: skip
    told = json.loads(as_json(replace(state, status=status)))
    assert told["event_count"] == 8 and told["events"] == [
        {"number": 8, "age_seconds": 3.0, "kind": "worker_lost", "subject": "alpha", "text": "gone", "task_count": 4}
    ]
    (waiting,) = told["waiting"]
    assert waiting["capabilities"] == {"gpu": 1} and (waiting["task_count"], waiting["able_count"]) == (5, 0)
    assert told["storage"]["traffic"] == [{"host": "node", "put_bytes": 7, "got_bytes": 9}]
    (found,) = told["storage"]["largest"]
    assert (found["object_id"], found["owner"], found["total_bytes"]) == ("01" * 16, "02" * 16, 1 << 20)
    assert (found["kind"], found["name"]) == ("result", "price")


# ------------------------------------------------------------ meters, pages, filter


def told(uptime: float, ended: int, server: bytes = b"s" * 16) -> ClusterStatus:
    counts = (Count("queued", 7), Count("success", ended))
    return ClusterStatus(server_id=PeerId(server), uptime_seconds=uptime, task_counts=counts)


def test_a_rate_is_what_ended_between_two_statuses_of_one_scheduler() -> None:
    throughput = Throughput()
    for status_told in (told(1.0, 100), told(2.0, 300), told(2.0, 300), told(4.0, 300), told(0.5, 9, b"t" * 16)):
        throughput = throughput.after(status_told)
    assert throughput.rates == (200.0, 0.0), "one that comes twice, and another scheduler, are no rate"
    assert not throughput.functions
    for number in range(2 * RATES_KEPT):
        throughput = throughput.after(told(number + 1.0, 9 + number, b"t" * 16))
    assert len(throughput.rates) == RATES_KEPT


def test_each_function_has_the_rate_of_the_last_two_statuses() -> None:
    def status_with(uptime: float, *ended: int) -> ClusterStatus:
        named = zip(("price", "fit"), ended, strict=False)
        entries = (FunctionEntry(ObjectId(name.encode()), name, success_count=count) for name, count in named)
        return replace(told(uptime, sum(ended)), functions=tuple(entries))

    throughput = Throughput().after(status_with(1.0, 100)).after(status_with(3.0, 110, 6))
    assert throughput.functions == {"price": 5.0, "fit": 3.0}
    assert throughput.after(status_with(4.0, 110, 2)).functions == {"price": 0.0, "fit": 0.0}, "counted with the others"


def test_bars_and_sparklines() -> None:
    assert [bar(share, 6) for share in (0.0, 0.01, 0.5, 1.0, 7.0)] == ["[....]", "[|...]", "[||..]", "[||||]", "[||||]"]
    assert sparkline((0.0, 6.0, 14.0), 9) == "▁▄█"
    assert sparkline((9.0, 1.0, 1.0), 2) == "██" and sparkline((0.0, 0.0), 2) == "▁▁" and sparkline((1.0,), 0) == ""


def test_a_worker_has_a_bar_of_its_memory_of_what_it_could_have() -> None:
    processors = (ProcessorStatus(rss_bytes=MIB), ProcessorStatus(rss_bytes=2 * MIB))
    figures = WorkerStatus(agent_rss_bytes=MIB, host_free_bytes=12 * MIB, processors=processors)
    screen = draw(board_of(live(worker("a", status=figures), worker("b", status=WorkerStatus()))), View(), 220, 50)
    found = lines(screen)
    head = next(index for index, line in enumerate(found) if " mem " in line and " ITL" in line)
    place = found[head].index("mem")
    bars = [line[place : place + 10] for line in found[head + 1 : head + 3]]
    assert bars == ["[||......]", "[........]"]
    narrow = draw(board_of(live(worker("a", status=figures))), View(), 100, 50)
    assert any(" use " in line for line in lines(narrow)) and not any(" mem " in line for line in lines(narrow))


def test_meters_count_the_free_memory_of_a_host_once() -> None:
    figures = WorkerStatus(agent_rss_bytes=MIB, host_free_bytes=6 * MIB, processors=(ProcessorStatus(cpu=0.5),) * 2)
    workers = [worker(name, status=figures, software=Software(host="desk")) for name in "ab"]
    cpu, memory, tasks = meters_of(status(*workers))
    assert (cpu.text, cpu.share) == ("2.0/4", 0.5)
    assert (memory.text, memory.share) == ("2.0MiB/8.0MiB", 0.25)
    assert tasks.text == "53,718/53,718"
    assert [one.share for one in meters_of(ClusterStatus())] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50), (50, 30)])
def test_meters_are_as_wide_as_the_screen(width: int, height: int) -> None:
    screen = draw(board_of(live(worker())), View(), width, height, rates=(1.0, 1_234_567.0))
    first = lines(screen)[0]
    assert first.startswith("tasks/s") and "1,234,567, most" in first and "▁█" in first
    metered = [line for line in lines(screen) if line.startswith(("tasks/s", "cpu  ", "memory", "tasks "))]
    assert all(columns_of(line) <= width for line in metered) and len(metered) == (4 if width < 60 else 2)


def test_a_filter_shows_workers_with_all_words() -> None:
    board = board_of(live(worker("alpha-1", user="ana"), worker("alpha-2"), worker("beta-1", user="ana")))
    screen = draw(board, View(search="ALPHA ana"), 120, 30)
    assert len(screen.peers) == 1 and "/ALPHA ana" in "\n".join(lines(screen))
    assert "alpha-2" not in "\n".join(lines(screen)) and "alpha-1" in lines(screen)[-1]
    assert draw(board, View(search="nothing"), 120, 30).peers == ()


def test_the_cursor_stays_on_its_worker_and_in_sight() -> None:
    state = live(*(worker(f"node-{number:03}") for number in range(300)))
    board = board_of(state)
    last = board.rows[299].peer_id
    for is_descending in (True, False):
        view = View(Sorting("worker", is_descending=is_descending), chosen=last)
        screen = draw(board, view, 80, 24)
        chosen = [line for line in screen.lines if any(style == "chosen" for style, _ in line)]
        assert [text_of(line).split()[0] for line in chosen] == ["node-299"] and len(screen.lines) <= 24


def test_a_workers_processors_and_what_they_run() -> None:
    task = TaskId(b"\x24\x1a\x05\xfe" + bytes(4) + (9).to_bytes(8, "little"))
    processors = (
        ProcessorStatus(process_id=71, state=2, cpu=0.5, rss_bytes=MIB, task_id=task, running_seconds=2.5),
        ProcessorStatus(process_id=72, state=1),
        ProcessorStatus(process_id=73, state=99),
    )
    one = worker(
        "w", status=WorkerStatus(processors=processors), capabilities=(Capability("gpu", 2),), user="\x1b[2Jbo"
    )
    board = board_of(live(one, worker("v")))
    view = View(opened=one.peer_id)
    text = "\n".join(lines(draw(board, view, 120, 30, names={task: "price\x1b"})))
    assert re.search(r"71 running \[\|+\.+\] 50\.0% 1\.0MiB 2\.5s 241a05fe:9 price\?", text)
    assert "72 idle" in text and "73 99" in text and "offers gpu=2" in text and "\x1b" not in text
    gone = draw(board_of(live(worker("v"))), view, 120, 30)
    assert gone.peers, "a worker that has gone leaves the table of the others"


def test_pages_of_functions_and_events() -> None:
    state = live(worker())
    assert state.status is not None
    price = FunctionEntry(
        FUNCTION, "price", submitted_count=10, success_count=4, failed_count=1, dispatched_count=2, queued_seconds=2.0,
        cpu_seconds=1.5, buckets=bytes((0,)), bucket_counts=join_u64((5,)),
    )  # fmt: skip
    other = FunctionEntry(ObjectId(b"o" * 16), "another", submitted_count=1, cpu_seconds=0.5)
    events = (ClusterEvent(1, 62.0, "worker_joined", "alpha"), ClusterEvent(2, 3.0, "worker_lost", "alpha", "\x1bgone"))
    board = board_of(replace(state, status=replace(state.status, functions=(other, price), events=events)))
    functions = lines(draw(board, View(page="functions"), 120, 30))
    assert "workers [functions] objects events" in "\n".join(functions)
    assert re.search(r"price +\[\|{5}\.{5}\] +5/10 +1 +2 +3 +- ", functions[-1])
    columns = dict(zip(functions[-3].split(), functions[-1].split(), strict=True))
    assert (columns["share"], columns["wait"], columns["p50"], columns["cpu"]) == ("75.0%", "200ms", "50us", "1.5s")
    rated = lines(draw(board, View(page="functions"), 140, 30, function_rates={"price": 12.34}))
    assert re.search(r" 3 +12\.3 ", rated[-1])
    assert lines(draw(board, View(page="functions", search="nothing"), 120, 30))[-1] == "no function"
    shown_events = lines(draw(board, View(page="events"), 120, 30))
    assert re.search(r"3\.0s ago worker_lost +alpha \?gone", shown_events[-2]), "the latest comes first"
    many = replace(state, status=replace(state.status, events=events * 40))
    screen = draw(board_of(many), View(page="events", first_row=10**6), 80, 24)
    assert len(screen.lines) <= 24 and screen.last_first_row == 80 - screen.page_rows


def test_what_no_worker_can_run_is_said() -> None:
    state = live(worker())
    assert state.status is not None
    waiting = (
        WaitingClass((Capability("gpu", 2), Capability("linux", -1)), task_count=12),
        WaitingClass((), task_count=5, able_count=1),
    )
    text = shown(replace(state, status=replace(state.status, waiting_classes=waiting)), 120, 30)
    assert "12 queued task(s) wait for a worker that offers gpu=2, linux: none is connected" in text
    assert text.count("none is connected") == 1


@pytest.mark.parametrize("count", [1, 30])
def test_a_small_screen_has_rows_of_the_table(count: int) -> None:
    """Sections above it, however many, leave room for three of them."""
    state = live(*(worker(f"node-{number}") for number in range(count)))
    assert state.status is not None
    functions = tuple(FunctionEntry(ObjectId(bytes((n,)) * 16), f"f{n}", submitted_count=1) for n in range(20))
    waiting = (WaitingClass((Capability("gpu", 2),), task_count=12),)
    busy = replace(state, status=replace(state.status, functions=functions, waiting_classes=waiting))
    screen = draw(board_of(busy), View(), 80, 24, rates=(1.0,))
    rows = [line for line in lines(screen) if line.strip().startswith("node-")]
    assert len(screen.lines) <= 24 and len(rows) >= min(count, 3)


def test_help_names_every_key_and_column() -> None:
    text = shown(live(), 80, 40, View(is_help=True))
    assert all(f"{column.title}[{column.key}]" in text for column in COLUMNS if column.key)
    assert all(word in text for word in ("Enter", "Tab", "/", "pause", "quit", "round-trip"))


def test_messages_of_the_scheduler_have_a_page_of_their_own() -> None:
    state = live(worker())
    assert "Dispatch" in shown(state) and "Dispatch" not in shown(state, 132, 45)
    text = shown(state, 132, 45, View(page="messages", search="s"))
    assert [line.split() for line in text.splitlines()[-4:]] == [
        ["message", "sent", "received"],
        ["Dispatch", "54,660", "0"],
        ["Results", "0", "53,794"],
        ["Submit", "0", "53,764"],
    ]


def test_the_largest_objects_and_what_travelled() -> None:
    client = ClientEntry(new_peer_id(), Software(host="n1", process_id=7), user="ana")
    entries = (
        ObjectEntry(b"\1" * 16, client.peer_id, 2, 3 * 2**30, 90.0, True),
        ObjectEntry(b"\2" * 16, b"\3" * 16, 1, 2**17, 1.0, False, "pri\x1bce", codes.OBJECT_RESULT),
        ObjectEntry(b"\4" * 16, b"\3" * 16, 1, 2**17, 1.0, False, "fit", codes.OBJECT_FUNCTION),
        ObjectEntry(b"\5" * 16, b"\3" * 16, 1, 2**17, 1.0, False, "", codes.OBJECT_CODE_SET),
    )
    storage = StorageStatus(0, largest=entries, traffic=(HostTraffic("n1", 2**20, 2**21), HostTraffic("", 1, 1)))
    state = ClusterState("tcp://h:1", Condition.LIVE, status=ClusterStatus(storage=storage, clients=(client,)))
    text = shown(state, 100, 40, View(page=OBJECTS))
    assert "[objects]" in text and "n1: 1.0MiB stored, 2.0MiB read" in text and "(others): 0.0KiB stored" in text
    assert "01010101" in text and "3.0GiB" in text and "ana 7|n1" in text and "disk" in text
    kinds = ("value", "result of pri?ce", "function fit", "code set")
    assert all(
        re.search(rf"{number:02d}{number:02d}\S* +{re.escape(kind)} +\d", text)
        for number, kind in zip((1, 2, 4, 5), kinds, strict=True)
    )
    assert "\x1b" not in text and "128.0KiB" in text and "03030303" in text
    assert "01010101" not in shown(state, 100, 40, View(page=OBJECTS, search="memory"))
    assert "no object has 64 KiB or more" in shown(live(), 100, 40, View(page=OBJECTS))
