"""The zipapp's command line: attach, daemon, sampler."""

from __future__ import annotations

import argparse
import os
import sys
from typing import List, Optional

from workers.agent.paths import DEFAULT_HOME, Paths


def main(argv: Optional[List[str]] = None) -> int:
    """Run one of the agent's roles; heavy modules are imported by the role that needs them."""
    parser = argparse.ArgumentParser(prog="berth-agent")
    parser.add_argument("role", choices=("attach", "daemon", "sampler"))
    parser.add_argument("--home", default=DEFAULT_HOME)
    parser.add_argument("--nonce", default="")
    options = parser.parse_args(argv)
    pyz = os.path.abspath(sys.argv[0])
    version = os.path.splitext(os.path.basename(pyz))[0]
    paths = Paths.of(options.home)
    program = [sys.executable, "-I", "-S", "-B", pyz, "--home", paths.home]
    if options.role == "attach":
        from workers.agent import attach

        return attach.main(paths, version, options.nonce, program)
    if options.role == "daemon":
        from workers.agent import daemon

        return daemon.main(paths, version, program)
    from workers.agent import sampler

    return sampler.main()
