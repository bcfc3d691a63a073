"""Several questions at once, a few at a time, in threads that nothing waits for when all is over."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from vllmdoctor.errors import VllmDoctorError

AT_ONCE = 8
Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(
    ask: Callable[[Item], Result],
    items: Sequence[Item],
    tell: Callable[[str], object] | None = None,
    what: str = "",
) -> Iterator[tuple[Item, Result | VllmDoctorError]]:
    """(item, what came of it) as they come; a VllmDoctorError is handed on, any other is raised.

    `tell` hears how many are done ("reading pods: 3 of 200"), and "" at the end.
    """
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Item, Result | BaseException]] = queue.SimpleQueue()
    stop = threading.Event()
    for item in items:
        waiting.put(item)

    def work() -> None:
        while not stop.is_set():
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((item, ask(item)))
            except BaseException as error:  # noqa: BLE001  raised where the results are taken, also a bug
                done.put((item, error))

    for _ in range(min(AT_ONCE, len(items))):
        threading.Thread(target=work, name="kubernetes", daemon=True).start()
    try:
        for number in range(len(items)):
            item, result = done.get()
            if isinstance(result, BaseException) and not isinstance(result, VllmDoctorError):
                raise result
            if tell is not None and len(items) > 1:
                tell(f"{what}: {number + 1} of {len(items)}")
            yield item, result
    finally:
        stop.set()
        if tell is not None:
            tell("")
