"""One live target on a thread of its own: it is read when the loop says so, and rests in between.

A source keeps its connection, and what it knows, from one scrape to the next. After a scrape that failed
it is read anew: the server that comes back may be of another version.
"""

import threading
from collections.abc import Callable

from vllmdoctor.exporting.state import TargetState
from vllmdoctor.model import Observation, Snapshot
from vllmdoctor.sources import Source, Window


class Reader:
    """Reads a live source a scrape at a time. `take` gets what is seen, `failed` what went wrong."""

    def __init__(
        self,
        name: str,
        source: Source,
        window: Window,
        take: Callable[[Observation], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self.name = name
        self._source = source
        self._window = Window(float("inf"), window.interval_s, window.clock, self._between)
        self._take, self._failed = take, failed
        self._turn = threading.Condition()
        self._asked = self._done = 0
        self._over = False
        self._seen = False  # a scrape that worked, in this round
        self._state = TargetState(name)
        threading.Thread(target=self._work, name=f"read {name}", daemon=True).start()

    @property
    def state(self) -> TargetState:
        """How this target does."""
        with self._turn:
            return self._state

    def ask(self) -> None:
        """Start a round, unless the last one has not ended."""
        with self._turn:
            if self._asked == self._done:
                self._asked += 1
                self._turn.notify_all()

    def wait(self, patience_s: float) -> bool:
        """Until the round has ended; whether it has."""
        with self._turn:
            return self._turn.wait_for(lambda: self._asked == self._done or self._over, patience_s)

    def give_up(self) -> bool:
        """End a round that is still under way as one that failed; whether there was one."""
        with self._turn:
            if self._asked == self._done:
                return False
            self._state = self._state.after(False, self._window.clock())
            self._done = self._asked
            return True

    def stop(self) -> None:
        """Read no more; a scrape that is under way ends with its time-out at the latest."""
        with self._turn:
            self._over = True
            self._turn.notify_all()

    def _work(self) -> None:
        while not self._rest():
            try:
                for observation in self._source.read(self._window):
                    self._seen = self._seen or isinstance(observation, Snapshot)
                    self._take(observation)
            except Exception as error:  # noqa: BLE001  a target that fails, by a bug too, ends no other
                self._failed(self.name, error)

    def _between(self, _: float) -> bool:
        """What a source's window does between two scrapes; True has the source read anew."""
        return self._rest() if self._seen else True

    def _rest(self) -> bool:
        """End this round and wait for the next; True where there is none."""
        with self._turn:
            if self._asked > self._done:
                self._state = self._state.after(self._seen, self._window.clock())
            self._done = self._asked
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._asked > self._done or self._over)
            self._seen = False
            return self._over
