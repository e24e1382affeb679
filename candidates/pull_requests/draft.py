"""draft_pull_request: the files and the text of a pull request, from the records of its wins."""

import hashlib
import json
from dataclasses import dataclass

from candidates.forge import Change, PullRequestText
from candidates.pull_requests.body import write_text
from candidates.pull_requests.generated_test import write_test
from candidates.pull_requests.hostile_text import plain_word
from candidates.pull_requests.kernel_files import SCHEMA_VERSION, as_json, kernel_files, source_name
from candidates.pull_requests.win import Proposed, Win

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    proposed: Proposed
    change: Change
    text: PullRequestText


def draft_pull_request(proposed: Proposed, root: str) -> Draft:
    """`root`: the folder of all kernels in the repository. Equal records give equal bytes.

    Raises NoTest for a language that no test can be written for.
    """
    folder = f"{root}/{proposed.folder}"
    files = kernel_files(proposed)
    for win, stem in zip(proposed.wins, proposed.stems, strict=True):
        test = write_test(win, source_name(win, stem), proposed.provenance.device.model)
        files[f"test_{stem}.py"] = test.encode()
    files[MANIFEST] = as_json(_manifest(proposed, files))
    # Nothing of others but what `plain_word` leaves: forges read closing words in messages.
    message = (
        f"Kernel for {plain_word(proposed.op)}: {proposed.speedup:.2f}x over the best of PyTorch\n\n"
        f"Build {proposed.provenance.build_id[:12]}; {folder}/{MANIFEST} says how it was judged and measured."
    )
    return Draft(
        proposed=proposed,
        change=Change(folder=folder, files=files, message=message),
        text=write_text(proposed, folder),
    )


def foreign_edit(files: dict[str, bytes]) -> str | None:
    """The name of a file in a folder of ours that is not as we wrote it; None: all are ours."""
    try:
        written = json.loads(files[MANIFEST])["files"]
        expected = {str(name): str(digest) for name, digest in written.items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        return MANIFEST
    for name, content in files.items():
        if name != MANIFEST and expected.get(name) != hashlib.sha256(content).hexdigest():
            return name
    return next((name for name in expected if name not in files), None)


def _manifest(proposed: Proposed, files: dict[str, bytes]) -> dict[str, object]:
    of = proposed.provenance
    return {
        "schema_version": SCHEMA_VERSION,
        "win": proposed.win,
        "run_id": of.run_id,
        "build_id": of.build_id,
        "trace_digest": of.trace_digest,
        "model": of.model,
        "device": of.device.model_dump(mode="json") | {"id": of.device.id},
        "versions": dict(of.versions),
        "models_cost_usd": of.spend_usd,
        "build_gates": [gate.model_dump(mode="json") for gate in of.gates],
        "end_to_end": of.end_to_end.model_dump(mode="json"),
        "kernels": [_kernel(win) for win in proposed.wins],
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())},
    }


def _kernel(win: Win) -> dict[str, object]:
    hidden = {workload.name for workload in win.task.hidden_workloads}
    measured = win.measurement.model_dump(mode="json")
    measured["workloads"] = [each for each in measured["workloads"] if each["workload"] not in hidden]
    return {
        "op": win.task.op,
        "site": win.task.site,
        "task_id": win.task.id,
        "candidate": win.candidate.model_dump(mode="json", exclude={"source"}) | {"id": win.candidate.id},
        "written_by": None if win.proposal is None else win.proposal.model_dump(mode="json", exclude={"candidate"}),
        "share_of_time": win.share_of_time,
        "share_by_class": win.share_by_class,
        "covered_share": win.task.covered_share,
        "workloads": [workload.model_dump(mode="json") for workload in win.task.public_workloads],
        "gates": [gate.model_dump(mode="json") for gate in win.decision.gates],
        "measurement": measured,
    }
