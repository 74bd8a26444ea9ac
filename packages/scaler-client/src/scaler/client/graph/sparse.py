"""Planning a very large graph as a sparse matrix, with GraphBLAS: `scaler-client[graphblas]`.

The result means the same as that of `plan`; the order may be another one that is as good. Going from node to node
costs some microseconds for each, mostly in look-ups of keys. Here every key is looked up once, in bulk. What follows is
arithmetic on the matrix A, in which A[i, j] says that task i needs task j: repeated arguments fall together, what is
needed is what can be reached from the wanted tasks, and an order comes from taking away in turn all that waits for
nothing. Both go level by level, so a graph that is deep and narrow is better off without; and so is whatever is not
plainly a graph. `sparse_plan` answers None then, and the other way has the last word, also about what is wrong with it.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from itertools import chain, compress, repeat
from typing import Any

from scaler.client.graph.nodes import LITERAL, Call, Data, Reader
from scaler.client.graph.plan import Plan, keys_max

SPARSE_NODES = 300_000
"""From here on it pays to load GraphBLAS, which takes half a second, and more on a busy machine."""
_MOST_LEVELS = 2_000
"""Each level costs some hundred microseconds, however few tasks are in it."""


class _Unsuited(Exception):
    """This graph is for the other way."""


def sparse_plan(reader: Reader, keys: Sequence[Hashable]) -> Plan | None:
    if len(reader.graph) < SPARSE_NODES:
        return None
    try:
        import graphblas
        import numpy
    except ImportError:  # not installed, or not for this machine
        return None
    try:
        return _Planner(graphblas, numpy, reader).plan(keys)
    except (_Unsuited, KeyError, TypeError):
        return None


class _Planner:
    """Tasks are numbered as the graph lists them; links are as in `Plan`, but to these numbers."""

    def __init__(self, graphblas: Any, numpy: Any, reader: Reader) -> None:
        self._graphblas = graphblas
        self._numpy = numpy
        self._reader = reader
        self._functions: list[Any] = []
        self._values: list[Any] = []
        #: of each node, what an argument that is this node links to
        self._codes: Any = None
        self._counts: Any = None
        self._links: Any = None

    def plan(self, keys: Sequence[Hashable]) -> Plan:
        numpy = self._numpy
        index = dict(zip(self._reader.graph, range(len(self._reader.graph)), strict=True))
        if self._reader.is_dask or not self._read_flat(index):
            self._read_any(index)
        if not self._functions:
            raise _Unsuited
        wanted = {key: int(self._codes[index[key]]) for key in keys}
        matrix = self._matrix()
        order = self._order(matrix, self._needed(matrix, [link for link in wanted.values() if link >= 0]))
        rank = numpy.full(len(self._functions), -1, dtype=numpy.int32)
        rank[order] = numpy.arange(len(order), dtype=numpy.int32)
        links = self._rows(self._links, self._counts, order)
        values = ~links[links < 0]
        links = numpy.where(links < 0, links, rank[numpy.maximum(links, 0)])
        rows, needs = matrix.to_coo(values=False)[:2]
        need_counts = numpy.bincount(rows.astype(numpy.int64), minlength=len(self._functions))
        return Plan(
            functions=[self._functions[number] for number in order.tolist()],
            counts=_column(numpy, self._counts[order]),
            links=_column(numpy, links),
            need_counts=_column(numpy, need_counts[order]),
            needs=_column(numpy, rank[self._rows(needs, need_counts, order).astype(numpy.int64)]),
            values=self._values,
            uses=_column(numpy, numpy.bincount(values, minlength=len(self._values))),
            wanted={key: int(rank[link]) if link >= 0 else link for key, link in wanted.items()},
            keys=self._keys(list(index), order[: keys_max(self._reader)]),
        )

    def _keys(self, names: list[Hashable], tasks: Any) -> list[Hashable]:
        """Of these tasks; of one that has aliases too, any of its names."""
        numpy = self._numpy
        nodes = numpy.flatnonzero(self._codes >= 0)
        place = numpy.empty(len(self._functions), dtype=numpy.int64)
        place[self._codes[nodes]] = nodes
        return [names[node] for node in place[tasks].tolist()]

    # ------------------------------------------------------------ reading

    def _read_flat(self, index: dict[Hashable, int]) -> bool:
        """Our own grammar, with keys and simple values as arguments. False: there is something else in it."""
        numpy = self._numpy
        nodes = list(self._reader.graph.values())
        is_task = [type(node) is tuple and len(node) > 0 and callable(node[0]) for node in nodes]
        tasks = list(compress(nodes, is_task))
        lengths = numpy.fromiter(map(len, tasks), numpy.int64, len(tasks))
        try:
            found = map(index.get, chain.from_iterable(tasks), repeat(-1))
            targets = numpy.fromiter(found, numpy.int64, int(lengths.sum()))
        except TypeError:  # lists and the like
            return False
        heads = numpy.cumsum(lengths) - lengths
        is_argument = numpy.ones(len(targets), dtype=bool)
        is_argument[heads] = False
        literals = self._literals(tasks, numpy.flatnonzero((targets < 0) & is_argument), heads)
        if literals is None:
            return False
        self._functions = [task[0] for task in tasks]
        self._counts = lengths - 1
        is_task = numpy.array(is_task)
        self._number_nodes(is_task)
        self._values = [node for node in nodes if not (type(node) is tuple and len(node) > 0 and callable(node[0]))]
        targets = targets[is_argument]
        self._links = numpy.where(targets < 0, 0, self._codes[targets])
        self._links[targets < 0] = -1 - len(self._values) - numpy.arange(len(literals))
        self._values += literals
        return True

    def _literals(self, tasks: list[tuple[Any, ...]], positions: Any, heads: Any) -> list[Any] | None:
        """What stands at these positions of all the tasks, one after another. None: not all of it is simple."""
        owners = self._numpy.searchsorted(heads, positions, side="right") - 1
        offsets = positions - heads[owners]
        pairs = zip(owners.tolist(), offsets.tolist(), strict=True)
        literals = [tasks[owner][offset] for owner, offset in pairs]
        return literals if _SIMPLE.issuperset(map(type, literals)) else None

    def _number_nodes(self, is_task: Any) -> None:
        """Tasks from zero up, data nodes from -1 down."""
        numpy = self._numpy
        self._codes = numpy.where(is_task, numpy.cumsum(is_task) - 1, -numpy.cumsum(~is_task))

    def _read_any(self, index: dict[Hashable, int]) -> None:
        """Node by node."""
        numpy, read = self._numpy, self._reader.read
        counts, targets = array("q"), array("q")
        codes = array("q")
        aliases: list[tuple[int, int]] = []
        literals: list[Any] = []
        for number, key in enumerate(index):
            node = read(key)
            if isinstance(node, Call):
                codes.append(len(self._functions))
                self._functions.append(node.function)
                counts.append(len(node.targets))
                for argument, target in zip(node.arguments, node.targets, strict=True):
                    if target is LITERAL:
                        literals.append(argument)
                        targets.append(-1)
                    else:
                        targets.append(index[target])
            elif isinstance(node, Data):
                self._values.append(node.value)
                codes.append(-len(self._values))
            else:
                aliases.append((number, index[node.key]))
                codes.append(0)
        self._codes = numpy.array(codes)
        self._resolve(aliases)
        self._counts = numpy.array(counts)
        found = numpy.array(targets)
        self._links = numpy.where(found < 0, 0, self._codes[found])
        self._links[found < 0] = -1 - len(self._values) - numpy.arange(len(literals))
        self._values += literals

    def _resolve(self, aliases: list[tuple[int, int]]) -> None:
        target_of = dict(aliases)
        for number, target in aliases:
            for _ in aliases:
                if target not in target_of:
                    break
                target = target_of[target]
            if target in target_of:
                raise _Unsuited
            self._codes[number] = self._codes[target]
            target_of[number] = target  # later ones of a long row of aliases have it shorter

    # ------------------------------------------------------------ the matrix

    def _matrix(self) -> Any:
        numpy, count = self._numpy, len(self._functions)
        rows = numpy.repeat(numpy.arange(count), self._counts)
        is_need = self._links >= 0
        return self._graphblas.Matrix.from_coo(rows[is_need], self._links[is_need], True, nrows=count, ncols=count)

    def _needed(self, matrix: Any, wanted: list[int]) -> Any:
        """The numbers of what the wanted tasks need, and of themselves, rising."""
        numpy, vector_of, semiring = self._numpy, self._graphblas.Vector.from_coo, self._graphblas.semiring
        count = len(self._functions)
        is_used = numpy.zeros(count, dtype=bool)
        is_used[self._links[self._links >= 0]] = True
        is_used[wanted] = True
        if is_used.all():  # whatever ends is wanted, so everything leads to something wanted
            return numpy.arange(count)
        front = vector_of(sorted(set(wanted)), True, size=count)
        seen = front.dup()
        for _ in range(_MOST_LEVELS):
            if not front.nvals:
                return seen.to_coo(values=False)[0].astype(numpy.int64)
            front(~seen.S, replace=True) << front.vxm(matrix, semiring.any_pair[bool])
            seen(front.S) << True
        raise _Unsuited

    def _order(self, matrix: Any, needed: Any) -> Any:
        """As the graph lists them, when that is an order; most programs build a graph from its beginning."""
        numpy, count = self._numpy, len(self._functions)
        rows, columns = matrix.to_coo(values=False)[:2]
        if bool((columns < rows).all()):
            return needed
        vectors, semiring, binary = self._graphblas.Vector, self._graphblas.semiring, self._graphblas.binary
        users = matrix.T.new()
        missing = numpy.bincount(rows.astype(numpy.int64), minlength=count)
        is_needed = numpy.zeros(count, dtype=bool)
        is_needed[needed] = True
        waiting = vectors.from_dense(missing)
        ready = numpy.flatnonzero((missing == 0) & is_needed)
        levels = []
        done = 0
        for _ in range(_MOST_LEVELS):
            levels.append(ready)
            done += len(ready)
            if done == len(needed) or not len(ready):
                break
            front = vectors.from_coo(ready, True, size=count)
            met = front.vxm(users, semiring.plus_pair[int]).new()
            waiting(binary.plus) << met.apply(self._graphblas.unary.ainv)
            now = waiting.dup(mask=met.S)
            found = now.select("==", 0).to_coo(values=False)[0].astype(numpy.int64)
            ready = found[is_needed[found]]
        if done < len(needed):  # too deep, or a circle
            raise _Unsuited
        return numpy.concatenate(levels)

    def _rows(self, column: Any, counts: Any, order: Any) -> Any:
        """What belongs to the tasks of this order, out of a column that has so many entries for each."""
        numpy = self._numpy
        starts = (numpy.cumsum(counts) - counts)[order]
        taken = counts[order]
        shifts = starts - (numpy.cumsum(taken) - taken)
        return column[numpy.repeat(shifts, taken) + numpy.arange(int(taken.sum()))]


_SIMPLE = frozenset((int, float, complex, bool, bytes, type(None)))
"""Arguments of these types are never more than they seem. A string that is no key is a mistake."""


def _column(numpy: Any, items: Any) -> array[int]:
    column = array("i")
    column.frombytes(items.astype(numpy.int32).tobytes())
    return column
