"""What an endpoint says that it billed, where it can be believed."""

from pydantic import ValidationError

from candidates.spending import Usage
from compiler_agent.models.completion import Broken, CutOff, Filtered, Outcome, Reply


def believe_usage(
    outcome: Outcome, *, read: object, cache_read: object, cache_write: object, written: object, read_has_cached: bool
) -> Usage | None:
    """From token counts of whatever type they came in; a cache's may be None, which is 0.

    `read_has_cached`: `read` counts cached tokens too. None, so that the call counts at its reservation: the stream
    broke, a count is missing or impossible, the prompt had no token, or what was written had none. Some servers send
    zeros for what they do not count.
    """
    if isinstance(outcome, Broken):
        return None  # the counts are those of the stream's beginning: the end would have said more
    try:
        usage = Usage.model_validate(
            {
                "input_tokens": read,
                "cache_read_tokens": 0 if cache_read is None else cache_read,
                "cache_write_tokens": 0 if cache_write is None else cache_write,
                "output_tokens": written,
            }
        )
    except ValidationError:
        return None
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    if read_has_cached:
        usage = usage.model_copy(update={"input_tokens": max(0, usage.input_tokens - cached)})
    if usage.input_tokens + cached == 0 or (usage.output_tokens == 0 and _is_written(outcome)):
        return None
    return usage


def _is_written(outcome: Outcome) -> bool:
    """Not a refusal: a classifier's explanation is no output of the model."""
    match outcome:
        case Reply():
            return True
        case CutOff(text=text) | Filtered(text=text):
            return text != ""
        case _:
            return False
