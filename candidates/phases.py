"""Phases: a site's calls split into those of decode passes and those of prefill passes, each to have its own kernel.

Decode sends a few rows and prefill hundreds: what is fast for the one is slow for the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from candidates.site_timing import SiteTimes
from traces.sites import CapturedSite, SiteCall

DECODE, PREFILL = "decode", "prefill"
"""Ends of an op's name where its site is called in both phases."""


def split_phases(captured: Sequence[CapturedSite], times: SiteTimes) -> tuple[tuple[CapturedSite, ...], SiteTimes]:
    """Sites named `OP.decode` and `OP.prefill` where traffic makes both kinds of calls, with the times of each.

    A call that both phases make (one row) counts as decode. Probes, which no traffic makes, go to both.
    """
    parts: list[CapturedSite] = []
    one_call = {}
    for each in captured:
        op = each.site.op
        if op not in times.one_call:
            continue
        decode = [call for call in each.calls if _is_decode(call)]
        prefill = [call for call in each.calls if call.calls_per_hour and not _is_decode(call)]
        probes = [call for call in each.calls if not call.calls_per_hour]
        for phase, calls in ((DECODE, decode), (PREFILL, prefill)):
            if not calls:
                continue
            name = f"{op}.{phase}" if decode and prefill else op
            parts.append(CapturedSite(site=replace(each.site, op=name), calls=(*calls, *probes)))
            one_call[name] = times.one_call[op]
    return tuple(parts), replace(times, one_call=one_call)


def is_of_phase(op: str, axes: Mapping[str, int]) -> bool:
    """Whether a call with these axes is of the phase that the op's name ends with: a site is called in both. It is of
    an op without a phase always, and never where the axes do not tell."""
    phase = op.rpartition(".")[2]
    if phase not in (DECODE, PREFILL):
        return True
    if "tokens" in axes:
        return (axes["tokens"] == 1) == (phase == DECODE)
    if "context" in axes:
        return phase == DECODE  # only a call that adds one token to a cache needs not say how many it adds
    # More rows may be those of a batch as those of a prompt.
    return axes.get("rows") == 1 and phase == DECODE


def _is_decode(call: SiteCall) -> bool:
    return any(source.is_decode and rate.per_hour for source, rate in call.sources.items())
