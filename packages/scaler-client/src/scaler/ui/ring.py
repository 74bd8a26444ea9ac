"""The last texts of a stream that never ends, for many readers of any speed."""

from __future__ import annotations

from collections import deque


class Ring:
    """Each text has a number, and a reader keeps nothing but the number of the text that it reads next. So texts that
    slow readers have not read take no memory beyond the ring, however many readers there are."""

    def __init__(self, most: int, most_bytes: int) -> None:
        """`most`: the sum of the counts of its texts."""
        self._most, self._most_bytes = most, most_bytes
        self._texts: deque[tuple[bytes, int]] = deque()
        self._count = self._bytes = 0
        self.first = 0  #: the number of the oldest text that is kept

    @property
    def end(self) -> int:
        """The number of the next text that is added."""
        return self.first + len(self._texts)

    def __len__(self) -> int:
        """The sum of the counts."""
        return self._count

    def add(self, text: bytes, count: int = 1) -> None:
        """The last text is kept, however large it is."""
        self._texts.append((text, count))
        self._count += count
        self._bytes += len(text)
        while (self._count > self._most or self._bytes > self._most_bytes) and len(self._texts) > 1:
            oldest, oldest_count = self._texts.popleft()
            self._count -= oldest_count
            self._bytes -= len(oldest)
            self.first += 1

    def read(self, number: int, end: int, most_bytes: int) -> tuple[int, list[bytes]]:
        """The texts from `number` on and before `end`, as many as fit, at least one; and the number after them. Those
        that are not kept any more are left out."""
        begin = max(number, self.first)
        found: list[bytes] = []
        size = 0
        for at in range(begin - self.first, end - self.first):
            text, _ = self._texts[at]
            if found and size + len(text) > most_bytes:
                break
            found.append(text)
            size += len(text)
        return max(number, begin + len(found)), found

    def read_back(self, number: int, end: int, most_bytes: int) -> tuple[int, list[bytes]]:
        """The last texts before `end` and not before `number`, as many as fit, at least one; and the number of the
        first of them."""
        begin = at = max(end, self.first)
        size = 0
        while at > max(number, self.first):
            text, _ = self._texts[at - 1 - self.first]
            if at < begin and size + len(text) > most_bytes:
                break
            at -= 1
            size += len(text)
        return at, [self._texts[one - self.first][0] for one in range(at, begin)]
