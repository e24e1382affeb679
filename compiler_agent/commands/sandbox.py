"""`compiler-agent sandbox`: the images that the docker sandbox makes its containers of."""

from typing import Annotated

import typer

from candidates.printable import printable
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, progress_console, result_console
from compiler_agent.settings import read_settings
from kernel_sandbox.docker_engine import connect_engine
from kernel_sandbox.docker_image import ImageName, build_image, import_this_machine, record_image

app = typer.Typer(help="Images of the docker sandbox.", no_args_is_help=True)


@app.command("build-image")
def build(
    name: Annotated[ImageName, typer.Argument(help="cpu, or cuda with NVIDIA's compiler (never tried so far).")],
    from_this_machine: Annotated[
        bool,
        typer.Option("--from-this-machine", help="Of this machine's compilers and libraries, without a registry."),
    ] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Builds an image and records its sha256, by which alone `--sandbox docker` makes containers of it.

    Build it again after an update of this program or, with --from-this-machine, of the machine's compilers.

    Example: compiler-agent sandbox build-image cpu --from-this-machine
    """
    settings = read_settings()
    if from_this_machine and name is not ImageName.CPU:
        raise UserFault("--from-this-machine makes the image cpu: the image cuda needs NVIDIA's own base")
    engine = connect_engine()
    if from_this_machine:
        progress_console.print("packing this machine's compilers and libraries", highlight=False)
        image_id = import_this_machine(engine)
    else:
        image_id = build_image(
            engine, name, lambda line: progress_console.print(printable(line), highlight=False, markup=False)
        )
    record_image(settings.home, name, image_id)
    if json:
        print_json({"image": name.value, "id": image_id, "engine": engine.address})
    else:
        result_console.print(f"{name.value}: {image_id}", highlight=False)
    return ExitCode.DONE
