"""Feed a service from a topic of Kafka: rows are learned in the background while it serves.

A block of the topic goes through the writer, as a batch of a client does, and is committed with the
position that it reaches. After a failed commit the topic is read again from the position that the
store has.
"""

from threading import Thread

from littlestone._data.rounds import BadStream
from littlestone._data.topic import TopicRows
from littlestone._service.limits import Refused
from littlestone._service.logs import LOG, describe_error
from littlestone._service.writer import RETRY_SECONDS, Writer
from littlestone._store.request import LearnRequest
from littlestone._store.sources import new_messages, topic_source

# Rows of a commit: few enough that the batches of clients do not wait for long.
BLOCK_ROWS = 8192


class TopicFeeder(Thread):
    """Learn the messages of a topic until it is stopped, or the horizon is reached."""

    def __init__(self, rows: TopicRows, task: LearnRequest, horizon: int) -> None:
        super().__init__(name="topic", daemon=True)
        self._rows, self._task, self._horizon = rows, task, horizon
        self._writer: Writer | None = None
        # Why nothing is read any more; None if the topic is read.
        self.error: str | None = None

    def feed(self, writer: Writer, run: str) -> None:
        """Start to feed a writer."""
        self._writer = writer
        self._rows.commit_to(run)
        self.start()

    def run(self) -> None:
        """Feed, again after a failed commit, until there is no going on."""
        assert self._writer is not None, "`feed` starts the thread"
        stop = self._rows.stop
        try:
            while not stop.is_set():
                try:
                    self._feed(self._writer)
                    return
                except Refused as refusal:
                    if self._writer.closed is not None:
                        raise BadStream(self._writer.closed) from None
                    LOG.warning("a block of the topic was not learned: %s", refusal.sentence)
                    stop.wait(RETRY_SECONDS)
        except BadStream as error:
            self.error = str(error)
            LOG.error("the topic is not read any more: %s", self.error)
        except Exception as error:
            self.error = f"{self._rows.name} is not read any more: an internal error"
            LOG.error("the topic is not read any more: %s", describe_error(error))
        finally:
            self._rows.close()

    def _feed(self, writer: Writer) -> None:
        sources, rounds = writer.sources().result()
        source = topic_source(sources, self._rows, self._task, rounds=rounds)
        waiting = False
        for block, reached in new_messages(
            self._rows, source, size=BLOCK_ROWS, most=self._horizon - rounds, bad=[]
        ):
            problem = self._rows.problem if block is None else None
            if problem is not None and not waiting:
                LOG.warning("waiting for the brokers: %s", problem)
            waiting = problem is not None
            if block is not None:
                writer.learn_source(block, reached).result()
        if not self._rows.stop.is_set():
            LOG.info("the horizon is reached: the topic is not read any more")

    def end(self) -> None:
        """End the thread; what was committed stands."""
        self._rows.stop.set()
        if self.is_alive():
            self.join()
