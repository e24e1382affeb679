"""Heartbeats of an activity that blocks its thread."""

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from temporalio import activity

BEAT_EVERY_S = 5.0


@contextmanager
def beating() -> Iterator[None]:
    """Beats in a thread of its own while the body runs, so that the server notices a dead worker and can cancel."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(BEAT_EVERY_S):
            activity.heartbeat()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(beat,), name="heartbeat", daemon=True)
    activity.heartbeat()
    # A cancellation is raised at any line of this thread: in between, it would leave a thread that beats for ever.
    try:
        with activity.shield_thread_cancel_exception():
            thread.start()
        yield
    finally:
        with activity.shield_thread_cancel_exception():
            done.set()
            if thread.ident is not None:
                thread.join()
