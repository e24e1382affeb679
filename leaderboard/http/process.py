"""prepare_process: how the Python of a process that serves pages is set, so that readers wait for each other little."""

import gc
import sys

PAGES_AT_ONCE = 2
"""More threads would not be faster, as one interpreter runs them, and each page would take as long as all of them
together. The second is for what waits for the database."""

_SWITCH_S = 1e-4
"""A thread gives the interpreter up at every row that it reads, and gets it back from one that computes after this
time; with Python's own 5 ms a page of a hundred rows could take half a second."""


def prepare_process() -> None:
    """Once, when all is imported."""
    sys.setswitchinterval(_SWITCH_S)
    # Going through what is there from the start for as long as the process lives takes 100 ms each time.
    gc.collect()
    gc.freeze()
