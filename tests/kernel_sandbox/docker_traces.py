"""What of containers can be seen from here."""

import docker
from own_engine import OwnEngine, shims_of

from kernel_sandbox.docker_profile import OWNER_LABEL


def traces_of_containers(engine: OwnEngine) -> dict[str, object]:
    client = docker.APIClient(base_url=engine.engine.address)
    volumes = client.volumes()["Volumes"] or []
    client.close()
    return {
        "containers": sorted(engine.engine.containers_with(OWNER_LABEL)),
        "volumes": sorted(volume["Name"] for volume in volumes),
        "shims": shims_of(engine.folder),
    }
