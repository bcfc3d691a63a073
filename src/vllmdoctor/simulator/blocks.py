"""The KV block pool: paged, counted, with a prefix cache whose entries live in the free list.

As in vLLM, blocks need no order and no neighbours: only counts matter. Cached blocks that no
request uses are free; an allocation takes the least recently freed ones, so a cached prefix
survives until as many blocks have been allocated as were ahead of it in the free list.
"""

from __future__ import annotations


class _Prefix:
    """One shared prefix: its size, its users, and its place in the free list."""

    __slots__ = ("blocks", "mark", "room", "users")

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.users = 0
        self.mark = 0
        self.room = -1
        """Blocks ahead of it in the free list when it was released; -1 = never computed."""


class BlockPool:
    """Counts of free, used and leaked blocks, and the shared prefixes."""

    __slots__ = ("allocated", "free", "leaked", "prefixes", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self.leaked = 0
        self.allocated = 0
        """Blocks ever taken from the free list: the clock of eviction."""
        self.prefixes: dict[int, _Prefix] = {}

    @property
    def usage(self) -> float:
        """Fraction of the pool that is not free."""
        return 1.0 - self.free / self.total

    def take(self, count: int) -> None:
        """Allocate; the caller has checked that they fit."""
        self.free -= count
        self.allocated += count

    def release(self, count: int) -> None:
        """Give blocks back to the free list."""
        self.free += count

    def leak(self, count: int) -> int:
        """Pin up to ``count`` free blocks for good; how many were pinned."""
        count = min(count, self.free)
        self.free -= count
        self.leaked += count
        return count

    def surviving(self, mark: int, room: int, blocks: int) -> int:
        """How many of ``blocks`` released at ``mark`` (``room`` ahead of them) still hold KV."""
        if room < 0:
            return 0
        return max(0, min(blocks, blocks + room - (self.allocated - mark)))

    def lookup(self, group: int, blocks: int) -> tuple[int, int]:
        """(blocks of the prefix found, blocks admission must take for it from the free list)."""
        prefix = self.prefixes.get(group)
        if prefix is None:
            return 0, blocks
        if prefix.users:
            return prefix.blocks, 0
        return self.surviving(prefix.mark, prefix.room, prefix.blocks), blocks

    def join(self, group: int, blocks: int) -> None:
        """A request starts using the prefix (its cost by ``lookup`` has been checked)."""
        prefix = self.prefixes.get(group)
        if prefix is None:
            prefix = self.prefixes[group] = _Prefix(blocks)
        if not prefix.users:
            found = self.surviving(prefix.mark, prefix.room, prefix.blocks)
            self.free -= blocks
            # Hits leave the free list without pushing anything else out of it.
            self.allocated += blocks - found
        prefix.users += 1

    def leave(self, group: int) -> None:
        """A request stops using the prefix; the last one returns it to the free list."""
        prefix = self.prefixes[group]
        prefix.users -= 1
        if not prefix.users:
            prefix.mark = self.allocated
            prefix.room = self.free
            self.free += prefix.blocks
