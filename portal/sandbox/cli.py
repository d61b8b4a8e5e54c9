"""`python -m portal.sandbox`: the sandbox from the command line."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from portal.sandbox.cluster import DEFAULT_NAME, DEFAULT_SUBNET, SandboxCluster, saved_cluster
from portal.sandbox.errors import SandboxError

_DESCRIPTION = """\
Simulated GPU nodes on this machine, for tests and demos: each with its own namespaces, disk, sshd, podman,
cgroup limits and a mock NVML with 8 GPUs. Nodes keep running after a command ends; every command finds them
again from the state folder. Only the sandbox needs root."""

_EPILOG = """\
example:
  python -m portal.sandbox --state /srv/sandbox add gpu-1
  python -m portal.sandbox --state /srv/sandbox ls
  python -m portal.sandbox --state /srv/sandbox exec gpu-1 -- nvidia-smi
  python -m portal.sandbox --state /srv/sandbox power-cut gpu-1
  python -m portal.sandbox --state /srv/sandbox destroy"""

Handler = Callable[[SandboxCluster, argparse.Namespace], int]


def _add(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    for name in args.node:
        node = cluster.add(
            name,
            gpus=args.gpus,
            model=args.model,
            memory_mib=args.memory_mib,
            cpus=args.cpus,
            host_memory_mib=args.host_memory_mib,
        )
        login = f"{node.user}@{node.address} port {node.port}"
        print(f"{name}: {login}, {len(node.gpus)} GPUs, {node.host_key_fingerprint}")
    return 0


def _rm(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    for name in args.node:
        cluster.remove(name)
    return 0


def _ls(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    nodes = [node.describe() for node in cluster.nodes()]
    if args.json:
        print(json.dumps({"name": cluster.name, "subnet": str(cluster.subnet), "nodes": nodes}, indent=2))
        return 0
    if not nodes:
        print("no nodes; add one with: python -m portal.sandbox --state DIR add gpu-1")
    for node in nodes:
        gpus = f"{len(node['gpus']) - len(node['lost_gpus'])}/{len(node['gpus'])} GPUs"
        print(f"{node['name']:<20} {node['status']:<12} {node['address']:<15} {gpus:<11} {node['model']}")
    return 0


def _power_cut(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).power_cut()
    return 0


def _boot(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).boot()
    return 0


def _partition(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).partition()
    return 0


def _heal(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).heal()
    return 0


def _freeze(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).freeze()
    return 0


def _thaw(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).thaw()
    return 0


def _slow(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).slow(rate=args.rate, latency_ms=args.latency_ms)
    return 0


def _unslow(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).unslow()
    return 0


def _overheat(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).overheat(args.gpu, args.celsius)
    return 0


def _drop_gpu(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).drop_gpu(args.gpu)
    return 0


def _restore_gpu(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.node(args.node).restore_gpu(args.gpu)
    return 0


def _exec(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    return subprocess.call(cluster.node(args.node).enter_argv(command or ["/bin/bash"]))


def _load_image(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    print(cluster.load_image(args.archive, args.image) if args.archive else cluster.build_mini_image())
    return 0


def _destroy(cluster: SandboxCluster, args: argparse.Namespace) -> int:
    cluster.destroy()
    return 0


_SIMPLE: tuple[tuple[str, Handler, str], ...] = (
    ("power-cut", _power_cut, "take the power away; its disk stays"),
    ("boot", _boot, "switch it on again, with a new boot id"),
    ("partition", _partition, "cut its network; it keeps running"),
    ("heal", _heal, "bring its network back"),
    ("freeze", _freeze, "stop all its processes: it answers pings and nothing else"),
    ("thaw", _thaw, "let a frozen node go on"),
    ("unslow", _unslow, "remove the throttle"),
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="python -m portal.sandbox",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="folder that holds the cluster")
    parser.add_argument("--name", help=f"prefix of links and cgroups (default: the saved one, else {DEFAULT_NAME})")
    parser.add_argument("--subnet", help=f"a private /24 (default: the saved one, else {DEFAULT_SUBNET})")
    commands = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    add = _command(commands, "add", _add, "add nodes and boot them", nodes="+")
    add.add_argument("--gpus", type=int, default=8, help="GPUs per node (default 8)")
    add.add_argument("--model", default="NVIDIA H100 80GB HBM3", help="what NVML calls the GPUs (default: %(default)s)")
    add.add_argument("--memory-mib", type=int, default=81559, help="memory of a GPU (default %(default)s)")
    add.add_argument("--cpus", type=int, help="CPUs the node may use (default: all of the machine)")
    add.add_argument("--host-memory-mib", type=int, default=2048, help="memory of the node (default %(default)s)")
    _command(commands, "rm", _rm, "remove nodes with all they left, also half-made ones", nodes="+")
    listing = _command(commands, "ls", _ls, "list the nodes")
    listing.add_argument("--json", action="store_true", help="everything, for programs")
    for verb, handler, text in _SIMPLE:
        _command(commands, verb, handler, text, nodes=1)
    slow = _command(commands, "slow", _slow, "throttle its network, both ways", nodes=1)
    slow.add_argument("--rate", default="1mbit", help="in tc's words (default %(default)s)")
    slow.add_argument("--latency-ms", type=int, default=400, help="longest queue (default %(default)s)")
    _gpu_command(commands, "overheat", _overheat, "let a GPU report a temperature").add_argument("celsius", type=int)
    _gpu_command(commands, "drop-gpu", _drop_gpu, "let a GPU fall off the bus (Xid 79)")
    _gpu_command(commands, "restore-gpu", _restore_gpu, "bring a GPU back, without its faults")
    execute = _command(commands, "exec", _exec, "run a command in it, not over SSH", nodes=1)
    execute.add_argument("command", nargs=argparse.REMAINDER, help="the command (default: a shell)")
    load = _command(commands, "load-image", _load_image, "make an image present on all nodes")
    load.add_argument("archive", type=Path, nargs="?", help="image archive or root file system tar; none: tiny busybox")
    load.add_argument("image", nargs="?", help="its name (default: the archive's own)")
    _command(commands, "destroy", _destroy, "remove all nodes and every file of the cluster")
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    verb: str,
    handler: Handler,
    text: str,
    nodes: int | str | None = None,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(verb, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(handler=handler)
    if nodes == 1:
        parser.add_argument("node", help="name of the node")
    elif nodes is not None:
        parser.add_argument("node", nargs=str(nodes), help="names of the nodes")
    return parser


def _gpu_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", verb: str, handler: Handler, text: str
) -> argparse.ArgumentParser:
    parser = _command(commands, verb, handler, text, nodes=1)
    parser.add_argument("gpu", type=int, help="number of the GPU, from 0")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status, 1 with a plain message when the sandbox refuses."""
    args = build_parser().parse_args(argv)
    try:
        name, subnet = saved_cluster(args.state) or (DEFAULT_NAME, DEFAULT_SUBNET)
        cluster = SandboxCluster(args.state, name=args.name or name, subnet=args.subnet or subnet)
        handler: Handler = args.handler
        return handler(cluster, args)
    except SandboxError as error:
        print(f"sandbox: {error}", file=sys.stderr)
        return 1
