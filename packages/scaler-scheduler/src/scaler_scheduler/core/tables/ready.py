"""The queue of tasks that could run now (SCH-9, SCH-10, SCH-11, SCH-91).

Deeper tasks come first. Of equal depth come those of the user that has had the least time of workers, and of these
those of higher priority: a user's priorities say nothing of the tasks of others, so each user has lines of its own. Of
equal urgency comes the program of the user that has had the least, and each client's tasks leave in the order of
submission. Without keys all clients are of one user. Tasks are queued and taken as runs of indexes into a chunk: a
range where they are neighbours, a deque where they became ready one after another.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, islice, repeat, takewhile
from operator import attrgetter

from scaler_protocol.ids import TaskId
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.columns import Indexes
from scaler_scheduler.core.entities.requirements import ClassKey
from scaler_scheduler.core.entities.shares import UserShare
from scaler_scheduler.core.entities.workers import LoadIndex
from scaler_scheduler.core.tables.turns import PORTION_TASKS, Line, Run, Turn, take, take_run

#: Empty classes are kept below this: most tasks are of the class that the last ones were of.
CLASSES_LIMIT = 64
DISCARDED_RUNS = 100
RUNS_LOOKED_AT = 64
LOOKED_AT = 20_000
"""How many queued tasks are looked at to say where in the queue one task stands: this takes one or two milliseconds."""


class ReadyClass:
    """`count` tells how many can be taken; those of clients that are held, and those set aside, cannot."""

    __slots__ = (
        "_aside",
        "_aside_count",
        "_held",
        "_line",
        "_turns",
        "count",
        "index",
        "key",
        "may_borrow",
        "number",
        "urgency",
    )

    def __init__(self, key: ClassKey, index: LoadIndex[ReadyClass], number: int = 0) -> None:
        self.key = key
        self.number = number  #: of equally urgent ones that of the lower number comes first
        self.urgency = key.urgency
        self.index = index  #: the workers that can take these tasks
        #: they take amounts, and have ancestors that could lend theirs (SCH-47)
        self.may_borrow = key.is_nested and any(item.amount > 0 for item in key.requirement)
        self.count = 0
        self._line = Line()
        self._turns = self._line.turns
        self._held: dict[Client, Turn] = {}
        #: tasks that will be canceled and are not to begin before (CAN-13)
        self._aside: dict[Chunk, dict[int, None]] = {}
        self._aside_count = 0

    @property
    def held_count(self) -> int:
        return sum(turn.count for turn in self._held.values()) + self._aside_count

    def add(self, chunk: Chunk, indexes: Indexes, *, at_front: bool) -> bool:
        """Returns whether the client had nothing here."""
        client, count = chunk.client, len(indexes)
        turns = self._held if client.is_held else self._turns
        turn = turns.get(client)
        is_new = turn is None
        if turn is None:
            turn = turns[client] = Turn()
            if client.share.shares.is_contended and not client.is_held:
                self._line.joined(client, turn)
        turn.count += count
        if not client.is_held:
            self.count += count
        runs = turn.runs
        if isinstance(indexes, range):
            runs.appendleft((chunk, indexes)) if at_front else runs.append((chunk, indexes))
            return is_new
        neighbour = runs[0 if at_front else -1] if runs else None
        if neighbour is None or neighbour[0] is not chunk or isinstance(neighbour[1], range):
            neighbour = (chunk, deque[int]())
            runs.appendleft(neighbour) if at_front else runs.append(neighbour)
        run = neighbour[1]
        assert not isinstance(run, range), "single tasks are gathered in a deque"
        run.extendleft(reversed(indexes)) if at_front else run.extend(indexes)
        return is_new

    def take(self, limit: int) -> tuple[Chunk, Indexes] | None:
        """At most `limit` tasks of one chunk, of the client whose turn it is."""
        while waiting := len(self._turns):
            client = next(iter(self._turns)) if waiting == 1 else self._line.next()
            if client.share.shares.is_contended:
                client.share.has_turn()
            turn = self._turns[client]
            taken = take(turn.runs, limit if waiting == 1 else min(limit, max(PORTION_TASKS, limit // waiting)))
            if not turn.runs:
                del self._turns[client]
            if taken is not None:
                self.count -= len(taken[1])
                turn.count -= len(taken[1])
                return taken
        return None

    def take_of(self, chunk: Chunk, limit: int) -> Indexes:
        """At most `limit` tasks of this chunk, whose turn it may not be. Empty: none of them can be taken."""
        turn = self._turns.get(chunk.client)
        runs = deque[tuple[Chunk, Run]]() if turn is None else turn.runs
        place = next((place for place, (other, _) in enumerate(runs) if other is chunk), None)
        if turn is None or place is None:
            return range(0)
        runs.rotate(-place)
        taken = take_run(runs, limit)
        runs.rotate(place)
        if not runs:
            del self._turns[chunk.client]
        self._count(chunk.client, turn, -len(taken))
        return taken

    def take_one(self, chunk: Chunk, index: int) -> bool:
        """This task, which was put at the front not long ago. False: it is not there any more, or is held."""
        turn = self._turns.get(chunk.client)
        for place, (other, run) in enumerate(islice(turn.runs, RUNS_LOOKED_AT) if turn is not None else ()):
            if other is chunk and not isinstance(run, range) and index in run and index not in chunk.dropped:
                assert turn is not None
                run.remove(index)
                if not run:
                    del turn.runs[place]
                if not turn.runs:
                    del self._turns[chunk.client]
                self._count(chunk.client, turn, -1)
                return True
        return False

    def set_aside(self, chunk: Chunk, indexes: Indexes) -> int:
        """These have just been taken and will not begin, nor will those of their chunk that are next in its client's
        line. Answers how many they are."""
        aside = self._aside.setdefault(chunk, {})
        count = -len(aside)
        aside.update(dict.fromkeys(indexes))
        turn = self._turns.get(chunk.client)
        if turn is not None and turn.runs[0][0] is chunk:
            _, following = take(turn.runs, len(chunk.ids)) or (chunk, ())
            aside.update(dict.fromkeys(following))
            self._count(chunk.client, turn, -len(following))
            if not turn.runs:
                del self._turns[chunk.client]
        count += len(aside)
        self._aside_count += count
        return count

    @property
    def standing(self) -> float:
        """Of the client that has the next turn: there must be one."""
        return self._line.next().share.standing

    @property
    def user(self) -> UserShare:
        """Returns the user of the client that has the next turn: there must be one."""
        return self._line.next().share.of_user

    @property
    def clients(self) -> Iterable[Client]:
        """Of which something can be taken here."""
        return [client for client, turn in self._turns.items() if turn.count]

    @property
    def set_aside_chunks(self) -> Iterable[Chunk]:
        return self._aside.keys()

    def drop(self, chunk: Chunk, indexes: Indexes) -> None:
        """These queued tasks have ended another way."""
        count = len(indexes) - self._drop_aside(chunk, indexes)
        if count:
            turn = self._turn_of(chunk.client)
            assert turn is not None, "a client with queued tasks has a turn"
            self._count(chunk.client, turn, -count)

    def _drop_aside(self, chunk: Chunk, indexes: Indexes) -> int:
        aside = self._aside.get(chunk)
        if aside is None:
            return 0
        here = [index for index in indexes if index in aside]
        for index in here:
            del aside[index]
        if not aside:
            del self._aside[chunk]
        self._aside_count -= len(here)
        return len(here)

    def hold(self, client: Client) -> None:
        turn = self._turns.pop(client, None)
        if turn is not None:
            self._held[client] = turn
            self.count -= turn.count

    def release(self, client: Client) -> None:
        turn = self._held.pop(client, None)
        if turn is not None and turn.runs:
            self._turns[client] = turn
            self._line.joined(client, turn)
            self.count += turn.count

    def forget(self, client: Client) -> None:
        """It has nothing queued any more."""
        (self._held if client.is_held else self._turns).pop(client, None)

    def runs_of(self, client: Client) -> deque[tuple[Chunk, Run]]:
        turn = self._turn_of(client)
        return deque() if turn is None else turn.runs

    def runs(self) -> Iterator[tuple[Chunk, Iterable[int]]]:
        for turn in (*self._turns.values(), *self._held.values()):
            yield from turn.runs
        yield from self._aside.items()

    def first_of(self, client: Client) -> TaskId | None:
        """The task of this client that would leave first, if it is among the first that are looked at."""
        left = LOOKED_AT
        for chunk, run in self.runs_of(client):
            left -= 1
            for index in islice(run, max(0, left)) if chunk.unfinished else ():
                left -= 1
                if index not in chunk.dropped:
                    return chunk.ids[index]
            if left <= 0:
                break
        return None

    def ahead_of(self, chunk: Chunk, index: int) -> int:
        """How many tasks of the same client leave before this one. Very many are not all looked at: then at least so
        many."""
        count = 0
        left = LOOKED_AT
        for other, run in self.runs_of(chunk.client):
            left -= 1
            if left <= 0:
                return count
            if isinstance(run, range) and not other.dropped:
                if other is chunk and index in run:
                    return count + run.index(index)
                count += len(run)
                continue
            for one in islice(run, left):
                left -= 1
                if other is chunk and one == index:
                    return count
                count += one not in other.dropped
        return count

    def _turn_of(self, client: Client) -> Turn | None:
        return (self._held if client.is_held else self._turns).get(client)

    def _count(self, client: Client, turn: Turn, change: int) -> None:
        turn.count += change
        if not client.is_held:
            self.count += change


class ReadyQueue:
    def __init__(
        self,
        index_of: Callable[[ClassKey], LoadIndex[ReadyClass]],
        changed: dict[LoadIndex[ReadyClass], None] | None = None,
    ) -> None:
        """Makes an empty queue. `changed`: to which the indexes add themselves."""
        self.classes: dict[ClassKey, ReadyClass] = {}
        self._index_of = index_of
        self._order: list[ReadyClass] = []  #: the same, the most urgent first
        self._of_user: dict[tuple[int, str], list[ReadyClass]] = {}  #: those of one depth and one user, alike
        #: the lines of each client, and some in which it has nothing any more
        self._of_client: dict[Client, dict[ReadyClass, None]] = {}
        #: those that take amounts which ancestors could lend
        self._borrowing: dict[ReadyClass, None] = {}
        self._last_number = 0
        #: where a worker may have got room, or a line something that can be taken, since it was last looked at
        self.changed: dict[LoadIndex[ReadyClass], None] = {} if changed is None else changed
        self._most = CLASSES_LIMIT  #: when there are more, those that ran empty are forgotten

    def __len__(self) -> int:
        return sum(ready.count + ready.held_count for ready in self.classes.values())

    def indexes(self) -> Iterable[LoadIndex[ReadyClass]]:
        """Returns the workers of each class: some come several times."""
        return (ready.index for ready in self.classes.values())

    def add(self, chunk: Chunk, indexes: Indexes, *, at_front: bool = False) -> None:
        key = chunk.combination.key
        ready = self.classes.get(key)
        if ready is None:
            if len(self.classes) >= self._most:
                self._forget_empty()
            self._last_number += 1
            ready = self.classes[key] = ReadyClass(key, self._index_of(key), self._last_number)
            for order in (self._order, self._of_user.setdefault((key.negative_depth, key.user), [])):
                insort(order, ready, key=lambda one: one.urgency)
            if ready.may_borrow:
                self._borrowing[ready] = None
        if ready.add(chunk, indexes, at_front=at_front):
            lines = self._of_client.get(chunk.client)
            if lines is None:
                lines = self._of_client[chunk.client] = {}
            lines[ready] = None
        if ready.count:  # `LoadIndex.wait`, without a call for each batch
            ready.index.lines[ready] = None
            self.changed[ready.index] = None

    def drop(self, chunk: Chunk, index: int) -> None:
        """This queued task has ended another way; its place in the run is passed over later."""
        chunk.drop(index)
        self.classes[chunk.combination.key].drop(chunk, [index])

    def take_one(self, chunk: Chunk, index: int) -> bool:
        """See `ReadyClass.take_one`."""
        ready = self.classes.get(chunk.combination.key)
        return ready is not None and ready.take_one(chunk, index)

    def drop_all(self, chunk: Chunk, indexes: Indexes) -> None:
        chunk.drop_all(indexes)
        self.classes[chunk.combination.key].drop(chunk, indexes)

    def hold(self, client: Client) -> None:
        """Nothing of this client is taken until it is released; what becomes ready is held as well."""
        client.holds += 1
        if client.holds > 1:
            return
        for ready in self._of_client.get(client, ()):
            ready.hold(client)
        client.is_held = True

    def release(self, client: Client) -> None:
        client.holds -= 1
        if client.holds:
            return
        client.is_held = False
        for ready in self._of_client.get(client, ()):
            ready.release(client)
            if ready.count:
                ready.index.wait(ready)

    def discard(self, client: Client) -> Iterator[int]:
        """Passes over what was dropped at the head of the line of this client, little by little. Yields steps."""
        for ready in tuple(self._of_client.get(client, ())):
            runs = ready.runs_of(client)
            while runs and not runs[0][0].unfinished:
                for _ in range(min(DISCARDED_RUNS, len(runs))):
                    if runs[0][0].unfinished:
                        break
                    runs.popleft()
                yield DISCARDED_RUNS // 4
            if not runs:
                ready.forget(client)
                self._forget_line(client, ready)

    def _forget_line(self, client: Client, ready: ReadyClass) -> None:
        """Takes the line out of the client's, unless it has been taken out since `discard` began."""
        lines = self._of_client.get(client, {})
        lines.pop(ready, None)
        if not lines:
            self._of_client.pop(client, None)

    def waiting(self) -> list[ReadyClass]:
        """Classes with something that can be taken, the most urgent first."""
        return [ready for ready in self._order if ready.count]

    def comes_first(self, key: ClassKey) -> bool:
        """Returns whether nothing that some worker can take goes before tasks of this class: neither deeper tasks, nor
        more urgent ones of the same user, among which those of other users are not looked for."""
        deeper = takewhile(lambda ready: ready.key.negative_depth < key.negative_depth, self._order)
        own = self._of_user.get((key.negative_depth, key.user), ())
        before = chain(deeper, takewhile(lambda ready: ready.urgency < key.urgency, own))
        return not any(ready.count and ready.index.members for ready in before)

    def placeable(self, *, is_lending: bool) -> Iterable[tuple[ReadyClass, int]]:
        """Returns those that may find a place now, in their order, each with the number of users that wait beside it.
        All others are not looked at: each user may have many, and lines that no worker can take stay until one joins.
        (SCH-49) Lent amounts are places that no index knows."""
        found: list[ReadyClass] = []
        changed = self.changed
        for index in list(changed):
            if not index.heap or not index.lines:
                del changed[index]  # it is there again when a worker has room, or a line something that can be taken
                continue
            lines = [ready for ready in index.lines if ready.count]
            if len(lines) < len(index.lines):
                index.lines = dict.fromkeys(lines)
            found += lines
        if is_lending and self._borrowing:
            found += [ready for ready in self._borrowing if ready.count and not ready.index.heap]
        return in_order(found) if len(found) > 1 else zip(found, repeat(1))

    def _forget_empty(self) -> None:
        """Seldom: only when there may be twice as many as are in use."""
        self.classes = {key: ready for key, ready in self.classes.items() if ready.count or ready.held_count}
        self._order = [ready for ready in self._order if ready.key in self.classes]
        self._of_user.clear()
        for ready in self._order:
            self._of_user.setdefault((ready.key.negative_depth, ready.key.user), []).append(ready)
        self._borrowing = {ready: None for ready in self._order if ready.may_borrow}
        for client, lines in list(self._of_client.items()):
            for ready in [one for one in lines if one.key not in self.classes]:
                self._forget_line(client, ready)
        self._most = max(CLASSES_LIMIT, 2 * len(self.classes))

    def runs(self) -> Iterator[tuple[Chunk, Iterable[int]]]:
        for ready in self.classes.values():
            yield from ready.runs()


_DEPTH = attrgetter("key.negative_depth")


_USER = attrgetter("key.user")


_URGENCY = attrgetter("urgency")


_IN_ORDER = attrgetter("key.negative_depth", "key.user", "key.negative_priority", "number")


def _by_priority(group: list[ReadyClass]) -> Iterator[ReadyClass]:
    """Yields those of one user and one depth, of equally urgent ones first that of the program which had the least."""
    if len(group) == 1:  # as for most users: a turn looks at each of them
        yield from group if group[0].index.heap or group[0].may_borrow else ()
        return
    for _, equals in groupby(group, key=_URGENCY):
        # Those before have taken places meanwhile.
        left = [ready for ready in equals if ready.index.heap or ready.may_borrow]
        yield from sorted(left, key=lambda ready: ready.standing) if len(left) > 1 else left


def _by_user(groups: list[list[ReadyClass]]) -> Iterator[tuple[ReadyClass, int]]:
    """Yields those of several users and one depth: the user that had the least has a turn, as long as there are places.
    What a user has had changes in its own turn only, so a heap tells who is next."""
    with_places = {line.index for group in groups for line in group if line.index.heap or line.may_borrow}
    heap: list[tuple[float, int, UserShare, ReadyClass, Iterator[ReadyClass]]] = []
    for group in groups:
        lines = _by_priority(group)
        first = next(lines, None)
        if first is not None:
            heap.append((first.user.standing, first.number, first.user, first, lines))
    heapq.heapify(heap)
    while heap:
        _, number, user, ready, lines = heap[0]
        before = ready.count
        yield ready, len(heap)
        if not ready.index.heap and not ready.may_borrow:
            with_places.discard(ready.index)
            if not with_places:
                return  # the other users would be gone through in vain
        if ready.count in (0, before):  # nothing is left, or found a place
            following = next(lines, None)
            if following is None:
                heapq.heappop(heap)
                continue
            ready = following
        heapq.heapreplace(heap, (user.standing, number, user, ready, lines))


def in_order(lines: list[ReadyClass]) -> Iterator[tuple[ReadyClass, int]]:
    """Yields them in their order, each with the number of users that wait beside it. (SCH-9, SCH-10, SCH-91)"""
    lines.sort(key=_IN_ORDER)
    for _, equals in groupby(lines, key=_DEPTH):
        of_users = [list(group) for _, group in groupby(equals, key=_USER)]
        if len(of_users) == 1:
            yield from zip(_by_priority(*of_users), repeat(1))
        else:
            yield from _by_user(of_users)
