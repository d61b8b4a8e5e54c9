"""Starts the servers of a test run before Django reads its settings (loaded by `-p tests.plugin`, see pyproject.toml).

TEST_DATABASE_URL and TEST_REDIS_URL name external servers to use instead; BERTH_TEST_DIR another folder than
`.berth/test`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from portal import embedded
from portal.env import REPO_DIR, EnvError
from tests import servers

RUN_VARIABLE = "BERTH_TEST_RUN"  # set by the controller for xdist's workers
KEPT = ("BERTH_TEST_",)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Set the run's environment; a wrapper, because it must come before pytest-django's own hook."""
    try:
        if "PYTEST_XDIST_WORKER" in os.environ:
            _join_as_worker(early_config, os.environ["PYTEST_XDIST_WORKER"])
        else:
            _begin(early_config)
    except (EnvError, embedded.EmbeddedError, servers.TestServersError) as error:
        raise pytest.UsageError(str(error)) from None
    yield


def _begin(config: pytest.Config) -> None:
    base = Path(os.environ.get("BERTH_TEST_DIR") or REPO_DIR / ".berth" / "test").absolute()
    for name in [name for name in os.environ if name.startswith("BERTH_") and not name.startswith(KEPT)]:
        del os.environ[name]  # a developer's own installation must not reach the tests
    run = servers.begin(base, dict(os.environ))
    config.add_cleanup(run.end)
    os.environ[RUN_VARIABLE] = run.id
    os.environ["DATABASE_URL"] = servers.database_url(run.servers.database_url, run.id)
    os.environ["REDIS_URL"] = run.servers.redis_url
    os.environ["BERTH_TEST_DIR"] = str(base)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    _own_place(config, base, "main")


def _join_as_worker(config: pytest.Config, worker: str) -> None:
    _own_place(config, Path(os.environ["BERTH_TEST_DIR"]), worker)


def _own_place(config: pytest.Config, base: Path, name: str) -> None:
    """Give this process a data folder and an empty Redis database of its own."""
    folder = base / "runs" / os.environ[RUN_VARIABLE] / name
    os.environ["BERTH_DATA_DIR"] = str(folder)
    external = bool(os.environ.get("TEST_REDIS_URL"))
    url, lock = servers.claim_redis(base, os.environ["REDIS_URL"], external=external)
    config.add_cleanup(lock.release)
    os.environ["REDIS_URL"] = url
