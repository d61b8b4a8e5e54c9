"""The demo's room: two sandbox nodes that have the training image."""

from collections.abc import Callable

from portal.demo.image import build_root, image_key
from portal.env import Env
from portal.sandbox import SandboxCluster, SandboxNode

NODES = ("gpu-01", "gpu-02")
IMAGE_NAME = "localhost/berth-demo/digits"


class Room:
    """Sandbox nodes and their image; needs no server, so it is made while those start."""

    def __init__(self, env: Env, *, say: Callable[[str], None]) -> None:
        self._folder = env.data_dir / "demo"
        self._say = say
        self._cluster = SandboxCluster(env.data_dir / "sandbox", name="dm", subnet="10.79.0.0/24")
        self.image = f"{IMAGE_NAME}:{image_key()}"

    def open(self) -> list[SandboxNode]:
        """Powers the nodes on and gives them the image."""
        self._cluster.destroy()  # an earlier demo that was killed could not
        self._say("powering on two sandbox nodes, building the training image from this machine's Python and numpy")
        nodes = [self._cluster.add(name) for name in NODES]
        archive = self._folder / f"{image_key()}.tar"
        archive.parent.mkdir(parents=True, exist_ok=True)
        if not archive.exists():
            for old in archive.parent.glob("*.tar"):
                old.unlink()
            build_root(archive)
        self._cluster.load_image(archive, self.image)
        return nodes

    def close(self) -> None:
        """Removes the sandbox; nothing of the nodes stays on this machine."""
        self._cluster.destroy()
