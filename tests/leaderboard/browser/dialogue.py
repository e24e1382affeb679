"""put_transcript: the dialogue with a language model that a kernel came from."""

from candidates.candidate import Candidate
from candidates.ledger.blobs import BlobStore
from candidates.record import Record
from candidates.spending import Usage
from candidates.task import KernelTask
from candidates.transcript import Purpose, Transcript, Turn
from compiler_agent.models.completion import Completion, ModelRequest, Reply, Retry, UserMessage
from tests.leaderboard.browser.texts import Say


def put_transcript(blobs: BlobStore, say: Say, task: KernelTask, candidate: Candidate) -> str:
    """The blob of it."""

    def put(record: Record) -> str:
        return blobs.put(record.model_dump_json().encode())

    def turn(purpose: Purpose, asked: str, answered: str) -> Turn:
        request = ModelRequest(
            prefix=say("You write kernels in C++ for one core with AVX-512. The oracle is float64.\n"),
            messages=(UserMessage(text=say(asked)),),
            max_output_tokens=16_000,
        )
        completion = Completion(
            outcome=Reply(text=say(answered)),
            usage=Usage(input_tokens=1840, cache_read_tokens=9200, output_tokens=2210),
            model=say("opus-4.8"),
            seconds=41.2,
            retries=(Retry(problem=say("429: too many requests"), waited_s=2.0),),
        )
        return Turn(
            purpose=purpose,
            call_id=say(f"run/{candidate.id[:8]}/{purpose}"),
            endpoint=say("opus"),
            request=put(request),
            answer=put(completion),
            usd=0.0206,
        )

    diagnosis = "The weights are read once a row: six rows read them six times, and memory is the limit."
    return put(
        Transcript(
            turns=(
                turn("diagnosis", f"Why is this kernel for {task.op} as slow as it is?", diagnosis),
                turn("improve", "Write a faster one.", f"Rows share the weights.\n\n```cpp\n{candidate.source}```\n"),
            )
        )
    )
